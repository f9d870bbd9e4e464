//! How far a partition of the topic `claims` has landed, from which apis derive their users' positions.
//!
//! ```json
//! {"partition":3,"committed":1200,"end":1350,"landed_per_s":812.5,"at_ms":1700000000123}
//! ```

use chrono::DateTime;
use serde::{Deserialize, Serialize, de::Error as _};
use serde_json::json;

use crate::{DecodeError, decode};

/// Progress of one partition, as its lander knows it. Sent on a change, at most once a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PartitionProgress {
    pub partition: i32,
    /// Next offset to land: all before it have ended, landed or rejected.
    pub committed: i64,
    /// Offset that the next message will get, as the lander last saw it.
    pub end: i64,
    /// Claims that recently ended per second; 0 if unknown.
    pub landed_per_s: f64,
    /// When it was measured, by the lander's clock: milliseconds since 1970.
    pub at_ms: i64,
}

impl PartitionProgress {
    /// Returns the key of its message: the partition in decimal.
    pub fn key(&self) -> String {
        self.partition.to_string()
    }

    /// Encodes it. A rate that is not finite becomes 0, unknown.
    pub fn encode(&self) -> Vec<u8> {
        let rate = if self.landed_per_s.is_finite() { self.landed_per_s } else { 0.0 };
        let message = json!({
            "partition": self.partition,
            "committed": self.committed,
            "end": self.end,
            "landed_per_s": rate,
            "at_ms": self.at_ms,
        });
        message.to_string().into_bytes()
    }

    /// Decodes it. Unknown fields are ignored, so that fields can be added.
    ///
    /// # Errors
    ///
    /// Returns an error if the payload is too long or is not JSON of this shape, or if an offset or the time is
    /// impossible.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let read: Self = decode(payload)?;
        let is_possible = read.committed >= 0
            && read.end >= 0
            && DateTime::from_timestamp_millis(read.at_ms).is_some();
        if is_possible {
            return Ok(read);
        }
        let why = "an offset or a time that cannot be";
        Err(DecodeError::Malformed(serde_json::Error::custom(why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        r#"{"partition":3,"committed":1200,"end":1350,"landed_per_s":812.5,"at_ms":1700000000123}"#;

    #[test]
    fn the_message_is_as_documented_and_ignores_fields_it_does_not_know() {
        let partition = 3;
        let landed_per_s = 812.5;
        let at_ms = 1_700_000_000_123;
        let documented =
            PartitionProgress { partition, committed: 1_200, end: 1_350, landed_per_s, at_ms };
        assert_eq!(PartitionProgress::decode(TEXT.as_bytes()).unwrap(), documented);
        assert_eq!(PartitionProgress::decode(&documented.encode()).unwrap(), documented);
        let newer = TEXT.replacen('{', r#"{"more":[1],"#, 1);
        assert_eq!(PartitionProgress::decode(newer.as_bytes()).unwrap(), documented);
        let unknown = PartitionProgress { landed_per_s: f64::NAN, ..documented };
        assert!(
            PartitionProgress::decode(&unknown.encode()).unwrap().landed_per_s.abs() < f64::EPSILON
        );
        assert_eq!(documented.key(), "3");
    }

    #[test]
    fn offsets_and_times_that_cannot_be_are_refused() {
        for (is, becomes) in [
            ("1200", "-9223372036854775808"),
            ("1350", "-1"),
            ("1700000000123", "9223372036854775807"),
            ("1700000000123", "-9223372036854775808"),
        ] {
            let text = TEXT.replace(is, becomes);
            let read = PartitionProgress::decode(text.as_bytes());
            assert!(matches!(read, Err(DecodeError::Malformed(_))), "{text}: {read:?}");
        }
    }
}

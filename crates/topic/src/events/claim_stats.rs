//! Statistics of the answers to claims: what one api answered in one second, for one template.
//!
//! ```json
//! {"api":"api-7-9f86d081884c7d65","sequence":12,"second":1700000000,"template_id":7,
//!  "answers":{"LANDED":[0,3,1],"SOLD_OUT":[40,2]}}
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Upper bounds of the latency buckets, in milliseconds: a bucket counts answers that took at most this long, and
/// longer than the previous bound. The last one also counts longer answers, which should not occur. Part of the format:
/// a change needs another topic.
pub const LATENCY_BOUNDS_MS: [u32; 14] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000];

/// `template_id` of the answers that are counted together: those for unknown templates, and those beyond the number of
/// templates that an api counts separately in one second.
pub const OTHERS: i64 = 0;

/// What one api answered to claims of one template in one second. `api` and `sequence` together identify a message; a
/// repetition is not counted. Several messages of one api and second are added up; a clock set back causes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimStats {
    /// Identifies the process; each start has another one.
    pub api: String,
    /// Number of the message among those of this process, from 0.
    pub sequence: u64,
    /// When it was answered, by the api's clock: seconds since 1970.
    pub second: i64,
    /// The template, or [`OTHERS`]. The message's key is this number in decimal.
    pub template_id: i64,
    /// Number of answers by word and latency bucket ([`LATENCY_BOUNDS_MS`]; empty buckets at the end are left out).
    /// Words: `LANDED`, `REPLAYED`, `ACCEPTED` (202), and the codes of docs/errors.md.
    pub answers: BTreeMap<String, Vec<u64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_as_documented_and_ignores_fields_it_does_not_know() {
        let text = r#"{"api":"api-7","sequence":12,"second":1700000000,"template_id":7,"answers":{"LANDED":[0,3,1],"SOLD_OUT":[40,2]}}"#;
        let read: ClaimStats = serde_json::from_str(text).unwrap();
        assert_eq!((read.sequence, read.answers["LANDED"][1]), (12, 3));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        let newer = text.replacen('{', r#"{"more":[1],"#, 1);
        assert_eq!(serde_json::from_str::<ClaimStats>(&newer).unwrap(), read);
    }

    #[test]
    fn the_bounds_rise() {
        assert!(LATENCY_BOUNDS_MS.is_sorted_by(|one, next| one < next));
    }
}

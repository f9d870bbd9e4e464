//! What becomes of any message, for `fuzz/` and the test that runs its corpus. Not for other callers.

use chrono::{DateTime, Utc};
use topic::Message;

use crate::{
    movements,
    wake_up::{self, PendingWakeUps, WakeUps},
    work::Work,
};

/// A moment of the year 2027, in milliseconds since 1970.
const NOW_MS: i64 = 1_800_000_000_000;

/// Takes the data as the payload of a message of each topic that the consumer reads, and its last bytes as the time of
/// the message. Panics only if a handler does, or a result is impossible.
pub fn consumed_message(data: &[u8]) {
    let now = DateTime::from_timestamp_millis(NOW_MS).unwrap_or_default();
    let stamp = data.last_chunk().map(|bytes| i64::from_be_bytes(*bytes));
    let message = Message {
        topic: "t".to_owned(),
        partition: 0,
        offset: 0,
        key: b"7".to_vec(),
        payload: Some(data.to_vec()),
        headers: Vec::new(),
        timestamp_ms: stamp,
    };
    let batch = [message];
    changed(&batch, now);
    woken(&batch, now);
    if let Ok(Some((movement, _))) = movements::read(&batch[0]) {
        assert!(movement.seq > 0, "{movement:?}");
    }
}

fn changed(batch: &[Message], now: DateTime<Utc>) {
    let work = Work::of(batch);
    for seconds in [work.lag_seconds(now), work.delay_seconds(now)].into_iter().flatten() {
        assert!(seconds.is_finite() && seconds >= 0.0, "{seconds} seconds");
    }
    for change in work.users.iter().flat_map(|(_, changes)| changes) {
        let number =
            |part: &str| part.len() <= 19 && part.bytes().all(|byte| byte.is_ascii_digit());
        assert!(change.entry().split('|').all(number), "{}", change.entry());
    }
}

fn woken(batch: &[Message], now: DateTime<Utc>) {
    let mut pending = PendingWakeUps::default();
    pending.add(&WakeUps::of(batch), batch.to_vec(), now);
    for wake_up in pending.messages() {
        assert!((0..32).contains(&wake_up::partition(wake_up.shard, 32)), "{wake_up:?}");
    }
    assert_eq!(pending.take().len(), batch.len());
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Numbers at which arithmetic or a format ends.
    const ENDS: [i64; 14] = [
        i64::MIN,
        i64::MIN + 1,
        -8_334_601_228_800_001,
        -62_198_755_200_000,
        -1,
        0,
        1,
        255,
        999_999_999_999_999,
        253_402_300_799_999,
        253_402_300_800_000,
        8_210_266_876_799_999,
        i64::MAX - 1,
        i64::MAX,
    ];

    fn coupon() -> Value {
        json!({
            "before": { "id": 1, "template_id": 1, "user_id": 7, "claim_no": 1, "claim_id": 1, "merchant_id": 1,
                "status": 0, "version": 1, "expiry_shard": 7, "claimed_at": 1, "changed_at": 1, "valid_from": 1,
                "valid_until": 2 },
            "after": { "id": 1, "template_id": 1, "user_id": 7, "claim_no": 1, "claim_id": 1, "merchant_id": 1,
                "status": 0, "version": 2, "expiry_shard": 7, "claimed_at": 1, "changed_at": 1, "valid_from": 1,
                "valid_until": 2 },
            "op": "u", "source": { "ts_ms": 1, "pos": 1, "row": 1 }, "ts_ms": 1,
        })
    }

    fn movement() -> Value {
        json!({
            "before": null,
            "after": { "template_id": 1, "seq": 1, "delta": 1, "reason": "r", "actor": "a", "created_at": 1,
                "total_after": 1, "stock_after": 1, "kind": 0, "delta_stock": 1, "returned": "7/1/1" },
            "op": "c", "source": { "ts_ms": 1 }, "ts_ms": 1,
        })
    }

    /// Returns the paths of all numbers in a message.
    fn numbers(of: &Value, path: &str, found: &mut Vec<String>) {
        match of {
            Value::Number(_) => found.push(path.to_owned()),
            Value::Object(fields) => {
                fields
                    .iter()
                    .for_each(|(name, field)| numbers(field, &format!("{path}/{name}"), found));
            }
            _ => {}
        }
    }

    #[test]
    fn no_number_in_a_message_ends_a_handler() {
        for message in [coupon(), movement()] {
            let mut paths = Vec::new();
            numbers(&message, "", &mut paths);
            let with = |path: &str, number: i64, of: &Value| {
                let mut changed = of.clone();
                *changed.pointer_mut(path).unwrap() = json!(number);
                changed
            };
            for path in &paths {
                for end in ENDS {
                    consumed_message(with(path, end, &message).to_string().as_bytes());
                }
                for (other, end) in
                    paths.iter().flat_map(|other| [i64::MIN, i64::MAX].map(|end| (other, end)))
                {
                    let one = with(path, i64::MAX, &message);
                    consumed_message(with(other, end, &one).to_string().as_bytes());
                }
            }
        }
    }

    #[test]
    fn no_time_of_a_message_ends_a_handler() {
        for stamp in ENDS {
            consumed_message(&[b"{".as_slice(), &stamp.to_be_bytes()].concat());
        }
    }
}

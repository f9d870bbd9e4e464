//! What the gate's scripts answer and its keys hold, for `fuzz/` and the test that runs its corpus; nobody else
//! may call it. A user's entry is read by [`crate::Entry`].

use redis::Value;

use crate::{InFlight, Refusal, Verdict, gate, keys::Keys, operator};

/// Most values of one answer that are read.
const VALUES_MAX: usize = 100;

/// The answer of `claim.lua` or `move.lua`: a line for each value, of which digits are a number and all else is text.
/// What a refusal says is what stands there.
pub fn gate_answer(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n').take(VALUES_MAX);
    let answer: Vec<Value> = lines.map(value).collect();
    let _read = operator::moved(&answer);
    if let Some(Verdict::Refused { refusal, .. }) = gate::verdict(&answer) {
        let said = match refusal {
            Refusal::NotOpen { starts_at } => starts_at.timestamp_millis(),
            Refusal::Limit { taken } => taken.into(),
            Refusal::Insufficient { left } => left,
            _ => return,
        };
        assert_eq!(answer.get(2), Some(&Value::Int(said)), "another {refusal:?}");
    }
}

/// A prefix, the end of the line, a key: whose gate it is of, the same for a key as we write it.
pub fn gate_key(data: &[u8]) {
    let text = str::from_utf8(data).ok();
    let Some((prefix, key)) = text.and_then(|text| text.split_once('\n')) else { return };
    if let Some(template) = Keys::of_meta(prefix, key) {
        let written = Keys::new(prefix, template).meta();
        assert_eq!(Keys::of_meta(prefix, &written), Some(template), "{key:?} as {written:?}");
    }
}

/// An admission in flight: a member, a space, and its score. One that is read means the same when it is written.
pub fn in_flight(data: &[u8]) {
    let text = str::from_utf8(data).ok();
    let Some((member, score)) = text.and_then(|text| text.rsplit_once(' ')) else { return };
    let Ok(score) = score.parse::<i64>() else { return };
    if let Some(read) = InFlight::read(member, score) {
        assert_eq!(read.admitted_at.timestamp_millis(), score, "another time");
        let written = format!("{}:{}", read.id, read.user);
        assert_eq!(InFlight::read(&written, score), Some(read), "{member:?} as {written:?}");
    }
}

fn value(line: &[u8]) -> Value {
    let number: Option<i64> = str::from_utf8(line).ok().and_then(|text| text.parse().ok());
    number.map_or_else(|| Value::BulkString(line.to_vec()), Value::Int)
}

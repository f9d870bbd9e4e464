//! Parsers of script answers and gate keys, for `fuzz/` and the test that runs its corpus; not to be called elsewhere.
//! [`crate::Entry`] decodes users' entries.

use redis::Value;

use crate::{InFlight, Refusal, Verdict, gate, keys::Keys, operator};

/// Most values to read of one answer.
const VALUES_MAX: usize = 100;

/// Parses an answer of `claim.lua` or `move.lua`, one line for each value; digits are a number, all else is text. The
/// details of a refusal must equal the value sent.
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

/// Parses a prefix, a line break and a key. A key written for the template that was read must be read as the same
/// template.
pub fn gate_key(data: &[u8]) {
    let text = str::from_utf8(data).ok();
    let Some((prefix, key)) = text.and_then(|text| text.split_once('\n')) else { return };
    if let Some(template) = Keys::of_meta(prefix, key) {
        let written = Keys::new(prefix, template).meta();
        assert_eq!(Keys::of_meta(prefix, &written), Some(template), "{key:?} as {written:?}");
    }
}

/// Parses an admission in flight: a member, a space, and its score. What was read must survive being written again.
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

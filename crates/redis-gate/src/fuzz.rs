//! Parsers of script answers and gate keys, for `fuzz/` and the test that runs its corpus; not to be called elsewhere.
//! [`crate::Entry`] decodes users' entries.

use coupon::TemplateId;
use redis::Value;

use crate::{InFlight, OutboxEntry, Refusal, Run, Verdict, inspect, keys::Keys, operator, verdict};

/// Most values to read of one answer.
const VALUES_MAX: usize = 100;

/// Parses an answer of `claim.lua` or `move.lua`, one line for each value; digits are a number, all else is text. The
/// details of a refusal must equal the value sent.
pub fn gate_answer(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n').take(VALUES_MAX);
    let answer: Vec<Value> = lines.map(value).collect();
    let _read = operator::moved(&answer);
    assert!(verdict::wait(&answer) <= 2 * crate::REFUSING, "a longer note than any script makes");
    if let Some(Verdict::Refused { refusal, .. }) = verdict::verdict(&answer, &Run::named("a/b")) {
        let said = match refusal {
            Refusal::NotOpen { starts_at } => starts_at.timestamp_millis(),
            Refusal::Limit { taken } => taken.into(),
            Refusal::Insufficient { left } => left,
            Refusal::Banned { lapses } => lapses.into(),
            _ => return,
        };
        assert_eq!(answer.get(3), Some(&Value::Int(said)), "another {refusal:?}");
    }
}

/// Parses the fields of meta: names and values in turn, one line each. No number is one that a gate cannot have, so what
/// is computed with it does not overflow.
pub fn gate_meta(data: &[u8]) {
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').take(VALUES_MAX).collect();
    let pair = |pair: &[&[u8]]| (pair[0].to_vec(), pair[1].to_vec());
    let meta = inspect::read_meta(&lines.chunks_exact(2).map(pair).collect(), &Run::named("a/b"));
    let (starts, ends) = meta.window_ms;
    let most = 1 << 53;
    for number in [meta.epoch.0, meta.stock, meta.movement, meta.version, meta.limit, starts, ends]
    {
        assert!((-most..most).contains(&number), "{meta:?}");
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
    if let Some(template) = Keys::of_outbox(prefix, key) {
        let written = Keys::new(prefix, template).outbox();
        assert_eq!(Keys::of_outbox(prefix, &written), Some(template), "{key:?} as {written:?}");
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

/// Parses an entry of the outbox: its id, then names and values in turn, one line each. An entry that cannot be read is
/// shown without what steers a terminal.
pub fn outbox_entry(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n').take(VALUES_MAX);
    let id = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let fields: Vec<Vec<u8>> = lines.map(<[u8]>::to_vec).collect();
    match OutboxEntry::read(TemplateId(1), id, &fields, u64::MAX).claim {
        Ok(claim) => {
            let numbers = &claim.admission.numbers;
            let asked = &claim.admission.claim;
            assert_eq!(asked.claimed_at, claim.admitted_at, "another time");
            assert!(numbers.is_empty() || numbers.len() == asked.quantity as usize, "{numbers:?}");
        }
        Err(error) => {
            let plain = |byte: u8| byte == b'\n' || (0x20..0x7f).contains(&byte);
            assert!(error.entry.bytes().all(plain), "{error:?}");
        }
    }
}

fn value(line: &[u8]) -> Value {
    let number: Option<i64> = str::from_utf8(line).ok().and_then(|text| text.parse().ok());
    number.map_or_else(|| Value::BulkString(line.to_vec()), Value::Int)
}

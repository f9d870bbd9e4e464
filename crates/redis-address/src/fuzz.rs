//! Entry point for `fuzz/` and for the test that runs its corpus: parsing what cluster nodes report. Not for other use.

use redis::Value;

use crate::{cluster, masters};

/// Checks an answer to `CLUSTER SLOTS`. Each line is a range, of words separated by spaces: first slot, last slot, host
/// and port of the master. Digits are a number, `nil` is null, all else is text. A range must be read as written, and
/// in a complete set of ranges each slot must lead to its master.
pub fn cluster_slots(data: &[u8]) {
    let mut ranges = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let mut parts: Vec<Value> = words.iter().map(|word| value(word)).collect();
        let master = parts.split_off(parts.len().min(2));
        parts.push(Value::Array(master));
        let Ok((first, last, (host, port))) = cluster::range(parts) else { return };
        let said = [0, 1, 3].map(|at| words.get(at).and_then(|word| number(word)));
        let read = [first, last, port].map(|number| Some(i64::from(number)));
        assert_eq!(read, said, "another range");
        ranges.push((first, last, (host, port)));
    }
    let masters = cluster::masters(ranges.clone());
    let slots: Vec<_> = masters.iter().map(|(_, slots)| slots.as_slice()).collect();
    let Ok(whole) = masters::ranges(&slots) else { return };
    for (first, last, address) in ranges {
        for slot in [first, last] {
            let at = whole.partition_point(|(end, _)| *end < slot);
            let owner = whole.get(at).and_then(|(_, owner)| masters.get(*owner));
            assert_eq!(owner.map(|(owner, _)| owner), Some(&address), "whose {slot} is");
        }
    }
}

fn value(word: &[u8]) -> Value {
    match number(word) {
        Some(number) => Value::Int(number),
        None if word == b"nil" => Value::Nil,
        None => Value::BulkString(word.to_vec()),
    }
}

fn number(word: &[u8]) -> Option<i64> {
    str::from_utf8(word).ok()?.parse().ok()
}

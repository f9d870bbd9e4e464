//! An entry of the outbox, as `claim.lua` appends it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use coupon::{
    AcceptAfter, Admission, Claim, ClaimId, Epoch, PayloadHash, QueuedClaim, RequestId, TemplateId,
    UserId, limit,
};
use thiserror::Error;

/// An entry of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEntry {
    /// Its id in the stream, unique in one run of Redis.
    pub id: String,
    /// How long it has been in the outbox, by the clock of Redis. If that clock went back, how far the entry's time is
    /// ahead of it; otherwise the entry would count as new until the clock reaches that time.
    pub age: Duration,
    /// The claim, if this version can read it.
    pub claim: Result<QueuedClaim, OutboxError>,
}

/// An entry that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the field {field} of an outbox entry is missing or cannot be read")]
pub struct OutboxError {
    /// The first such field.
    pub field: &'static str,
    /// The entry as text, one `field=value` a line, with all but printable ASCII escaped.
    pub entry: String,
}

impl OutboxEntry {
    /// Reads only the claim's id.
    pub(crate) fn claim_id(fields: &[Vec<u8>]) -> Option<ClaimId> {
        let pair = fields.chunks_exact(2).find(|pair| pair[0] == b"id")?;
        str::from_utf8(&pair[1]).ok()?.parse().ok()
    }

    /// Reads an entry from its fields and values in turn.
    pub(crate) fn read(template: TemplateId, id: String, fields: &[Vec<u8>], now_ms: u64) -> Self {
        let added_ms = id.split_once('-').and_then(|(ms, _)| ms.parse().ok());
        let age = Duration::from_millis(now_ms.abs_diff(added_ms.unwrap_or(now_ms)));
        let claim = claim_of(template, fields)
            .map_err(|field| OutboxError { field, entry: text_of(fields) });
        Self { id, age, claim }
    }
}

/// Reads the claim, or returns the first field that is missing or cannot be read.
fn claim_of(template: TemplateId, fields: &[Vec<u8>]) -> Result<QueuedClaim, &'static str> {
    let bytes = |name: &'static str| {
        let named = |pair: &&[Vec<u8>]| pair[0] == name.as_bytes();
        let pair = fields.chunks_exact(2).find(named);
        pair.map(|pair| pair[1].as_slice()).ok_or(name)
    };
    let text = |name| str::from_utf8(bytes(name)?).map_err(|_| name);
    let number = |name| text(name)?.parse::<i64>().map_err(|_| name);
    let at = Some(number("at")?).filter(|ms| limit::CLAIMED_AT_MS.contains(ms));
    let admitted_at = at.and_then(DateTime::<Utc>::from_timestamp_millis).ok_or("at")?;
    let quantity = u32::try_from(number("quantity")?).map_err(|_| "quantity")?;
    let numbers = bytes("numbers")?.to_vec();
    // Without a limit there are none.
    if !numbers.is_empty() && u32::try_from(numbers.len()) != Ok(quantity) {
        return Err("numbers");
    }
    let trace_parent = text("trace")?;
    let claim = Claim {
        id: ClaimId(number("id")?),
        template_id: template,
        user_id: UserId(number("user")?),
        request_id: RequestId::from_stored(text("key")?.as_bytes()),
        payload_hash: PayloadHash(bytes("hash")?.try_into().map_err(|_| "hash")?),
        quantity,
        claimed_at: admitted_at,
        trace_parent: (!trace_parent.is_empty()).then(|| trace_parent.to_owned()),
    };
    let after = u8::try_from(number("after")?).map_err(|_| "after")?;
    Ok(QueuedClaim {
        admission: Admission { claim, epoch: Epoch(number("epoch")?), numbers },
        accept_after: AcceptAfter::from_code(after).map_err(|_| "after")?,
        admitted_at,
        left_after: Some(number("left")?),
    })
}

fn text_of(fields: &[Vec<u8>]) -> String {
    let line = |pair: &[Vec<u8>]| {
        let value = pair.get(1).map(|value| value.escape_ascii().to_string()).unwrap_or_default();
        format!("{}={value}", pair[0].escape_ascii())
    };
    fields.chunks(2).map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEMPLATE: TemplateId = TemplateId(1);

    fn fields() -> Vec<(&'static str, Vec<u8>)> {
        let text = |text: &str| text.as_bytes().to_vec();
        vec![
            ("id", text("9007199254740993")),
            ("user", text("70")),
            ("key", text("a")),
            ("hash", vec![b'\r'; 16]),
            ("quantity", text("2")),
            ("numbers", vec![1, 255]),
            ("epoch", text("7")),
            ("at", text("1800000000000")),
            ("left", text("8")),
            ("after", text("2")),
            ("trace", text("")),
        ]
    }

    fn read(fields: &[(&'static str, Vec<u8>)]) -> OutboxEntry {
        let pair = |(name, value): &(&str, Vec<u8>)| [name.as_bytes().to_vec(), value.clone()];
        let words: Vec<Vec<u8>> = fields.iter().flat_map(pair).collect();
        OutboxEntry::read(TEMPLATE, "1800000000000-3".to_owned(), &words, 1_800_000_002_000)
    }

    #[test]
    fn an_entry_is_the_claim_that_was_admitted() {
        let entry = read(&fields());
        assert_eq!(entry.age, Duration::from_secs(2));
        let claim = entry.claim.unwrap();
        assert_eq!((claim.accept_after, claim.left_after), (AcceptAfter::Topic, Some(8)));
        let Admission { claim: admitted, epoch, numbers } = claim.admission;
        assert_eq!((epoch, numbers), (Epoch(7), vec![1, 255]));
        assert_eq!((admitted.id, admitted.user_id), (ClaimId((1 << 53) + 1), UserId(70)));
        assert_eq!((admitted.claimed_at, admitted.trace_parent), (claim.admitted_at, None));
        assert_eq!(admitted.payload_hash, PayloadHash([b'\r'; 16]));
    }

    /// A relay leaves young entries to the api.
    #[test]
    fn an_entry_from_the_future_of_a_clock_that_went_back_is_not_new() {
        let words = [b"at".to_vec(), b"x".to_vec()];
        let age =
            |now_ms| OutboxEntry::read(TEMPLATE, "1800000000000-3".to_owned(), &words, now_ms).age;
        assert_eq!(age(1_800_000_000_000), Duration::ZERO);
        assert_eq!(age(1_799_996_400_000), Duration::from_hours(1));
    }

    #[test]
    fn what_cannot_be_read_is_named_and_shown() {
        for at in 0..fields().len() {
            let (name, _) = fields()[at];
            let mut without = fields();
            without.remove(at);
            let error = read(&without).claim.unwrap_err();
            assert_eq!(error.field, name);
            assert!(error.to_string().contains(name), "{error}");
        }
        let mut absurd = fields();
        absurd[7].1 = b"8210266876799999".to_vec();
        assert_eq!(read(&absurd).claim.unwrap_err().field, "at", "its validity would have no end");
        let mut wrong = fields();
        wrong[5].1 = vec![1];
        let error = read(&wrong).claim.unwrap_err();
        assert_eq!(error.field, "numbers");
        assert!(error.entry.contains("numbers=\\x01\n"), "{}", error.entry);
    }

    proptest! {
        #[test]
        fn any_fields_are_a_claim_or_an_error(fields: Vec<Vec<u8>>, id: String, now_ms: u64) {
            drop(OutboxEntry::read(TEMPLATE, id, &fields, now_ms));
        }
    }
}

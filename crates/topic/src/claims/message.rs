//! The message of a queued claim.
//!
//! ```json
//! {"v":1,"id":"7","template_id":"3","bucket":0,"user_id":"42","request_id":"k-1",
//!  "payload_hash":"000102030405060708090a0b0c0d0e0f","quantity":2,"numbers":[1,2],"epoch":5,
//!  "accept_after":"topic","admitted_at_ms":1700000000123,"left_after":98,"trace_parent":null}
//! ```
//! A decoded claim lands, so a message that no gate can have written is refused as a whole.

use std::collections::BTreeSet;

use chrono::DateTime;
use coupon::{
    AcceptAfter, Admission, Claim, ClaimId, Epoch, Numbers, PayloadHash, QueuedClaim, RequestId,
    TemplateId, UserId, limit,
};
use serde::{Deserialize, de::Error as _};
use serde_json::json;

use super::partition::ONLY_BUCKET;
use crate::{DecodeError, decode};

/// The only version. Fields may be added under it.
const VERSION: u32 = 1;

/// Digits of a payload hash.
const HASH_DIGITS: usize = 32;

#[derive(Deserialize)]
struct Wire {
    v: u32,
    id: ClaimId,
    template_id: TemplateId,
    bucket: u32,
    user_id: UserId,
    request_id: String,
    payload_hash: String,
    quantity: u32,
    numbers: Numbers,
    epoch: i64,
    accept_after: String,
    admitted_at_ms: i64,
    left_after: Option<i64>,
    trace_parent: Option<String>,
}

/// Encodes a claim.
pub fn encode_claim(queued: &QueuedClaim) -> Vec<u8> {
    let Admission { claim, epoch, numbers } = &queued.admission;
    let message = json!({
        "v": VERSION,
        "id": claim.id,
        "template_id": claim.template_id,
        "bucket": ONLY_BUCKET,
        "user_id": claim.user_id,
        "request_id": claim.request_id.as_str(),
        "payload_hash": hash_text(claim.payload_hash),
        "quantity": claim.quantity,
        "numbers": numbers,
        "epoch": epoch.0,
        "accept_after": queued.accept_after.word(),
        "admitted_at_ms": queued.admitted_at.timestamp_millis(),
        "left_after": queued.left_after,
        "trace_parent": claim.trace_parent,
    });
    message.to_string().into_bytes()
}

/// Decodes a claim. The time of the claim is that of its admission. Unknown fields are ignored, so that fields can be
/// added.
///
/// # Errors
///
/// Returns an error if the payload is too long or not JSON, or no gate can have queued such a claim.
pub fn decode_claim(payload: &[u8]) -> Result<QueuedClaim, DecodeError> {
    let wire: Wire = decode(payload)?;
    claim_of(wire).map_err(|why| DecodeError::Malformed(serde_json::Error::custom(why)))
}

fn claim_of(wire: Wire) -> Result<QueuedClaim, &'static str> {
    if wire.v != VERSION {
        return Err("v is not 1");
    }
    if wire.bucket != ONLY_BUCKET {
        return Err("bucket is not 0");
    }
    let admitted_at = Some(wire.admitted_at_ms)
        .filter(|ms| limit::CLAIMED_AT_MS.contains(ms))
        .and_then(DateTime::from_timestamp_millis)
        .ok_or("admitted_at_ms is no time of a claim")?;
    check_numbers(wire.quantity, &wire.numbers)?;
    let claim = Claim {
        id: wire.id,
        template_id: wire.template_id,
        user_id: wire.user_id,
        request_id: request_id(&wire.request_id).ok_or("request_id is no client's and no job's")?,
        payload_hash: hash_of(&wire.payload_hash).ok_or("payload_hash is not 32 hex digits")?,
        quantity: wire.quantity,
        claimed_at: admitted_at,
        trace_parent: wire.trace_parent,
    };
    let accept_after = AcceptAfter::from_word(&wire.accept_after)
        .ok_or("accept_after is not gate, replica or topic")?;
    if wire.epoch <= Epoch::UNKNOWN.0 {
        return Err("epoch is not above 0");
    }
    Ok(QueuedClaim {
        admission: Admission { claim, epoch: Epoch(wire.epoch), numbers: wire.numbers },
        accept_after,
        admitted_at,
        left_after: wire.left_after,
    })
}

/// Checks that there is one number for each coupon, or none for a template without a limit.
fn check_numbers(quantity: u32, numbers: &[u8]) -> Result<(), &'static str> {
    if !(1..=limit::QUANTITY_MAX).contains(&quantity) {
        return Err("quantity is out of range");
    }
    let given = numbers.iter().collect::<BTreeSet<_>>();
    let is_whole = numbers.is_empty() || u32::try_from(given.len()) == Ok(quantity);
    let are_in_range =
        numbers.iter().all(|number| (1..=limit::PER_USER_MAX).contains(&u32::from(*number)));
    if is_whole && given.len() == numbers.len() && are_in_range {
        Ok(())
    } else {
        Err("numbers do not fit the quantity")
    }
}

/// Parses the key of a client or of a job's row, or of a claim without a key. A fence's key would stop another claim.
fn request_id(text: &str) -> Option<RequestId> {
    if let Ok(id) = RequestId::from_client(text) {
        return Some(id);
    }
    let stored = RequestId::from_stored(text.as_bytes());
    let is_short = text.len() <= limit::REQUEST_ID_BYTES_MAX;
    let is_plain = text.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    let is_ours = stored.is_grant() && is_short && is_plain;
    (is_ours || stored == RequestId::absent()).then_some(stored)
}

fn hash_text(hash: PayloadHash) -> String {
    format!("{:032x}", u128::from_be_bytes(hash.0))
}

fn hash_of(text: &str) -> Option<PayloadHash> {
    let is_hex = text.len() == HASH_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_hex.then(|| u128::from_str_radix(text, 16).ok())??;
    Some(PayloadHash(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use coupon::JobId;
    use proptest::{collection::btree_set, option, prelude::*, sample::select};

    use super::*;

    /// As in the documentation of this file.
    const TEXT: &str = r#"{"v":1,"id":"7","template_id":"3","bucket":0,"user_id":"42","request_id":"k-1",
        "payload_hash":"000102030405060708090a0b0c0d0e0f","quantity":2,"numbers":[1,2],"epoch":5,
        "accept_after":"topic","admitted_at_ms":1700000000123,"left_after":98,"trace_parent":null}"#;

    fn documented() -> QueuedClaim {
        let admitted_at = DateTime::from_timestamp_millis(1_700_000_000_123).unwrap();
        let claim = Claim {
            id: ClaimId(7),
            template_id: TemplateId(3),
            user_id: UserId(42),
            request_id: RequestId::from_client("k-1").unwrap(),
            payload_hash: PayloadHash([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
            quantity: 2,
            claimed_at: admitted_at,
            trace_parent: None,
        };
        let admission = Admission { claim, epoch: Epoch(5), numbers: vec![1, 2] };
        let accept_after = AcceptAfter::Topic;
        let left_after = Some(98);
        QueuedClaim { admission, accept_after, admitted_at, left_after }
    }

    #[test]
    fn the_message_is_as_documented_and_ignores_fields_it_does_not_know() {
        assert_eq!(decode_claim(TEXT.as_bytes()).unwrap(), documented());
        let newer = TEXT.replacen('{', r#"{"more":[1],"#, 1);
        assert_eq!(decode_claim(newer.as_bytes()).unwrap(), documented());
        let written: serde_json::Value =
            serde_json::from_slice(&encode_claim(&documented())).unwrap();
        assert_eq!(written, serde_json::from_str::<serde_json::Value>(TEXT).unwrap());
    }

    #[test]
    fn what_no_gate_can_have_queued_is_refused() {
        for (right, wrong) in [
            (r#""v":1"#, r#""v":2"#),
            (r#""bucket":0"#, r#""bucket":1"#),
            (r#""id":"7""#, r#""id":7"#),
            (r#""user_id":"42""#, r#""user_id":"-42""#),
            (r#""request_id":"k-1""#, r#""request_id":"~7""#),
            (r#""request_id":"k-1""#, r#""request_id":"""#),
            ("0d0e0f", "0d0e0"),
            ("0d0e0f", "0d0e0g"),
            (r#""quantity":2"#, r#""quantity":3"#),
            (r#""quantity":2,"numbers":[1,2]"#, r#""quantity":0,"numbers":[]"#),
            (r#""quantity":2,"numbers":[1,2]"#, r#""quantity":101,"numbers":[]"#),
            ("[1,2]", "[1,1]"),
            ("[1,2]", "[0,1]"),
            ("[1,2]", "[1,101]"),
            ("[1,2]", "[1,256]"),
            (r#""epoch":5"#, r#""epoch":0"#),
            (r#""accept_after":"topic""#, r#""accept_after":"never""#),
            ("1700000000123", "9223372036854775807"),
            ("1700000000123", "8210266876799999"),
            ("1700000000123", "221845392000000"),
            ("1700000000123", "946684799999"),
            ("1700000000123", "-62198755200001"),
        ] {
            let text = TEXT.replacen(right, wrong, 1);
            assert_ne!(text, TEXT, "{right}");
            assert!(decode_claim(text.as_bytes()).is_err(), "{wrong}");
        }
    }

    fn keys() -> impl Strategy<Value = RequestId> {
        prop_oneof![
            "[!-}][!-~]{1,63}".prop_map(|text| RequestId::from_client(&text).unwrap()),
            Just(RequestId::absent()),
            (0..i64::MAX, any::<u32>()).prop_map(|(job, row)| RequestId::grant(JobId(job), row)),
        ]
    }

    fn numbers() -> impl Strategy<Value = (u32, Numbers)> {
        let given = btree_set(1..=100_u8, 1..=100).prop_map(|numbers| {
            (u32::try_from(numbers.len()).unwrap(), numbers.into_iter().collect::<Numbers>())
        });
        prop_oneof![given, (1..=100_u32).prop_map(|quantity| (quantity, Numbers::new()))]
    }

    prop_compose! {
        fn claims()(
            ids in (0..i64::MAX, 0..i64::MAX, 0..i64::MAX, 1..i64::MAX),
            request_id in keys(),
            hash in any::<[u8; 16]>(),
            (quantity, numbers) in numbers(),
            accept_after in select(AcceptAfter::ALL.to_vec()),
            ms in limit::CLAIMED_AT_MS,
            left_after in option::of(any::<i64>()),
            trace_parent in option::of(".*"),
        ) -> QueuedClaim {
            let admitted_at = DateTime::from_timestamp_millis(ms).unwrap();
            let claim = Claim {
                id: ClaimId(ids.0),
                template_id: TemplateId(ids.1),
                user_id: UserId(ids.2),
                request_id,
                payload_hash: PayloadHash(hash),
                quantity,
                claimed_at: admitted_at,
                trace_parent,
            };
            let admission = Admission { claim, epoch: Epoch(ids.3), numbers };
            QueuedClaim { admission, accept_after, admitted_at, left_after }
        }
    }

    proptest! {
        #[test]
        fn a_claim_arrives_as_it_was_sent(claim in claims()) {
            prop_assert_eq!(decode_claim(&encode_claim(&claim)).unwrap(), claim);
        }
    }
}

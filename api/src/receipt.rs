//! Receipts of queued claims: what a client shows to follow a claim of which MySQL has no row yet.
//!
//! The platform stores no receipt. A receipt carries what a poll needs beside path and token: the epoch under which the
//! claim can land, when it was accepted, its place in the queue if that is known, and its key. The signature covers
//! these, the template, the user and the claim, so it is valid for this user and this claim only. All apis have the
//! same secret.
//!
//! Its bytes, as base64url without padding: version (1), epoch (8), accepted at in milliseconds (8), 1 or 0 for with or
//! without a place (1), partition (4) and offset (8) of a place, the key, and the signature (32). Numbers are big-endian.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimId, Epoch, RequestId, TemplateId, UserId, limit};
use hmac::{Hmac, KeyInit, Mac};
use landing::queue::QueuePosition;
use sha2::{Digest, Sha256};

use crate::{code::Code, problem::Problem};

/// The form of the bytes. Another form gets another number, so that apis of two releases do not misread each other.
const VERSION: u8 = 1;

/// How long a receipt is valid: the retention of the topic of claims, after which an unlanded claim is gone.
const AGE_MAX: TimeDelta = TimeDelta::days(7);

/// Bytes of an HMAC-SHA256.
const SIGNATURE_BYTES: usize = 32;

/// Most characters of a receipt: of one with a place and the longest key.
const CHARS_MAX: usize = (30 + limit::REQUEST_ID_BYTES_MAX + SIGNATURE_BYTES).div_ceil(3) * 4;

/// The claim that a receipt is for. None of this is in the receipt's text: path and token have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) template: TemplateId,
    pub(crate) user: UserId,
    pub(crate) id: ClaimId,
}

/// What a receipt says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The epoch under which the claim can land.
    pub(crate) epoch: Epoch,
    pub(crate) accepted_at: DateTime<Utc>,
    /// Its place in the queue. `None`: the api did not append it itself.
    pub(crate) place: Option<QueuePosition>,
    pub(crate) key: RequestId,
}

/// Signs and reads receipts.
#[derive(Clone)]
pub(crate) struct Receipts {
    signer: Hmac<Sha256>,
}

impl Receipts {
    /// Signs by `secret` or, if it is empty, by a secret that follows from the operator's key, which all apis share too.
    pub(crate) fn new(secret: &str, operator_key: &str) -> Self {
        if !secret.is_empty() {
            return Self { signer: signer(secret.as_bytes()) };
        }
        let derived = Sha256::new_with_prefix(b"receipts of claims: ").chain_update(operator_key);
        Self { signer: signer(&derived.finalize()) }
    }

    /// Returns the text of a receipt.
    pub(crate) fn issue(&self, owner: Owner, receipt: &Receipt) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend(receipt.epoch.0.to_be_bytes());
        bytes.extend(receipt.accepted_at.timestamp_millis().to_be_bytes());
        match receipt.place {
            Some(QueuePosition { partition, offset }) => {
                bytes.push(1);
                bytes.extend(partition.to_be_bytes());
                bytes.extend(offset.to_be_bytes());
            }
            None => bytes.push(0),
        }
        bytes.extend(receipt.key.as_str().as_bytes());
        let signature = self.over(owner, &bytes).finalize().into_bytes();
        bytes.extend_from_slice(signature.as_slice());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads a receipt that was issued for this claim.
    ///
    /// # Errors
    /// It was not, it is damaged, or it is older than [`AGE_MAX`].
    pub(crate) fn read(
        &self,
        text: &str,
        owner: Owner,
        now: DateTime<Utc>,
    ) -> Result<Receipt, Problem> {
        let receipt = self.genuine(text, owner).ok_or_else(not_of_claim)?;
        if now - receipt.accepted_at > AGE_MAX {
            return Err(too_old());
        }
        Ok(receipt)
    }

    /// Returns what a receipt says if it is signed for this claim.
    fn genuine(&self, text: &str, owner: Owner) -> Option<Receipt> {
        if text.len() > CHARS_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (bytes, signature) = bytes.split_last_chunk::<SIGNATURE_BYTES>()?;
        self.over(owner, bytes).verify_slice(signature).ok()?;
        parse(bytes)
    }

    /// The signature over a receipt's bytes and the claim that it is for.
    fn over(&self, owner: Owner, bytes: &[u8]) -> Hmac<Sha256> {
        let Owner { template, user, id } = owner;
        let mut signer = self.signer.clone();
        for number in [template.0, user.0, id.0] {
            signer.update(&number.to_be_bytes());
        }
        signer.update(bytes);
        signer
    }
}

fn signer(secret: &[u8]) -> Hmac<Sha256> {
    <Hmac<Sha256> as KeyInit>::new_from_slice(secret).expect("a key of any length is taken")
}

fn parse(bytes: &[u8]) -> Option<Receipt> {
    let (version, rest) = bytes.split_first()?;
    if *version != VERSION {
        return None;
    }
    let (epoch, rest) = rest.split_first_chunk()?;
    let (accepted_at, rest) = rest.split_first_chunk()?;
    let (has_place, rest) = rest.split_first()?;
    let (place, key) = match has_place {
        0 => (None, rest),
        1 => {
            let (partition, rest) = rest.split_first_chunk()?;
            let (offset, rest) = rest.split_first_chunk()?;
            let partition = i32::from_be_bytes(*partition);
            let offset = i64::from_be_bytes(*offset);
            (Some(QueuePosition { partition, offset }), rest)
        }
        _ => return None,
    };
    Some(Receipt {
        epoch: Epoch(i64::from_be_bytes(*epoch)),
        accepted_at: DateTime::from_timestamp_millis(i64::from_be_bytes(*accepted_at))?,
        place,
        key: RequestId::from_stored(key),
    })
}

fn not_of_claim() -> Problem {
    let detail = "The `receipt` is not of this claim, template and user, or not whole: send the `Location` of the \
                  claim's answer as it is, or the claim itself again with the same key.";
    Problem::new(Code::ReceiptInvalid, detail)
}

fn too_old() -> Problem {
    let detail = format!(
        "The `receipt` is older than {} days. Send the claim again with the same key: its answer, if it has one, is \
         kept.",
        AGE_MAX.num_days()
    );
    Problem::new(Code::ReceiptInvalid, detail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWNER: Owner = Owner { template: TemplateId(7), user: UserId(42), id: ClaimId(9) };

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(ms).unwrap()
    }

    fn receipt() -> Receipt {
        Receipt {
            epoch: Epoch(3),
            accepted_at: at(1_800_000_000_123),
            place: Some(QueuePosition { partition: 5, offset: 1 << 40 }),
            key: RequestId::from_client("the-key").unwrap(),
        }
    }

    fn receipts() -> Receipts {
        Receipts::new("9f86d081884c7d659a2feaa0c55ad015", "")
    }

    fn is_invalid(read: Result<Receipt, Problem>) -> bool {
        read.is_err_and(|problem| problem.code() == Code::ReceiptInvalid)
    }

    #[test]
    fn a_receipt_is_read_back_whole_and_fits_an_address() {
        let receipts = receipts();
        let now = at(1_800_000_001_000);
        let longest = RequestId::from_client(&"k".repeat(limit::REQUEST_ID_BYTES_MAX)).unwrap();
        for key in [RequestId::absent(), RequestId::from_client("k").unwrap(), longest] {
            for place in [None, receipt().place] {
                let receipt = Receipt { key: key.clone(), place, ..receipt() };
                let text = receipts.issue(OWNER, &receipt);
                assert!(text.len() <= CHARS_MAX, "{} characters", text.len());
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
                assert!(text.chars().all(plain), "{text}");
                assert_eq!(receipts.read(&text, OWNER, now).unwrap(), receipt);
            }
        }
    }

    #[test]
    fn a_receipt_serves_no_other_claim_and_no_other_secret() {
        let receipts = receipts();
        let now = receipt().accepted_at;
        let text = receipts.issue(OWNER, &receipt());
        for other in [
            Owner { template: TemplateId(8), ..OWNER },
            Owner { user: UserId(43), ..OWNER },
            Owner { id: ClaimId(10), ..OWNER },
        ] {
            assert!(is_invalid(receipts.read(&text, other, now)), "{other:?}");
        }
        for other in [Receipts::new("another", ""), Receipts::new("", "an operator's key")] {
            assert!(is_invalid(other.read(&text, OWNER, now)));
        }
    }

    #[test]
    fn without_a_secret_the_operators_key_makes_one() {
        let of = |key: &str| Receipts::new("", key);
        let text = of("one").issue(OWNER, &receipt());
        let now = receipt().accepted_at;
        assert_eq!(of("one").read(&text, OWNER, now).unwrap(), receipt());
        assert!(is_invalid(of("two").read(&text, OWNER, now)));
        assert!(is_invalid(Receipts::new("one", "").read(&text, OWNER, now)));
    }

    #[test]
    fn a_receipt_ends_after_its_age_and_not_before() {
        let receipts = receipts();
        let accepted = receipt().accepted_at;
        let text = receipts.issue(OWNER, &receipt());
        assert!(receipts.read(&text, OWNER, accepted + AGE_MAX).is_ok());
        let late = accepted + AGE_MAX + TimeDelta::milliseconds(1);
        assert!(is_invalid(receipts.read(&text, OWNER, late)));
        assert!(receipts.read(&text, OWNER, accepted - TimeDelta::minutes(1)).is_ok(), "clocks");
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_refused_unless_it_was_issued(text in ".{0,300}") {
            prop_assert!(is_invalid(receipts().read(&text, OWNER, at(0))));
        }

        #[test]
        fn a_receipt_with_one_bit_changed_is_refused(bit in 0_usize..600) {
            let receipts = receipts();
            let now = receipt().accepted_at;
            let text = receipts.issue(OWNER, &receipt());
            let mut bytes = URL_SAFE_NO_PAD.decode(text).unwrap();
            let place = bit % (bytes.len() * 8);
            bytes[place / 8] ^= 1 << (place % 8);
            prop_assert!(is_invalid(receipts.read(&URL_SAFE_NO_PAD.encode(bytes), OWNER, now)));
        }
    }
}

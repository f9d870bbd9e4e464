//! A claim: one request of one user for some coupons of one template.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::{ClaimId, CouponId, Epoch, JobId, TemplateId, UnknownCode, UserId, limit};

/// The client's name for a claim: bytes 0x21 to 0x7E, at most 64 of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(String);

/// Error for a text that cannot be a request id; its message says what is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "use 1 to 64 printable ASCII characters without spaces (0x21 to 0x7E), not starting with ~ and not only *"
)]
pub struct RequestIdError;

impl RequestId {
    /// The id of a claim sent without one. It is allowed only where the limit is 1 and the template itself is the key.
    pub fn absent() -> Self {
        Self("*".to_owned())
    }

    /// Checks a client's key.
    ///
    /// # Errors
    /// The text is empty, too long, holds a character outside 0x21–0x7E (a text column would ignore trailing spaces,
    /// Redis would not), or is a reserved form: `*` or a leading `~`.
    pub fn from_client(text: &str) -> Result<Self, RequestIdError> {
        let length = (1..=limit::REQUEST_ID_BYTES_MAX).contains(&text.len());
        let printable = text.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
        if length && printable && text != "*" && !text.starts_with('~') {
            Ok(Self(text.to_owned()))
        } else {
            Err(RequestIdError)
        }
    }

    /// Reads a stored key. It was checked when it was written.
    pub fn from_stored(bytes: &[u8]) -> Self {
        Self(String::from_utf8_lossy(bytes).into_owned())
    }

    /// The key of an admission's fence. No client's key begins with `~`.
    pub fn fence(id: ClaimId) -> Self {
        Self(format!("~{id}"))
    }

    /// The key of the claim for one row of a job of grants. A row has the same key in every run of the job, so it is
    /// claimed once. No client's key begins with `~`, and no fence's with `~g`.
    pub fn grant(job: JobId, row: u32) -> Self {
        Self(format!("~g{job}-{row}"))
    }

    /// Returns whether this is the key of a grant.
    pub fn is_grant(&self) -> bool {
        self.0.starts_with("~g")
    }

    /// The key of the stock movement that a job makes before its grants.
    pub fn job_movement(job: JobId) -> Self {
        Self(format!("~job-{job}"))
    }

    /// The key of the stock movement that takes back what a job's grants left over.
    pub fn job_rest(job: JobId) -> Self {
        Self(format!("~job-{job}-rest"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Sixteen bytes that stand for the key in the gate, where each byte costs memory.
    pub fn digest(&self) -> [u8; 16] {
        digest_16(self.0.as_bytes())
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Hash of the payload of a claim. The same key with another hash is a reused key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PayloadHash(pub [u8; 16]);

impl PayloadHash {
    /// Hashes the canonical payload. It does not depend on the bytes of the request's body.
    pub fn of_quantity(quantity: u32) -> Self {
        Self(digest_16(format!("claim/1 quantity={quantity}").as_bytes()))
    }
}

fn digest_16(bytes: &[u8]) -> [u8; 16] {
    let digest = Sha256::digest(bytes);
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    half
}

/// A claim as the api hands it over, before the gate sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Assigned when the request arrives; the admission keeps it.
    pub id: ClaimId,
    pub template_id: TemplateId,
    pub user_id: UserId,
    /// The client's key.
    pub request_id: RequestId,
    pub payload_hash: PayloadHash,
    /// Number of coupons: 1 to the template's `max_per_claim`.
    pub quantity: u32,
    /// Time of arrival, by the api's clock.
    pub claimed_at: DateTime<Utc>,
    /// W3C traceparent of the request, if it had one.
    pub trace_parent: Option<String>,
}

/// The numbers 1..=limit that an admission holds; empty where the template has no limit.
pub type Numbers = Vec<u8>;

/// A claim that the gate let through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    pub claim: Claim,
    /// The gate's epoch. The admission cannot land under another one.
    pub epoch: Epoch,
    /// The user's numbers it took: `claim.quantity` of them, or none if the template has no limit.
    pub numbers: Numbers,
}

impl Admission {
    /// Returns whether a gate with this limit may have admitted it: without a limit there are no numbers, otherwise one
    /// for each coupon, all different, from 1 to the limit.
    pub fn has_numbers_of(&self, limit: u32) -> bool {
        let Self { claim, numbers, .. } = self;
        let mut seen = [false; 1 << u8::BITS];
        let mut is_new = |number: &u8| !std::mem::replace(&mut seen[usize::from(*number)], true);
        let is_number = |number: &u8| (1..=limit).contains(&u32::from(*number));
        if limit == 0 {
            return numbers.is_empty();
        }
        numbers.len() == claim.quantity as usize
            && numbers.iter().all(|number| is_number(number) && is_new(number))
    }
}

/// State of a claim row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClaimState {
    /// The claim landed: its coupons exist.
    Landed,
    /// The claim was fenced: this admission never lands.
    Void,
    /// The claim was queued and ended without coupons, for good: its key is never admitted again.
    Rejected,
}

impl ClaimState {
    /// The stored code.
    pub fn code(self) -> u8 {
        match self {
            Self::Landed => 1,
            Self::Void => 2,
            Self::Rejected => 3,
        }
    }

    /// Converts a stored code.
    ///
    /// # Errors
    /// This version does not know the code.
    pub fn from_code(code: u8) -> Result<Self, UnknownCode> {
        match code {
            1 => Ok(Self::Landed),
            2 => Ok(Self::Void),
            3 => Ok(Self::Rejected),
            _ => Err(UnknownCode { what: "claim state", code }),
        }
    }
}

/// A landed claim, as issued: everything its answer consists of. None of it ever changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandedClaim {
    pub id: ClaimId,
    pub template_id: TemplateId,
    pub user_id: UserId,
    pub payload_hash: PayloadHash,
    pub claimed_at: DateTime<Utc>,
    /// Start of the coupons' validity, as issued.
    pub valid_from: DateTime<Utc>,
    /// End of the coupons' validity, exclusive, as issued.
    pub valid_until: DateTime<Utc>,
    /// When the coupons lapse unless they are confirmed before, exclusive, as issued; `None` if they were not held.
    pub held_until: Option<DateTime<Utc>>,
    /// Ordered by number.
    pub coupons: Vec<LandedCoupon>,
}

impl LandedClaim {
    /// Moves the end of the hold, if there is one, by the delay of the landing, but not past the end of the validity.
    pub fn lands_later(&mut self, by: TimeDelta) {
        self.held_until = self.held_until.map(|until| (until + by).min(self.valid_until));
    }
}

/// One coupon of a landed claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LandedCoupon {
    pub id: CouponId,
    /// The user's number it took; the coupon's own id if the template has no limit.
    pub claim_no: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_printable_and_not_reserved() {
        for text in ["a", "3f2b8c1e-7a44", "!", "**", &"x".repeat(64)] {
            assert!(RequestId::from_client(text).is_ok(), "{text:?}");
        }
        for text in ["", "*", "~1", "a b", "a ", "é", "a\n", &"x".repeat(65)] {
            assert_eq!(RequestId::from_client(text), Err(RequestIdError), "{text:?}");
        }
    }

    #[test]
    fn the_keys_of_a_job_are_no_clients_and_no_fences_and_fit_their_column() {
        let job = JobId(i64::MAX);
        let row = u32::MAX;
        for key in
            [RequestId::grant(job, row), RequestId::job_movement(job), RequestId::job_rest(job)]
        {
            assert_eq!(RequestId::from_client(key.as_str()), Err(RequestIdError));
            assert!(key.as_str().len() <= limit::REQUEST_ID_BYTES_MAX, "{key}");
        }
        assert!(RequestId::grant(job, row).is_grant());
        assert!(!RequestId::fence(ClaimId(7)).is_grant());
        assert_ne!(RequestId::grant(JobId(1), 12), RequestId::grant(JobId(11), 2));
    }

    #[test]
    fn quantities_have_different_payload_hashes() {
        assert_eq!(PayloadHash::of_quantity(1), PayloadHash::of_quantity(1));
        assert_ne!(PayloadHash::of_quantity(1), PayloadHash::of_quantity(2));
    }
}

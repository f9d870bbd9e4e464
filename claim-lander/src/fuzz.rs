//! What becomes of a payment whose claim is unknown, for `fuzz/` and the test that runs its corpus. Not for other callers.

use chrono::{DateTime, TimeDelta};
use coupon::ClaimId;
use landing::ids::made_at;
use topic::{LaneMessage, decode_payment};

use crate::{
    early::Early,
    payment_wait::{LONGEST, PaymentWait, Verdict},
};

/// A moment of the year 2027, in milliseconds since 1970.
const NOW_MS: i64 = 1_800_000_000_000;

/// Takes the data as the payload of a payment, and its last bytes as the time of the message. Panics only if a handler
/// does, or a payment waits for ever.
pub fn payment(data: &[u8]) {
    let now = DateTime::from_timestamp_millis(NOW_MS).unwrap_or_default();
    let stamp = data.last_chunk().map(|bytes| i64::from_be_bytes(*bytes));
    let at = stamp.and_then(DateTime::from_timestamp_millis).unwrap_or_default();
    let delay = crate::delay(now, at);
    let Ok(payment) = decode_payment(data) else { return };
    let claim = payment.claim_id;
    let message = LaneMessage { offset: i64::MAX - 1, at, key: Vec::new(), body: Ok(payment) };
    let early = Early::default();
    early.begin(0, std::slice::from_ref(&message));
    early.wait(0, message, claim, PaymentWait::new());
    assert!(early.claims(0).contains(&claim), "{claim} does not wait after {delay:?}");
    assert_eq!(early.end(0, i64::MAX - 1), Some(i64::MAX));
    waits(claim, now);
}

/// A payment without a claim gets a verdict.
fn waits(claim: ClaimId, now: DateTime<chrono::Utc>) {
    let mut patience = PaymentWait::new();
    let admitted = made_at(claim.0);
    assert_eq!(patience.after_look(now, admitted, None), Verdict::LookAgain);
    let later = now + LONGEST + TimeDelta::seconds(1);
    assert_eq!(patience.after_look(later, admitted, None), Verdict::NotLanded, "{claim}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_in_a_payment_ends_a_lander() {
        for id in [0, 1, NOW_MS, i64::MAX >> 22, i64::MAX - 1, i64::MAX] {
            let text = format!(
                r#"{{"claim_id":"{id}","merchant_id":"{id}","payment_ref":"p","coupons":["{id}"]}}"#
            );
            payment(text.as_bytes());
        }
        for stamp in [i64::MIN, -1, 0, 8_210_266_876_799_999, i64::MAX] {
            payment(&stamp.to_be_bytes());
        }
    }
}

//! The message of a payment, which a shop's order stream sends to confirm held coupons.
//!
//! ```json
//! {"claim_id":"7","merchant_id":"1","payment_ref":"pay-17","coupons":["8","9"]}
//! ```
//! Without `coupons` it confirms all coupons of the claim as issued. The key is the claim's id, so that the payments of
//! one claim stay in order. A message that is not a valid payment is refused as a whole.

use coupon::{ClaimId, CouponId, MerchantId, limit, text};
use serde::{Deserialize, Serialize, de::Error as _};

use crate::{DecodeError, decode};

/// A payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentMessage {
    pub claim_id: ClaimId,
    pub merchant_id: MerchantId,
    /// The shop's name for it, unique among the merchant's payments.
    pub payment_ref: String,
    /// The coupons that it confirms, ascending; `None`: all of the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coupons: Option<Vec<CouponId>>,
}

impl PaymentMessage {
    /// Key of the message.
    pub fn key(&self) -> String {
        self.claim_id.to_string()
    }

    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Decodes a payment and sorts its coupons. Unknown fields are ignored, so that fields can be added.
///
/// # Errors
///
/// Returns an error if the payload is too long, not JSON or not a valid payment.
pub fn decode_payment(payload: &[u8]) -> Result<PaymentMessage, DecodeError> {
    let mut payment: PaymentMessage = decode(payload)?;
    if let Some(coupons) = &mut payment.coupons {
        coupons.sort_unstable();
    }
    match refused(&payment) {
        Some(why) => Err(DecodeError::Malformed(serde_json::Error::custom(why))),
        None => Ok(payment),
    }
}

fn refused(payment: &PaymentMessage) -> Option<&'static str> {
    if text::wrong_reference(&payment.payment_ref, limit::PAYMENT_REF_CHARS_MAX).is_some() {
        return Some("payment_ref is empty, too long or not plain text");
    }
    let most = usize::try_from(limit::QUANTITY_MAX).unwrap_or(usize::MAX);
    let coupons = payment.coupons.as_ref()?;
    if coupons.is_empty() || coupons.len() > most {
        return Some("coupons are none, or more than a claim has");
    }
    let is_twice = coupons.windows(2).any(|pair| pair[0] == pair[1]);
    is_twice.then_some("a coupon is named twice")
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_set, option, prelude::*};

    use super::*;

    /// As in the documentation of this file.
    const TEXT: &str =
        r#"{"claim_id":"7","merchant_id":"1","payment_ref":"pay-17","coupons":["8","9"]}"#;

    fn documented() -> PaymentMessage {
        PaymentMessage {
            claim_id: ClaimId(7),
            merchant_id: MerchantId(1),
            payment_ref: "pay-17".to_owned(),
            coupons: Some(vec![CouponId(8), CouponId(9)]),
        }
    }

    #[test]
    fn the_message_is_as_documented_and_ignores_fields_it_does_not_know() {
        assert_eq!(String::from_utf8(documented().encode()).unwrap(), TEXT);
        assert_eq!(decode_payment(TEXT.as_bytes()).unwrap(), documented());
        let newer = TEXT.replacen('{', r#"{"amount":17,"#, 1);
        assert_eq!(decode_payment(newer.as_bytes()).unwrap(), documented());
        let shuffled = TEXT.replacen(r#""8","9""#, r#""9","8""#, 1);
        assert_eq!(decode_payment(shuffled.as_bytes()).unwrap(), documented());
    }

    #[test]
    fn without_a_list_it_is_for_all_coupons_of_the_claim() {
        let whole = PaymentMessage { coupons: None, ..documented() };
        for text in [
            r#"{"claim_id":"7","merchant_id":"1","payment_ref":"pay-17"}"#,
            r#"{"claim_id":"7","merchant_id":"1","payment_ref":"pay-17","coupons":null}"#,
        ] {
            assert_eq!(decode_payment(text.as_bytes()).unwrap(), whole);
        }
        assert_eq!(decode_payment(&whole.encode()).unwrap(), whole);
    }

    #[test]
    fn what_no_payment_says_is_refused() {
        let long = format!(r#""{}""#, "x".repeat(limit::PAYMENT_REF_CHARS_MAX + 1));
        for (right, wrong) in [
            (r#""claim_id":"7""#, r#""claim_id":7"#),
            (r#""claim_id":"7""#, r#""claim_id":"-7""#),
            (r#""claim_id":"7","#, ""),
            (r#""merchant_id":"1","#, ""),
            (r#""pay-17""#, r#""""#),
            (r#""pay-17""#, r#""  ""#),
            (r#""pay-17""#, r#""a\nb""#),
            (r#""pay-17""#, "17"),
            (r#""pay-17""#, &long),
            (r#"["8","9"]"#, "[]"),
            (r#"["8","9"]"#, r#"["8","8"]"#),
            (r#"["8","9"]"#, r#""8""#),
        ] {
            let text = TEXT.replacen(right, wrong, 1);
            assert_ne!(text, TEXT, "{right}");
            assert!(decode_payment(text.as_bytes()).is_err(), "{wrong}");
        }
        let many: Vec<String> = (0..=limit::QUANTITY_MAX).map(|id| format!("\"{id}\"")).collect();
        let text = TEXT.replacen(r#""8","9""#, &many.join(","), 1);
        assert!(decode_payment(text.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn a_payment_arrives_as_it_was_sent(
            claim in 0..i64::MAX,
            merchant in 0..i64::MAX,
            payment_ref in "[!-~äß券]{1,64}".prop_filter("no path segment", |name| name != "." && name != ".."),
            coupons in option::of(btree_set(0..i64::MAX, 1..=100)),
        ) {
            let coupons = coupons.map(|ids| ids.into_iter().map(CouponId).collect());
            let claim_id = ClaimId(claim);
            let merchant_id = MerchantId(merchant);
            let sent = PaymentMessage { claim_id, merchant_id, payment_ref, coupons };
            prop_assert_eq!(decode_payment(&sent.encode()).unwrap(), sent);
        }
    }
}

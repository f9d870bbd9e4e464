//! Calls about held claims: the shop confirms and cancels, users cancel.

use coupon::{ClaimId, CouponId, TemplateId, UserId};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{Answer, Api, Shopper, ShopperError};

impl Api {
    /// Confirms a claim's coupons, all or some of them, with a payment.
    ///
    /// # Errors
    /// No answer. Repeating the call with the same payment is safe and shows the outcome.
    pub async fn confirm(
        &self,
        claim: ClaimId,
        payment_ref: &str,
        coupons: Option<&[CouponId]>,
    ) -> Result<Answer, ShopperError> {
        let request = self.operator(Method::POST, &format!("/v1/claims/{claim}/confirm"));
        let body = with_coupons(json!({ "payment_ref": payment_ref }), coupons);
        self.send(request.json(&body)).await
    }

    /// Cancels a claim's coupons, all or some of them, as the shop.
    ///
    /// # Errors
    /// No answer. Repeating the call is safe and shows the outcome.
    pub async fn cancel(
        &self,
        claim: ClaimId,
        reason: &str,
        coupons: Option<&[CouponId]>,
    ) -> Result<Answer, ShopperError> {
        let request = self.operator(Method::POST, &format!("/v1/claims/{claim}/cancel"));
        self.send(request.json(&with_coupons(json!({ "reason": reason }), coupons))).await
    }

    /// Lets a user claim again who let too many holds lapse.
    ///
    /// # Errors
    /// No answer. Repeating the call is safe.
    pub async fn lift_ban(
        &self,
        template: TemplateId,
        user: UserId,
        reason: &str,
    ) -> Result<Answer, ShopperError> {
        let path = format!("/v1/templates/{template}/users/{user}/ban/lift");
        let request = self.operator(Method::POST, &path);
        self.send(request.json(&json!({ "reason": reason }))).await
    }
}

impl Shopper {
    /// Gives up held coupons of the user's claim, all or some of them.
    ///
    /// # Errors
    /// No answer. Repeating the call is safe and shows the outcome.
    pub async fn cancel(
        &self,
        claim: ClaimId,
        coupons: Option<&[CouponId]>,
    ) -> Result<Answer, ShopperError> {
        let request = self.request(Method::POST, &format!("/v1/claims/{claim}/cancel"));
        let body = with_coupons(json!({ "reason": "changed my mind" }), coupons);
        self.send(request.json(&body)).await
    }
}

/// Adds a list of coupons to a body, if there is one.
fn with_coupons(mut body: Value, coupons: Option<&[CouponId]>) -> Value {
    if let Some(coupons) = coupons {
        body["coupons"] = coupons.iter().map(ToString::to_string).collect();
    }
    body
}

//! [`Shopper`]: a client of one user, with a token.

use std::time::Duration;

use chrono::TimeDelta;
use coupon::{ClaimId, CouponId, TemplateId, UserId};
use http_body_util::Full;
use hyper::Request;
use reqwest::{Method, RequestBuilder, header};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{Accepted, Answer, Api, Coupon, CouponPage, ShopperError};

/// Polling interval while waiting for a coupon to appear: the resolution of "visible".
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Lifetime of a token: longer than any run.
const TOKEN_LIFE: TimeDelta = TimeDelta::hours(12);

/// One user of an api.
#[derive(Clone)]
pub struct Shopper {
    api: Api,
    user: UserId,
    authorization: String,
}

/// Query for a user's list; the default is the first page of the unused coupons.
#[derive(Debug, Clone, Default)]
pub struct CouponQuery {
    /// `unused`, `used`, `expired`, `cancelled`, `held` or `lapsed`.
    pub status: Option<&'static str>,
    /// Coupons per page.
    pub limit: Option<u32>,
    /// Start of the page, from the previous one.
    pub cursor: Option<String>,
    /// A coupon whose claim the list must reflect.
    pub after: Option<CouponId>,
}

impl Api {
    /// Creates a client for a user, with a token.
    ///
    /// # Errors
    /// The token cannot be signed.
    pub fn shopper(&self, user: UserId) -> Result<Shopper, ShopperError> {
        self.shopper_until(user, TOKEN_LIFE)
    }

    /// Creates a client for a user whose token expires after `life`, which may be negative.
    ///
    /// # Errors
    /// The token cannot be signed.
    pub fn shopper_until(&self, user: UserId, life: TimeDelta) -> Result<Shopper, ShopperError> {
        let token = self.token(user, life)?;
        Ok(Shopper::new(self.clone(), user, &token))
    }
}

impl Shopper {
    fn new(api: Api, user: UserId, token: &str) -> Self {
        Self { api, user, authorization: format!("Bearer {token}") }
    }

    pub fn user(&self) -> UserId {
        self.user
    }

    /// Starts a request with the user's token.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.api.anonymous(method, path).header(header::AUTHORIZATION, &self.authorization)
    }

    /// Claims coupons.
    ///
    /// # Errors
    /// No answer, so whether the claim landed is unknown. Repeating it with the same key shows the outcome.
    pub async fn claim(
        &self,
        template: TemplateId,
        key: Option<&str>,
        quantity: u32,
    ) -> Result<Answer, ShopperError> {
        let path = format!("/v1/templates/{template}/claims");
        let body = format!(r#"{{"quantity":{quantity}}}"#);
        let mut request = Request::post(path)
            .header(header::AUTHORIZATION, &self.authorization)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(Full::from(body)).map_err(ShopperError::Request)?;
        self.api.send_on_line(request).await
    }

    /// Polls a claim's outcome.
    pub async fn poll(&self, claim: ClaimId, template: TemplateId) -> Result<Answer, ShopperError> {
        let path = format!("/v1/claims/{claim}?template={template}");
        self.api.send(self.request(Method::GET, &path)).await
    }

    /// Polls an accepted claim.
    pub async fn look(&self, accepted: &Accepted) -> Result<Answer, ShopperError> {
        self.api.send(self.request(Method::GET, &accepted.location)).await
    }

    /// Reads a page of the user's coupons.
    pub async fn coupons(&self, query: &CouponQuery) -> Result<CouponPage, ShopperError> {
        let CouponQuery { status, limit, cursor, after } = query;
        let parameters = [
            ("status", status.map(str::to_owned)),
            ("limit", limit.map(|limit| limit.to_string())),
            ("cursor", cursor.clone()),
            ("after", after.map(|id| id.to_string())),
        ];
        let given: Vec<String> = parameters
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| format!("{name}={value}")))
            .collect();
        let path = format!("/v1/me/coupons?{}", given.join("&"));
        self.api.expect(200, self.request(Method::GET, &path)).await
    }

    /// Reads all of the user's unused coupons, page by page.
    pub async fn all_coupons(&self) -> Result<Vec<Coupon>, ShopperError> {
        let mut query = CouponQuery { limit: Some(100), ..CouponQuery::default() };
        let mut all = Vec::new();
        loop {
            let page = self.coupons(&query).await?;
            all.extend(page.data);
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                return Ok(all);
            }
        }
    }

    /// Reads a coupon, which MySQL answers.
    pub async fn coupon(&self, id: CouponId) -> Result<Coupon, ShopperError> {
        self.api.expect(200, self.request(Method::GET, &format!("/v1/me/coupons/{id}"))).await
    }

    /// Uses the user's coupon for an order as the shop does at checkout, with the operator's key.
    ///
    /// # Errors
    /// No answer. Repeating the call with the same order is safe and shows the outcome.
    pub async fn use_coupon(&self, id: CouponId, order_ref: &str) -> Result<Answer, ShopperError> {
        self.by_the_shop(id, "use", order_ref).await
    }

    /// Gives the coupon of a cancelled order back as the shop does.
    ///
    /// # Errors
    /// No answer. Repeating the call with the same order is safe and shows the outcome.
    pub async fn unuse_coupon(
        &self,
        id: CouponId,
        order_ref: &str,
    ) -> Result<Answer, ShopperError> {
        self.by_the_shop(id, "unuse", order_ref).await
    }

    async fn by_the_shop(
        &self,
        id: CouponId,
        verb: &str,
        order_ref: &str,
    ) -> Result<Answer, ShopperError> {
        let request = self.api.operator(Method::POST, &format!("/v1/coupons/{id}/{verb}"));
        let body = json!({ "user_id": self.user.to_string(), "order_ref": order_ref });
        self.api.send(request.json(&body)).await
    }

    /// Uses or gives back a coupon (`use` or `unuse`) with the user's own token.
    ///
    /// # Errors
    /// No answer. Repeating the call with the same order is safe and shows the outcome.
    pub async fn redeem_myself(
        &self,
        id: CouponId,
        verb: &str,
        order_ref: &str,
    ) -> Result<Answer, ShopperError> {
        let request = self.request(Method::POST, &format!("/v1/me/coupons/{id}/{verb}"));
        self.api.send(request.json(&json!({ "order_ref": order_ref }))).await
    }

    /// Sends a request of this user.
    pub async fn send(&self, request: RequestBuilder) -> Result<Answer, ShopperError> {
        self.api.send(request).await
    }

    /// Polls the list, without `after`, until it shows `coupon`. Returns how long that took; `None`
    /// if it did not appear within `within`.
    pub async fn until_visible(&self, coupon: CouponId, within: Duration) -> Option<Duration> {
        let began = Instant::now();
        while began.elapsed() < within {
            let page = self.coupons(&CouponQuery::default()).await;
            if page.is_ok_and(|page| page.data.iter().any(|shown| shown.id == coupon)) {
                return Some(began.elapsed());
            }
            sleep(LOOK_EVERY).await;
        }
        None
    }
}

//! Users' tokens, as the api accepts them (HS256).

use chrono::{DateTime, Utc};
use coupon::UserId;
use jsonwebtoken::{EncodingKey, Header};
use serde::Serialize;

use crate::ShopperError;

#[derive(Serialize)]
struct Claims {
    sub: String,
    exp: i64,
}

/// Signs a token of `user` that expires at `until`.
pub(crate) fn sign(
    key: &EncodingKey,
    user: UserId,
    until: DateTime<Utc>,
) -> Result<String, ShopperError> {
    let claims = Claims { sub: user.to_string(), exp: until.timestamp() };
    jsonwebtoken::encode(&Header::default(), &claims, key).map_err(ShopperError::Token)
}

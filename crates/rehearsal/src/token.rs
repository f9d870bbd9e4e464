//! Users' tokens, as the api accepts them (HS256).

use chrono::{DateTime, Utc};
use coupon::UserId;
use jsonwebtoken::{EncodingKey, Header, errors::Error};
use serde::Serialize;

#[derive(Serialize)]
struct Claims {
    sub: String,
    exp: i64,
}

/// Signs a token of `user` that expires at `until`.
///
/// # Errors
/// The key is none for HS256.
pub fn sign(key: &EncodingKey, user: UserId, until: DateTime<Utc>) -> Result<String, Error> {
    let claims = Claims { sub: user.to_string(), exp: until.timestamp() };
    jsonwebtoken::encode(&Header::default(), &claims, key)
}

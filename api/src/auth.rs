//! Who calls: a user by a bearer token, the operator by a key. A user's id comes from the token, never
//! from a body.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts},
};
use coupon::{MerchantId, UserId};
use sha2::{Digest, Sha256};

use crate::{problem::Problem, state::App, tokens::Tokens};

/// The header of the operator's key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Checks tokens and keys.
pub(crate) struct Auth {
    tokens: Tokens,
    /// The operator key's digest: comparing digests takes the same time wherever keys differ.
    operator_key: [u8; 32],
}

/// A shopper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User(pub(crate) UserId);

/// An operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operator {
    /// Whose templates it sees.
    pub(crate) merchant_id: MerchantId,
}

impl Auth {
    pub(crate) fn new(tokens: Tokens, operator_key: &str) -> Self {
        Self { tokens, operator_key: Sha256::digest(operator_key.as_bytes()).into() }
    }

    /// Keeps the keys of tokens fresh, for ever.
    pub(crate) async fn follow(&self) {
        self.tokens.follow().await;
    }

    async fn user(&self, parts: &Parts) -> Result<User, Problem> {
        let token = only(&parts.headers, &header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token)
            .ok_or_else(|| {
                Problem::unauthenticated("Send the header `Authorization: Bearer …`, once.")
            })?;
        self.tokens.user(token).await.map(User)
    }

    fn operator(&self, parts: &Parts) -> Result<Operator, Problem> {
        let key = only(&parts.headers, &API_KEY).ok_or_else(|| {
            Problem::unauthenticated("Send the operator's key in the header `X-Api-Key`, once.")
        })?;
        let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        if digest != self.operator_key {
            return Err(Problem::unauthenticated("The operator's key is not accepted."));
        }
        // In this stage there is one operator key, bound to the first merchant.
        Ok(Operator { merchant_id: MerchantId(1) })
    }
}

/// The value of a header that is there once: of two, a proxy before us may have read the other.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

impl FromRequestParts<App> for User {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        app.auth.user(parts).await
    }
}

impl FromRequestParts<App> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        app.auth.operator(parts)
    }
}

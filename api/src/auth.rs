//! Who calls: a user by a bearer token, the operator by a key. A user's id comes from the token, never
//! from a body.

use axum::{
    extract::FromRequestParts,
    http::{header, request::Parts},
};
use coupon::{MerchantId, UserId};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{problem::Problem, state::App};

/// How far a token issuer's clock may be ahead or behind, in seconds.
const CLOCK_LEEWAY_SECONDS: u64 = 5;

/// The header of the operator's key.
const API_KEY_HEADER: &str = "x-api-key";

/// Checks tokens and keys.
pub(crate) struct Auth {
    token_key: DecodingKey,
    validation: Validation,
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

#[derive(Deserialize)]
struct TokenClaims {
    sub: String,
}

impl Auth {
    pub(crate) fn new(jwt_secret: &str, operator_key: &str) -> Self {
        let mut validation = Validation::new(Algorithm::HS256);
        validation.leeway = CLOCK_LEEWAY_SECONDS;
        validation.set_required_spec_claims(&["exp", "sub"]);
        Self {
            token_key: DecodingKey::from_secret(jwt_secret.as_bytes()),
            validation,
            operator_key: Sha256::digest(operator_key.as_bytes()).into(),
        }
    }

    fn user(&self, parts: &Parts) -> Result<User, Problem> {
        let token = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
            .ok_or_else(|| {
                Problem::unauthenticated("Send the header `Authorization: Bearer …`.")
            })?;
        let decoded = jsonwebtoken::decode::<TokenClaims>(token, &self.token_key, &self.validation)
            .map_err(|error| {
                Problem::unauthenticated(format!("The token is not accepted: {error}."))
            })?;
        decoded.claims.sub.parse().map(User).map_err(|_| {
            Problem::unauthenticated("The token's `sub` must be the user's id, a decimal number.")
        })
    }

    fn operator(&self, parts: &Parts) -> Result<Operator, Problem> {
        let key = parts.headers.get(API_KEY_HEADER).ok_or_else(|| {
            Problem::unauthenticated("Send the operator's key in the header `X-Api-Key`.")
        })?;
        let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        if digest != self.operator_key {
            return Err(Problem::unauthenticated("The operator's key is not accepted."));
        }
        // In this stage there is one operator key, bound to the first merchant.
        Ok(Operator { merchant_id: MerchantId(1) })
    }
}

impl FromRequestParts<App> for User {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        app.auth.user(parts)
    }
}

impl FromRequestParts<App> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        app.auth.operator(parts)
    }
}

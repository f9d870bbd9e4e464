//! Users' tokens: JWTs of another issuer, checked by a shared secret or by public keys.
//!
//! A setting chooses between the two, and each key says which algorithms it serves; a token's header chooses neither.
//! So a token without a signature, or one that is signed with a public key as if that were a secret, is refused like
//! any other forgery.

use coupon::UserId;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use serde::Deserialize;
use tracing::warn;

use crate::{
    auth::jwks::{Jwks, Key},
    problem::Problem,
};

pub(crate) enum Tokens {
    /// By a secret that the issuer shares (HS256).
    Secret(Box<Key>),
    /// By the issuer's public keys.
    Keys(Box<Jwks>),
}

/// Requirements for every token besides its signature.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Tolerance for the issuer's clock, in seconds.
    pub(crate) leeway_seconds: u64,
    /// Required `iss`.
    pub(crate) issuer: Option<String>,
    /// Required `aud`.
    pub(crate) audience: Option<String>,
}

#[derive(Deserialize)]
struct TokenClaims {
    sub: String,
}

impl Tokens {
    pub(crate) fn by_secret(secret: &str, rules: &Rules) -> Self {
        let decoding = DecodingKey::from_secret(secret.as_bytes());
        Self::Secret(Box::new(Key { decoding, validation: rules.validation(Algorithm::HS256) }))
    }

    /// Reads the issuer's keys from a file or a URL.
    ///
    /// # Errors
    /// No usable key can be read.
    pub(crate) async fn by_keys(source: &str, rules: &Rules) -> anyhow::Result<Self> {
        // A placeholder: each key sets its own algorithms.
        let keys = Jwks::read(source, rules.validation(Algorithm::EdDSA)).await?;
        Ok(Self::Keys(Box::new(keys)))
    }

    /// Returns the user of a token.
    pub(crate) async fn user(&self, token: &str) -> Result<UserId, Problem> {
        match self {
            Self::Secret(key) => decode(token, key),
            Self::Keys(keys) => {
                let Header { kid, .. } = jsonwebtoken::decode_header(token).map_err(refused)?;
                let key = keys.key(kid.as_deref()).await.ok_or_else(|| {
                    Problem::unauthenticated("The token is not accepted: its key is unknown.")
                })?;
                decode(token, &key)
            }
        }
    }

    /// Keeps the issuer's keys fresh. Never returns.
    pub(crate) async fn follow(&self) {
        match self {
            Self::Secret(_) => std::future::pending().await,
            Self::Keys(keys) => keys.follow().await,
        }
    }
}

impl Rules {
    /// Warns at start of tokens that are accepted although they may be meant for another service.
    pub(crate) fn warn_of_what_is_not_asked(&self) {
        if self.issuer.is_none() {
            warn!("tokens of any `iss` are accepted, if their signature is right: set JWT_ISSUER");
        }
        if self.audience.is_none() {
            warn!(
                "tokens for any service of their issuer are accepted: set JWT_AUDIENCE to our `aud`"
            );
        }
    }

    pub(crate) fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.leeway_seconds;
        validation.validate_nbf = true;
        let mut required = vec!["exp", "sub"];
        if let Some(issuer) = &self.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        match &self.audience {
            Some(audience) => {
                validation.set_audience(&[audience]);
                required.push("aud");
            }
            // An issuer that serves others too names them in `aud`. No setting asks for a check.
            None => validation.validate_aud = false,
        }
        validation.set_required_spec_claims(&required);
        validation
    }
}

pub(crate) fn decode(token: &str, key: &Key) -> Result<UserId, Problem> {
    let decoded = jsonwebtoken::decode::<TokenClaims>(token, &key.decoding, &key.validation);
    let decoded = decoded.map_err(refused)?;
    if decoded.header.crit.is_some() {
        // `crit` names extensions that a reader must understand or refuse the token. We understand none.
        let detail = "The token is not accepted: its header asks for what is not supported.";
        return Err(Problem::unauthenticated(detail));
    }
    decoded.claims.sub.parse().map_err(|_| {
        Problem::unauthenticated("The token's `sub` must be the user's id, a decimal number.")
    })
}

/// Returns the library's error as a problem. Its text contains nothing of key or token.
fn refused(error: jsonwebtoken::errors::Error) -> Problem {
    Problem::unauthenticated(format!("The token is not accepted: {error}."))
}

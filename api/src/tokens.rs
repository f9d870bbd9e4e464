//! Users' tokens: JWTs that somebody else issues, checked by a shared secret or by public keys.
//!
//! Which of the two is a setting, and each key says which algorithms it serves: a token's header chooses
//! neither. So a token without a signature, or one that is signed with a public key as if that were a secret,
//! is refused like any other forgery.

use coupon::UserId;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use serde::Deserialize;
use tracing::warn;

use crate::{
    jwks::{Jwks, Key},
    problem::Problem,
};

/// Checks tokens.
pub(crate) enum Tokens {
    /// By a secret that the issuer shares (HS256).
    Secret(Box<Key>),
    /// By the issuer's public keys.
    Keys(Box<Jwks>),
}

/// What is asked of every token beside its signature.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// How far the issuer's clock may be ahead or behind, in seconds.
    pub(crate) leeway_seconds: u64,
    /// The `iss` that it must have.
    pub(crate) issuer: Option<String>,
    /// The `aud` that it must have.
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
    /// There is none to be had.
    pub(crate) async fn by_keys(source: &str, rules: &Rules) -> anyhow::Result<Self> {
        // Each key brings its own algorithms.
        let keys = Jwks::read(source, rules.validation(Algorithm::EdDSA)).await?;
        Ok(Self::Keys(Box::new(keys)))
    }

    /// Whose token it is.
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

    /// Keeps the issuer's keys fresh, for ever.
    pub(crate) async fn follow(&self) {
        match self {
            Self::Secret(_) => std::future::pending().await,
            Self::Keys(keys) => keys.follow().await,
        }
    }
}

impl Rules {
    /// Says at the start which tokens are let in that may be meant for somebody else.
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
            // Tokens of an issuer that serves others too name those; nobody asked us to look.
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
        // Who writes it wants it refused by those who do not know what it names, and we know nothing.
        let detail = "The token is not accepted: its header asks for what is not supported.";
        return Err(Problem::unauthenticated(detail));
    }
    decoded.claims.sub.parse().map_err(|_| {
        Problem::unauthenticated("The token's `sub` must be the user's id, a decimal number.")
    })
}

/// Says what is wrong, in the library's few words: they hold nothing of key or token.
fn refused(error: jsonwebtoken::errors::Error) -> Problem {
    Problem::unauthenticated(format!("The token is not accepted: {error}."))
}

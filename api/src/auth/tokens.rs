//! Users' tokens: JWTs of another issuer, checked by a shared secret or by public keys.
//!
//! A setting chooses between the two, and each key says which algorithms it serves; a token's header chooses neither.
//! So a token without a signature, or one that is signed with a public key as if that were a secret, is refused like
//! any other forgery.

use std::borrow::Cow;

use anyhow::ensure;
use coupon::UserId;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, errors::ErrorKind};
use serde_json::{Map, Value};
use tracing::warn;

use crate::{
    auth::jwks::{Jwks, Key},
    problem::Problem,
};

/// The claim that names a token's user unless a setting names another (RFC 7519, 4.1.2).
pub(crate) const SUBJECT: &str = "sub";

/// Claims about the token itself. As users' ids they would name a different user with each token.
const OF_THE_TOKEN: [&str; 6] = ["iss", "aud", "exp", "nbf", "iat", "jti"];

/// Largest number that all issuers write exactly: 2^53 - 1. A larger one may have been rounded on its way through a
/// 64-bit float, and would name another user. In a string every id is exact.
const EXACT_MAX: i64 = (1 << 53) - 1;

/// How tokens are checked, and which claim names their user.
pub(crate) struct Tokens {
    by: By,
    user_claim: Cow<'static, str>,
}

enum By {
    /// A secret that the issuer shares (HS256).
    Secret(Box<Key>),
    /// The issuer's public keys.
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
    /// The claim that holds the user's id.
    pub(crate) user_claim: Cow<'static, str>,
}

/// Checks the name of the claim that holds the user's id.
///
/// # Errors
/// It is empty, or the name of a claim about the token itself.
pub(crate) fn check_user_claim(name: &str) -> anyhow::Result<()> {
    let is_name = !name.is_empty() && !name.chars().any(char::is_control);
    ensure!(is_name, "JWT_USER_CLAIM must name a claim of users' tokens, e.g. `{SUBJECT}`");
    ensure!(
        !OF_THE_TOKEN.contains(&name),
        "JWT_USER_CLAIM must name the claim with the user's id: `{name}` says something of the token"
    );
    Ok(())
}

impl Tokens {
    pub(crate) fn by_secret(secret: &str, rules: &Rules) -> Self {
        let decoding = DecodingKey::from_secret(secret.as_bytes());
        let key = Key { decoding, validation: rules.validation(Algorithm::HS256) };
        Self { by: By::Secret(Box::new(key)), user_claim: rules.user_claim.clone() }
    }

    /// Reads the issuer's keys from a file or a URL.
    ///
    /// # Errors
    /// No usable key can be read.
    pub(crate) async fn by_keys(source: &str, rules: &Rules) -> anyhow::Result<Self> {
        // A placeholder: each key sets its own algorithms.
        let keys = Jwks::read(source, rules.validation(Algorithm::EdDSA)).await?;
        Ok(Self { by: By::Keys(Box::new(keys)), user_claim: rules.user_claim.clone() })
    }

    /// Returns the user of a token.
    pub(crate) async fn user(&self, token: &str) -> Result<UserId, Problem> {
        match &self.by {
            By::Secret(key) => decode(token, key, &self.user_claim),
            By::Keys(keys) => {
                let Header { kid, .. } = jsonwebtoken::decode_header(token).map_err(refused)?;
                let key = keys.key(kid.as_deref()).await.ok_or_else(|| {
                    Problem::unauthenticated("The token is not accepted: its key is unknown.")
                })?;
                decode(token, &key, &self.user_claim)
            }
        }
    }

    /// Keeps the issuer's keys fresh. Never returns.
    pub(crate) async fn follow(&self) {
        match &self.by {
            By::Secret(_) => std::future::pending().await,
            By::Keys(keys) => keys.follow().await,
        }
    }
}

impl Rules {
    /// Warns at start of tokens that are accepted although they may be meant for another service.
    pub(crate) fn warn_of_unchecked_issuer_or_audience(&self) {
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
        let mut required = vec!["exp"];
        if self.user_claim == SUBJECT {
            required.push(SUBJECT);
        }
        if let Some(issuer) = &self.issuer {
            validation.set_issuer(&[issuer]);
            required.push("iss");
        }
        match &self.audience {
            Some(audience) => {
                validation.set_audience(&[audience]);
                required.push("aud");
            }
            // `aud` may name other services of the issuer. Without the setting it is not checked.
            None => validation.validate_aud = false,
        }
        validation.set_required_spec_claims(&required);
        validation
    }
}

/// Returns the user that this claim of a token names.
pub(crate) fn decode(token: &str, key: &Key, user_claim: &str) -> Result<UserId, Problem> {
    let decoded = jsonwebtoken::decode::<Map<String, Value>>(token, &key.decoding, &key.validation);
    let decoded = decoded.map_err(refused)?;
    if decoded.header.crit.is_some() {
        // `crit` names extensions that a reader must understand or refuse the token. We understand none.
        let detail = "The token is not accepted: its header asks for what is not supported.";
        return Err(Problem::unauthenticated(detail));
    }
    decoded.claims.get(user_claim).and_then(user).ok_or_else(|| {
        let must = "must be the user's id, a decimal number";
        Problem::unauthenticated(format!("The token's `{user_claim}` {must}."))
    })
}

/// Returns the user that a claim holds: decimal digits in a string, or a whole number that no issuer rounds.
fn user(claim: &Value) -> Option<UserId> {
    match claim {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => {
            number.as_i64().filter(|id| (0..=EXACT_MAX).contains(id)).map(UserId)
        }
        _ => None,
    }
}

/// Returns the library's error as a problem. Its text contains nothing of key or token.
fn refused(error: jsonwebtoken::errors::Error) -> Problem {
    let why = match error.kind() {
        ErrorKind::ExpiredSignature => "it has expired: get a new one".to_owned(),
        ErrorKind::ImmatureSignature => "it is not valid yet (`nbf`)".to_owned(),
        ErrorKind::InvalidSignature => {
            "its signature is invalid: another secret or key has signed it".to_owned()
        }
        ErrorKind::InvalidIssuer => "its `iss` is not the one expected here".to_owned(),
        ErrorKind::InvalidAudience => "its `aud` is not the one expected here".to_owned(),
        _ => error.to_string(),
    };
    Problem::unauthenticated(format!("The token is not accepted: {why}."))
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::EncodingKey;
    use serde_json::json;

    use super::*;

    const SECRET: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c";

    /// An expiry far in the future.
    const LATER: i64 = 4_000_000_000;

    /// Returns the user of a token with these claims, where `user_claim` names users.
    fn user_of(user_claim: &'static str, claims: &Value) -> Result<i64, String> {
        let user_claim = Cow::Borrowed(user_claim);
        let rules = Rules { leeway_seconds: 5, issuer: None, audience: None, user_claim };
        let key = Key {
            decoding: DecodingKey::from_secret(SECRET.as_bytes()),
            validation: rules.validation(Algorithm::HS256),
        };
        let signing = EncodingKey::from_secret(SECRET.as_bytes());
        let token = jsonwebtoken::encode(&Header::default(), claims, &signing).unwrap();
        let user = decode(&token, &key, &rules.user_claim);
        user.map(|user| user.0).map_err(|problem| format!("{problem:?}"))
    }

    #[test]
    fn the_named_claim_holds_the_user_as_digits_or_as_a_number_that_nobody_rounds() {
        for (user, id) in [
            (json!("42"), 42),
            (json!(42), 42),
            (json!(0), 0),
            (json!("9223372036854775807"), i64::MAX),
            (json!(EXACT_MAX), EXACT_MAX),
        ] {
            // A `sub` of another kind is of no interest.
            let claims = json!({ "sub": "018f2e5a-uuid", "coupon_user": user, "exp": LATER });
            assert_eq!(user_of("coupon_user", &claims), Ok(id), "{claims}");
            let claims = json!({ "https://shop.example/user": user, "exp": LATER });
            assert_eq!(user_of("https://shop.example/user", &claims), Ok(id), "{claims}");
        }
        for wrong in [
            json!(null),
            json!(true),
            json!(-1),
            json!(42.0),
            json!(1.5),
            json!(EXACT_MAX + 1),
            json!(u64::MAX),
            json!(""),
            json!("-1"),
            json!("42 "),
            json!("018f2e5a-7c00-7000-8000-000000000042"),
            json!(["42"]),
            json!({ "id": "42" }),
        ] {
            let claims = json!({ "sub": "42", "coupon_user": wrong, "exp": LATER });
            let refused = user_of("coupon_user", &claims).unwrap_err();
            assert!(refused.contains("`coupon_user`"), "{claims}: {refused}");
        }
        assert!(user_of("coupon_user", &json!({ "sub": "42", "exp": LATER })).is_err());
        assert!(user_of("coupon_user", &json!({ "coupon_user": "42" })).is_err(), "endless");
    }

    #[test]
    fn a_subject_is_required_where_it_names_the_user_and_is_a_text() {
        assert_eq!(user_of(SUBJECT, &json!({ "sub": "42", "exp": LATER })), Ok(42));
        for wrong in [json!({ "exp": LATER }), json!({ "sub": 42, "exp": LATER })] {
            assert!(user_of(SUBJECT, &wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_claim_that_says_something_of_the_token_names_no_user() {
        for right in ["sub", "user_id", "https://shop.example/user", "cognito:username"] {
            check_user_claim(right).unwrap();
        }
        for wrong in ["", "exp", "iat", "nbf", "iss", "aud", "jti", "user\n"] {
            let error = check_user_claim(wrong).unwrap_err().to_string();
            assert!(error.contains("JWT_USER_CLAIM"), "{wrong}: {error}");
        }
    }
}

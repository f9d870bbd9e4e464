//! Users' tokens as the api accepts them (HS256).

use jsonwebtoken::{EncodingKey, Header, encode};
use serde::Serialize;

use crate::{Error, Result};

#[derive(Serialize)]
struct Claims {
    sub: String,
    iat: i64,
    exp: i64,
}

/// Returns a token of `user_id`, issued at `now_s` (seconds since 1970) and valid for `ttl_s` seconds.
///
/// # Errors
/// The secret cannot be used for signing.
pub fn sign(secret: &str, user_id: i64, now_s: i64, ttl_s: i64) -> Result<String> {
    let claims = Claims { sub: user_id.to_string(), iat: now_s, exp: now_s.saturating_add(ttl_s) };
    encode(&Header::default(), &claims, &EncodingKey::from_secret(secret.as_bytes()))
        .map_err(|source| Error::Token { source })
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Decoded {
        sub: String,
        exp: i64,
    }

    #[test]
    fn a_token_names_its_user_and_its_end() {
        let now_s = 4_000_000_000; // Far ahead: the check uses this machine's clock.
        let token = sign("secret", 42, now_s, 60).unwrap();
        let key = DecodingKey::from_secret(b"secret");
        let decoded = decode::<Decoded>(&token, &key, &Validation::new(Algorithm::HS256)).unwrap();
        assert_eq!(decoded.claims.sub, "42");
        assert_eq!(decoded.claims.exp, now_s + 60);
    }
}

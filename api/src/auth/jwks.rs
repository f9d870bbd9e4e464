//! The public keys of the token issuer: a JSON Web Key Set (RFC 7517) from a file or a URL.
//!
//! The set is read at start and every few minutes, so that a withdrawn key is dropped. It is also read when a token
//! names an unknown key, because issuers rotate keys by signing with the new one; at most once in [`ASK_PAUSE`], so
//! that clients cannot cause more reads by inventing names. If a set cannot be read, the last one stays.

use std::{
    collections::HashMap,
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, crypto,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse},
};
use reqwest::Url;
use serde::Deserialize;
use tokio::{sync::Mutex, time::Instant};
use tracing::{info, warn};

/// Interval between reads of the set, and so how long a withdrawn key is still accepted.
const READ_EVERY: Duration = Duration::from_mins(5);

/// Minimum interval between reads for an unknown key.
const ASK_PAUSE: Duration = Duration::from_secs(10);

/// Time limit for the issuer's answer. The request that named the key waits for it.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Largest set, in bytes: hundreds of keys.
const SET_BYTES_MAX: usize = 256 * 1024;

/// Shortest RSA modulus, in bytes: 2,048 bits (RFC 7518, 3.3).
const MODULUS_BYTES_MIN: usize = 256;

/// Length of an Ed25519 key in characters: 32 bytes in base64url. The library that checks signatures panics if a key is
/// shorter.
const ED25519_CHARS: usize = 43;

/// A key, and the rules for tokens that name it.
pub(crate) struct Key {
    pub(crate) decoding: DecodingKey,
    pub(crate) validation: Validation,
}

pub(crate) struct Jwks {
    source: Source,
    /// Rules for every token. A key adds its algorithms.
    rules: Validation,
    keys: RwLock<Keys>,
    asked: Mutex<Option<Instant>>,
}

/// Keys by name. A token that names no key finds one only if the set has just one.
pub(crate) type Keys = HashMap<Option<String>, Arc<Key>>;

enum Source {
    File(PathBuf),
    Url { url: String, client: reqwest::Client },
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<serde_json::Value>,
}

/// Checks where the set is read from: an attacker who can change it on the way could sign tokens of every user.
///
/// # Errors
/// It is a URL without TLS, of a host that is not this machine.
pub(crate) fn check_source(source: &str) -> anyhow::Result<()> {
    // Parsed like the HTTP client does, which accepts the scheme in any case.
    let Ok(url) = Url::parse(source) else { return Ok(()) };
    if url.scheme() != "http" {
        return Ok(());
    }
    let is_here = url.host_str().is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    });
    ensure!(
        is_here,
        "JWKS is fetched without TLS from another machine, and whoever sits in between could sign tokens: use its \
         https:// address, or a file that you keep fresh (http:// is for 127.0.0.1, ::1 and localhost)"
    );
    Ok(())
}

impl Jwks {
    /// Reads the set at `source`, a path or an `http(s)://` URL.
    ///
    /// # Errors
    /// The set cannot be read, or contains no key that tokens can be checked by.
    pub(crate) async fn read(source: &str, rules: Validation) -> anyhow::Result<Self> {
        let is_url = Url::parse(source).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
        let source = if is_url {
            let client = reqwest::Client::builder()
                .timeout(ANSWER_MAX)
                .redirect(reqwest::redirect::Policy::none())
                .build()
                .context("the HTTP client for JWKS")?;
            Source::Url { url: source.to_owned(), client }
        } else {
            Source::File(source.into())
        };
        let keys = parse(&source.text().await?, &rules)?;
        info!(keys = keys.len(), "read the keys of tokens");
        Ok(Self { source, rules, keys: RwLock::new(keys), asked: Mutex::default() })
    }

    /// Returns the key that a token names. Reads the set again if the key is unknown.
    pub(crate) async fn key(&self, name: Option<&str>) -> Option<Arc<Key>> {
        if let Some(key) = self.known(name) {
            return Some(key);
        }
        // One caller reads; callers that waited for it find the result.
        let mut asked = self.asked.lock().await;
        if let Some(key) = self.known(name) {
            return Some(key);
        }
        if asked.is_some_and(|at| at.elapsed() < ASK_PAUSE) {
            return None;
        }
        *asked = Some(Instant::now());
        self.read_again().await;
        self.known(name)
    }

    /// Reads the set every [`READ_EVERY`]. Never returns.
    pub(crate) async fn follow(&self) {
        loop {
            tokio::time::sleep(READ_EVERY).await;
            self.read_again().await;
        }
    }

    fn known(&self, name: Option<&str>) -> Option<Arc<Key>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        match name {
            Some(name) => keys.get(&Some(name.to_owned())).cloned(),
            None if keys.len() == 1 => keys.values().next().cloned(),
            None => None,
        }
    }

    async fn read_again(&self) {
        let read = async { parse(&self.source.text().await?, &self.rules) };
        match read.await {
            Ok(keys) => *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys,
            Err(error) => {
                warn!(
                    error = runtime::report(error.as_ref()),
                    "the keys of tokens stay as they are"
                );
            }
        }
    }
}

impl Source {
    async fn text(&self) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::File(path) => {
                let text = tokio::fs::read(path).await;
                let text = text.with_context(|| format!("JWKS: {} is not read", path.display()))?;
                ensure!(text.len() <= SET_BYTES_MAX, "JWKS has more than {SET_BYTES_MAX} bytes");
                Ok(text)
            }
            Self::Url { url, client } => {
                let get = async || {
                    let mut answer = client.get(url).send().await?.error_for_status()?;
                    let mut text = Vec::new();
                    while let Some(chunk) = answer.chunk().await? {
                        text.extend_from_slice(&chunk);
                        if text.len() > SET_BYTES_MAX {
                            break;
                        }
                    }
                    Ok::<_, reqwest::Error>(text)
                };
                let text = get().await.context("JWKS: the URL does not answer with a set")?;
                ensure!(text.len() <= SET_BYTES_MAX, "JWKS has more than {SET_BYTES_MAX} bytes");
                Ok(text)
            }
        }
    }
}

/// Returns the keys of a set that tokens can be checked by. Others are skipped with a warning.
pub(crate) fn parse(text: &[u8], rules: &Validation) -> anyhow::Result<Keys> {
    let set: KeySet = serde_json::from_slice(text).context("JWKS is not a set of keys")?;
    let mut keys = Keys::new();
    for value in set.keys {
        match key(value, rules) {
            Ok((name, key)) => {
                // Of two keys with one name neither is more trustworthy: the first stays.
                keys.entry(name).or_insert_with(|| Arc::new(key));
            }
            Err(error) => {
                warn!(error = runtime::report(error.as_ref()), "a key of JWKS is passed over");
            }
        }
    }
    ensure!(!keys.is_empty(), "JWKS holds no public key for signatures by RS, PS, ES or EdDSA");
    Ok(keys)
}

fn key(value: serde_json::Value, rules: &Validation) -> anyhow::Result<(Option<String>, Key)> {
    let jwk: Jwk = serde_json::from_value(value).context("it is not a key")?;
    let for_signatures = matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
    ensure!(for_signatures, "it is not for signatures");
    let possible = algorithms(&jwk.algorithm)?;
    let algorithms = match jwk.common.key_algorithm {
        None => possible,
        Some(named) => {
            let named = Algorithm::try_from(named).context("its algorithm is unknown")?;
            ensure!(possible.contains(&named), "its algorithm does not fit its kind");
            vec![named]
        }
    };
    let decoding = DecodingKey::from_jwk(&jwk).context("it cannot be read")?;
    // Only a check of a signature shows whether the key is valid. Make it here, not at a shopper's request.
    for algorithm in &algorithms {
        crypto::verify("", b"", &decoding, *algorithm).context("it is no key")?;
    }
    let validation = Validation { algorithms, ..rules.clone() };
    Ok((jwk.common.key_id, Key { decoding, validation }))
}

/// Returns the algorithms that a kind of key serves. A symmetric key is refused: the set is public, so any reader could
/// sign with the secret.
fn algorithms(parameters: &AlgorithmParameters) -> anyhow::Result<Vec<Algorithm>> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    match parameters {
        AlgorithmParameters::RSA(rsa) => {
            // Four base64 characters are three bytes. Leading zeros add nothing to a number.
            let bytes = rsa.n.trim_end_matches('=').trim_start_matches('A').len() * 3 / 4;
            ensure!(bytes >= MODULUS_BYTES_MIN, "its modulus is shorter than 2048 bits");
            Ok(vec![RS256, RS384, RS512, PS256, PS384, PS512])
        }
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P256 => Ok(vec![ES256]),
            EllipticCurve::P384 => Ok(vec![ES384]),
            _ => bail!("its curve is not supported"),
        },
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            ensure!(pair.x.len() == ED25519_CHARS, "it has not 32 bytes");
            Ok(vec![EdDSA])
        }
        AlgorithmParameters::OctetKey(_) => bail!("it is a secret"),
        _ => bail!("its kind is not supported"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The public keys of RFC 7517, A.1.
    const EC_X: &str = "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4";
    const EC_Y: &str = "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM";
    const RSA_N: &str = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw";

    /// Returns the algorithms of each key of a set, or the error.
    fn serves(keys: serde_json::Value) -> Result<Vec<Vec<Algorithm>>, String> {
        let text = json!({ "keys": keys }).to_string();
        let keys = parse(text.as_bytes(), &Validation::default()).map_err(|e| e.to_string())?;
        Ok(keys.values().map(|key| key.validation.algorithms.clone()).collect())
    }

    #[test]
    fn a_set_from_another_machine_comes_by_tls() {
        for right in [
            "https://issuer.example/keys",
            "HTTPS://issuer.example/keys",
            "http://127.0.0.1:8/keys",
            "http://127.8.9.1/keys",
            "http://[::1]:8/keys",
            "http://localhost:8/keys",
            "/etc/coupon/keys.json",
            "keys.json",
        ] {
            check_source(right).unwrap();
        }
        for wrong in [
            "http://issuer.example/keys",
            "HTTP://issuer.example/keys",
            "http://10.0.0.1/keys",
            "http://127.0.0.1.example/keys",
            "http://localhost.example/keys",
            "http://127.0.0.1@issuer.example/keys",
            "http://0.0.0.0/keys",
        ] {
            let error = check_source(wrong).unwrap_err().to_string();
            assert!(error.contains("https://"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_key_serves_the_algorithms_of_its_kind_or_the_one_it_names() {
        let ec = json!({ "kty": "EC", "crv": "P-256", "x": EC_X, "y": EC_Y, "kid": "1" });
        assert_eq!(serves(json!([ec])).unwrap(), [vec![Algorithm::ES256]]);
        let rsa = json!({ "kty": "RSA", "n": RSA_N, "e": "AQAB", "kid": "2", "use": "sig" });
        assert_eq!(serves(json!([rsa])).unwrap()[0].len(), 6);
        let named = json!({ "kty": "RSA", "n": RSA_N, "e": "AQAB", "alg": "RS256" });
        assert_eq!(serves(json!([named])).unwrap(), [vec![Algorithm::RS256]]);
        assert_eq!(
            serves(json!([rsa, rsa, ec])).unwrap().len(),
            2,
            "of two with one name one stays"
        );
    }

    #[test]
    fn keys_that_are_not_public_signature_keys_are_skipped() {
        for none in [
            json!({ "kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0" }),
            json!({ "kty": "RSA", "n": RSA_N, "e": "AQAB", "alg": "HS256" }),
            json!({ "kty": "RSA", "n": RSA_N, "e": "AQAB", "alg": "RSA-OAEP" }),
            json!({ "kty": "RSA", "n": RSA_N, "e": "AQAB", "use": "enc" }),
            json!({ "kty": "RSA", "n": &RSA_N[..171], "e": "AQAB" }),
            json!({ "kty": "RSA", "n": format!("{}{}", "A".repeat(171), &RSA_N[..171]), "e": "AQAB" }),
            json!({ "kty": "EC", "crv": "P-521", "x": EC_X, "y": EC_Y }),
            json!({ "kty": "EC", "crv": "P-256", "x": EC_X, "y": EC_X }),
            json!({ "kty": "OKP", "crv": "Ed25519", "x": "" }),
            json!({ "kty": "OKP", "crv": "Ed25519", "x": &EC_X[..42] }),
            json!({ "kty": "OKP", "crv": "Ed25519", "x": format!("{EC_X}AAAA") }),
            json!({ "kty": "else" }),
            json!("key"),
        ] {
            let error = serves(json!([none.clone()])).unwrap_err();
            assert!(error.contains("no public key"), "{none}: {error}");
        }
        assert!(parse(b"{}", &Validation::default()).is_err());
    }
}

//! Format of operators' keys: `ck_<id>_<secret>`, where the secret is 32 random bytes in base64url.
//!
//! Only the SHA-256 of the whole key is stored. A fast hash is right here: slow hashes protect passwords that can be
//! guessed, and 256 random bits cannot be guessed at any speed. It also makes a check so cheap that clients cannot load
//! the server by sending wrong keys.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use coupon::ApiKeyId;
use mysql_store::api_key::Digest;
use sha2::{Digest as _, Sha256};

/// Prefix of every key, by which people and scanners for leaked secrets recognise one.
const PREFIX: &str = "ck_";

/// Random bytes of a secret: too many to be guessed.
const SECRET_BYTES: usize = 32;

/// Characters of a secret in base64 without padding.
const SECRET_CHARS: usize = 43;

/// Makes a new key with this id, to be shown once.
///
/// # Errors
/// The system provides no random bytes.
pub(crate) fn new(id: ApiKeyId) -> Result<String, getrandom::Error> {
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret)?;
    Ok(format!("{PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(secret)))
}

/// Returns the id in a key, or `None` if the text is not in the form of our keys.
pub(crate) fn id_of(key: &str) -> Option<ApiKeyId> {
    let (id, secret) = key.strip_prefix(PREFIX)?.split_once('_')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_secret = secret.len() == SECRET_CHARS && secret.bytes().all(plain);
    // Accept only our own spelling: no sign and no leading zeros.
    id.parse().ok().filter(|it: &ApiKeyId| is_secret && it.to_string() == id)
}

/// Returns the digest that is stored for a key and that keys are compared by. The time of a comparison of digests
/// reveals nothing about the keys.
pub(crate) fn digest_of(key: &[u8]) -> Digest {
    Sha256::digest(key).into()
}

/// Seals the secret in a key, or unseals a sealed one: both XOR it with a pad made of `seal` and `id`. A sealed key can
/// be stored where the seal is not, since the pad is as long as the secret and used for this key alone.
pub(crate) fn sealed(key: &str, id: ApiKeyId, seal: &Digest) -> Option<String> {
    let (head, secret) = key.split_at_checked(key.len().checked_sub(SECRET_CHARS)?)?;
    let secret = URL_SAFE_NO_PAD.decode(secret).ok()?;
    let pad = Sha256::new_with_prefix(seal).chain_update(id.0.to_be_bytes()).finalize();
    let hidden: Vec<u8> = secret.iter().zip(pad).map(|(secret, pad)| secret ^ pad).collect();
    Some(format!("{head}{}", URL_SAFE_NO_PAD.encode(hidden)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_id_and_no_two_are_alike() {
        let id = ApiKeyId(1_234);
        let one = new(id).unwrap();
        let other = new(id).unwrap();
        assert!(one.starts_with("ck_1234_") && one.len() == "ck_1234_".len() + SECRET_CHARS);
        assert_eq!((id_of(&one), id_of(&other)), (Some(id), Some(id)));
        assert_ne!(digest_of(one.as_bytes()), digest_of(other.as_bytes()));
    }

    #[test]
    fn a_sealed_key_is_another_and_the_same_seal_opens_it() {
        let id = ApiKeyId(1_234);
        let seal = [1; 32];
        let other = [2; 32];
        let key = new(id).unwrap();
        let hidden = sealed(&key, id, &seal).unwrap();
        assert!(hidden != key && hidden.starts_with("ck_1234_") && hidden.len() == key.len());
        assert_eq!(sealed(&hidden, id, &seal).unwrap(), key);
        assert_ne!(sealed(&hidden, id, &other).unwrap(), key);
        assert_ne!(sealed(&hidden, ApiKeyId(1_235), &seal).unwrap(), key);
        assert_eq!(sealed("short", id, &seal), None);
    }

    #[test]
    fn text_in_another_format_is_no_key() {
        let secret = "a".repeat(SECRET_CHARS);
        assert_eq!(id_of(&format!("ck_7_{secret}")), Some(ApiKeyId(7)));
        for wrong in [
            String::new(),
            format!("ck_{secret}"),
            format!("ck__{secret}"),
            format!("ck_-7_{secret}"),
            format!("ck_9223372036854775808_{secret}"),
            format!("ck_07_{secret}"),
            format!("CK_7_{secret}"),
            format!("ck_7_{secret}a"),
            format!("ck_7_{}=", &secret[1..]),
        ] {
            assert_eq!(id_of(&wrong), None, "{wrong}");
        }
    }
}

//! What an operator's key looks like: `ck_<id>_<secret>`, the secret being 32 random bytes in base64url.
//!
//! Only SHA-256 of the whole key is kept. A fast hash is right here: slow ones make up for passwords that can
//! be guessed, and 256 random bits cannot be, however fast one tries. It also costs a request nothing, so
//! that nobody can make us work by sending wrong keys.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use coupon::ApiKeyId;
use mysql_store::api_key::Digest;
use sha2::{Digest as _, Sha256};

/// How a key begins, so that people and scanners for leaked secrets recognise one.
const PREFIX: &str = "ck_";

/// Random bytes of a secret: beyond guessing for good.
const SECRET_BYTES: usize = 32;

/// Characters of a secret: base64 without padding.
const SECRET_CHARS: usize = 43;

/// A new key of this id, to be shown once.
///
/// # Errors
/// The system gives no random bytes.
pub(crate) fn new(id: ApiKeyId) -> Result<String, getrandom::Error> {
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret)?;
    Ok(format!("{PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(secret)))
}

/// The id that a key names; absent: it is none of ours.
pub(crate) fn id_of(key: &str) -> Option<ApiKeyId> {
    let (id, secret) = key.strip_prefix(PREFIX)?.split_once('_')?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_secret = secret.len() == SECRET_CHARS && secret.bytes().all(plain);
    // As we write it: no sign and no zeros before it.
    id.parse().ok().filter(|it: &ApiKeyId| is_secret && it.to_string() == id)
}

/// What is kept of a key, and what keys are compared by: of digests it tells nobody anything how far two
/// agree.
pub(crate) fn digest_of(key: &[u8]) -> Digest {
    Sha256::digest(key).into()
}

/// The key with its secret sealed, or a sealed one with its secret as it was. It can be kept where the seal is not:
/// a secret of as many random bytes, used for this key alone, hides it.
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
        let (one, other) = (new(id).unwrap(), new(id).unwrap());
        assert!(one.starts_with("ck_1234_") && one.len() == "ck_1234_".len() + SECRET_CHARS);
        assert_eq!((id_of(&one), id_of(&other)), (Some(id), Some(id)));
        assert_ne!(digest_of(one.as_bytes()), digest_of(other.as_bytes()));
    }

    #[test]
    fn a_sealed_key_is_another_and_the_same_seal_opens_it() {
        let (id, seal, other) = (ApiKeyId(1_234), [1; 32], [2; 32]);
        let key = new(id).unwrap();
        let hidden = sealed(&key, id, &seal).unwrap();
        assert!(hidden != key && hidden.starts_with("ck_1234_") && hidden.len() == key.len());
        assert_eq!(sealed(&hidden, id, &seal).unwrap(), key);
        assert_ne!(sealed(&hidden, id, &other).unwrap(), key);
        assert_ne!(sealed(&hidden, ApiKeyId(1_235), &seal).unwrap(), key);
        assert_eq!(sealed("short", id, &seal), None);
    }

    #[test]
    fn what_is_not_made_like_a_key_is_none() {
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

//! Rejects secrets that are not random: those of examples, and those typed by hand.

use anyhow::ensure;

/// Shortest secret of tokens, in bytes: the output size of HMAC-SHA256 (RFC 7518, 3.2).
const JWT_SECRET_BYTES_MIN: usize = 32;

/// Shortest operator key, in bytes: too long to be guessed.
const OPERATOR_KEY_BYTES_MIN: usize = 24;

/// Shortest secret of receipts, in bytes: the output size of HMAC-SHA256.
const RECEIPT_SECRET_BYTES_MIN: usize = 32;

/// Fewest different characters: 48 random hexadecimal digits have nearly all sixteen.
const CHARACTERS_MIN: usize = 8;

/// Words of example secrets. No random key contains them.
const EXAMPLES: [&str; 6] = ["change", "secret", "example", "password", "private", "default"];

/// Checks the secret of tokens.
///
/// # Errors
/// The secret is rejected; the sentence says why.
pub(crate) fn check_jwt_secret(secret: &str) -> anyhow::Result<()> {
    ensure!(
        secret.len() >= JWT_SECRET_BYTES_MIN,
        "JWT_SECRET must have at least {JWT_SECRET_BYTES_MIN} bytes, e.g. from `openssl rand -hex 32`"
    );
    check_random("JWT_SECRET", secret, 32)
}

/// Checks the operator's key.
///
/// # Errors
/// The secret is rejected; the sentence says why.
pub(crate) fn check_operator_key(key: &str) -> anyhow::Result<()> {
    ensure!(
        key.len() >= OPERATOR_KEY_BYTES_MIN,
        "OPERATOR_KEY must have at least {OPERATOR_KEY_BYTES_MIN} bytes, e.g. from `openssl rand -hex 24`"
    );
    check_random("OPERATOR_KEY", key, 24)
}

/// Checks the secret of receipts. An empty one counts as absent.
///
/// # Errors
/// The secret is rejected; the sentence says why.
pub(crate) fn check_receipt_secret(secret: &str) -> anyhow::Result<()> {
    if secret.is_empty() {
        return Ok(());
    }
    ensure!(
        secret.len() >= RECEIPT_SECRET_BYTES_MIN,
        "RECEIPT_SECRET must have at least {RECEIPT_SECRET_BYTES_MIN} bytes, e.g. from `openssl rand -hex 32`"
    );
    check_random("RECEIPT_SECRET", secret, 32)
}

fn check_random(setting: &str, secret: &str, bytes: usize) -> anyhow::Result<()> {
    let lower = secret.to_ascii_lowercase();
    let example = EXAMPLES.into_iter().find(|word| lower.contains(word));
    ensure!(
        example.is_none(),
        "{setting} is an example's: make one of your own, e.g. by `openssl rand -hex {bytes}`"
    );
    let mut characters: Vec<u8> = secret.bytes().collect();
    characters.sort_unstable();
    characters.dedup();
    ensure!(
        characters.len() >= CHARACTERS_MIN,
        "{setting} has only {} different characters: make one by `openssl rand -hex {bytes}`",
        characters.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_secret_is_accepted_and_an_examples_or_a_typed_one_is_not() {
        let random = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c";
        check_jwt_secret(random).unwrap();
        check_operator_key(random).unwrap();
        for (none, why) in [
            ("short", "at least 32 bytes"),
            ("change-me-before-anyone-else-can-reach-this", "an example's"),
            ("a-private-platform-signs-with-this", "an example's"),
            ("MySuperSECRETmySuperSECRETmySuperSECRET", "an example's"),
            ("abcabcabcabcabcabcabcabcabcabcabcabcabc", "different characters"),
        ] {
            let error = check_jwt_secret(none).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("JWT_SECRET"), "{error}");
            assert!(!error.contains(none), "the error shows the secret: {error}");
        }
        assert!(check_operator_key("a-private-platform-is-run-with-this").is_err());
        assert!(check_receipt_secret(random).is_ok() && check_receipt_secret("").is_ok());
        assert!(check_receipt_secret("short").is_err());
    }
}

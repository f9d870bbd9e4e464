//! Password authentication methods. They are the driver's, because the tailer also needs the driver to log in as the
//! same user. The library computes the digests. OpenSSL encrypts the password for the server, since the library assumes
//! that any server key is well-formed.

use mysql_common::{
    auth::plugins::{
        caching_sha2_password::scramble_sha256,
        mysql_native_password::{SCRAMBLE_LENGTH, scramble_native},
    },
    packets::AuthPlugin,
};
use openssl::{
    error::ErrorStack,
    rsa::{Padding, Rsa},
};

use crate::error::TailError;

/// Answers of a server to a `caching_sha2_password` digest: accepted, or the password itself is needed.
const IS_KNOWN: &[u8] = &[3];
const WANTS_PASSWORD: &[u8] = &[4];

/// Requests for the server's public key.
const CACHING_SHA2_KEY: u8 = 2;
const SHA256_KEY: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Native,
    CachingSha2,
    Sha256,
}

/// An authentication in progress.
pub(super) struct Proof<'a> {
    scheme: Scheme,
    nonce: [u8; SCRAMBLE_LENGTH],
    password: &'a [u8],
    /// Whether the connection is protected from eavesdropping.
    is_private: bool,
}

impl<'a> Proof<'a> {
    /// Starts the method requested by the server. Fails if we do not support it.
    pub(super) fn new(
        plugin: &AuthPlugin<'_>,
        nonce: &[u8],
        password: &'a str,
        is_private: bool,
    ) -> Result<Self, TailError> {
        let scheme = match plugin {
            AuthPlugin::MysqlNativePassword => Scheme::Native,
            AuthPlugin::CachingSha2Password => Scheme::CachingSha2,
            AuthPlugin::Sha256Password => Scheme::Sha256,
            // Clear text would reveal the password, and only unsupported methods ask for it.
            other => {
                let name = String::from_utf8_lossy(other.as_bytes()).into_owned();
                return Err(TailError::Login {
                    reason: format!(
                        "the server wants this user's password by {name:?}, which the tailer does not have: \
                         alter the user to caching_sha2_password (MySQL) or mysql_native_password (MariaDB)"
                    ),
                });
            }
        };
        let nonce = nonce.try_into().map_err(|_| super::malformed("challenge"))?;
        Ok(Self { scheme, nonce, password: password.as_bytes(), is_private })
    }

    /// Returns the method's name.
    pub(super) fn plugin(&self) -> AuthPlugin<'static> {
        match self.scheme {
            Scheme::Native => AuthPlugin::MysqlNativePassword,
            Scheme::CachingSha2 => AuthPlugin::CachingSha2Password,
            Scheme::Sha256 => AuthPlugin::Sha256Password,
        }
    }

    /// Returns the first answer.
    pub(super) fn begin(&self) -> Vec<u8> {
        let digest = match self.scheme {
            _ if self.password.is_empty() => None,
            Scheme::Native => {
                scramble_native(&self.nonce, self.password).map(|digest| digest.to_vec())
            }
            Scheme::CachingSha2 => {
                scramble_sha256(&self.nonce, self.password).map(|digest| digest.to_vec())
            }
            Scheme::Sha256 if self.is_private => Some(self.terminated()),
            Scheme::Sha256 => Some(vec![SHA256_KEY]),
        };
        digest.unwrap_or_default()
    }

    /// Returns the next answer; `None` if the server must send first.
    pub(super) fn go_on(&self, said: &[u8]) -> Result<Option<Vec<u8>>, TailError> {
        match (self.scheme, said) {
            (Scheme::CachingSha2, IS_KNOWN) => Ok(None),
            (Scheme::CachingSha2, WANTS_PASSWORD) if self.is_private => Ok(Some(self.terminated())),
            (Scheme::CachingSha2, WANTS_PASSWORD) => Ok(Some(vec![CACHING_SHA2_KEY])),
            (Scheme::CachingSha2 | Scheme::Sha256, key) if !self.is_private => {
                self.sealed(key).map(Some).map_err(|_| super::malformed("public key"))
            }
            _ => Err(super::malformed("question for the password")),
        }
    }

    fn terminated(&self) -> Vec<u8> {
        [self.password, &[0]].concat()
    }

    /// Encrypts the password with the server's public `key`, in PEM.
    fn sealed(&self, key: &[u8]) -> Result<Vec<u8>, ErrorStack> {
        let key = Rsa::public_key_from_pem(key)?;
        let clear = self.terminated();
        let masked: Vec<u8> =
            clear.iter().zip(self.nonce.iter().cycle()).map(|(a, b)| a ^ b).collect();
        let mut sealed = vec![0; usize::try_from(key.size()).unwrap_or_default()];
        let length = key.public_encrypt(&masked, &mut sealed, Padding::PKCS1_OAEP)?;
        sealed.truncate(length);
        Ok(sealed)
    }
}

#[cfg(test)]
mod tests {
    use openssl::rsa::Rsa;

    use super::*;

    const NONCE: [u8; SCRAMBLE_LENGTH] = *b"01234567890123456789";

    fn proof(plugin: AuthPlugin<'_>, password: &'static str, is_private: bool) -> Proof<'static> {
        Proof::new(&plugin, &NONCE, password, is_private).unwrap()
    }

    #[test]
    fn a_password_leaves_in_the_clear_only_on_an_encrypted_connection() {
        const PASSWORD: &str = "correct-horse-battery-staple";
        let key = Rsa::generate(2048).unwrap();
        let public = key.public_key_to_pem().unwrap();
        for plugin in [
            AuthPlugin::MysqlNativePassword,
            AuthPlugin::CachingSha2Password,
            AuthPlugin::Sha256Password,
        ] {
            let proof = proof(plugin, PASSWORD, false);
            let mut said = vec![proof.begin()];
            for asked in [IS_KNOWN, WANTS_PASSWORD, &public] {
                said.extend(proof.go_on(asked).ok().flatten());
            }
            let is_clear = |said: &Vec<u8>| said.windows(7).any(|part| part == b"correct");
            assert!(!said.iter().any(is_clear), "{said:?}");
        }
    }

    #[test]
    fn a_sealed_password_is_opened_by_the_servers_key_and_its_challenge() {
        let key = Rsa::generate(2048).unwrap();
        let proof =
            proof(AuthPlugin::CachingSha2Password, "långt lösenord, längre än en utmaning", false);
        assert_eq!(proof.go_on(WANTS_PASSWORD).unwrap(), Some(vec![CACHING_SHA2_KEY]));
        let sealed = proof.go_on(&key.public_key_to_pem().unwrap()).unwrap().unwrap();
        let mut opened = vec![0; 256];
        let length = key.private_decrypt(&sealed, &mut opened, Padding::PKCS1_OAEP).unwrap();
        for (byte, mask) in opened.iter_mut().zip(NONCE.iter().cycle()) {
            *byte ^= mask;
        }
        assert_eq!(opened[..length], proof.terminated());
    }

    #[test]
    fn a_way_that_is_not_ours_is_named() {
        for name in ["client_ed25519", "mysql_clear_password", "mysql_old_password", "dialog"] {
            let plugin = AuthPlugin::from_bytes(name.as_bytes());
            let error = Proof::new(&plugin, &NONCE, "p", true).map(drop).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        let plugin = AuthPlugin::MysqlNativePassword;
        assert!(Proof::new(&plugin, b"short", "p", true).is_err());
    }

    #[test]
    fn no_password_is_an_empty_answer() {
        for plugin in [AuthPlugin::MysqlNativePassword, AuthPlugin::CachingSha2Password] {
            assert!(proof(plugin, "", false).begin().is_empty());
        }
    }
}

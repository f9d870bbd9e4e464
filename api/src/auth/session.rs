//! Sessions of the console: what stands for an operator's key in a browser, which must not keep the key itself.
//!
//! The platform stores no session. Its cookie holds what a request needs instead of the key: the key's id and the two
//! digests that are made of a key ([`Caller`]), sealed by AES-256-GCM, so that nobody reads or changes them. Each api
//! opens it by the secret that all apis share, and asks its cache of keys at each request, so a session ends with its
//! key ([decision 0112](../../../docs/decisions/0112-a-console-session-is-a-sealed-cookie.md)).
//!
//! Its bytes, as base64url without padding: version (1), nonce (12), what is sealed, tag (16). Sealed are: id of the
//! session (16), id of the key (8), digest (32), seal (32), when it began in milliseconds (8). Numbers are big-endian.

use anyhow::{Context as _, anyhow};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, TimeDelta, Utc};
use coupon::ApiKeyId;
use hmac::{Hmac, KeyInit, Mac};
use openssl::symm::{Cipher, decrypt_aead, encrypt_aead};
use sha2::Sha256;

use crate::auth::Caller;

/// The form of the bytes. Another form gets another number, so that apis of two releases do not misread each other.
const VERSION: u8 = 1;

/// How long a session lasts: a long shift. A cookie that was stolen serves no longer either.
pub(crate) const LIFE: TimeDelta = TimeDelta::hours(12);

/// How far ahead a session may have begun: clocks of apis differ, though not by more.
const AHEAD_MAX: TimeDelta = TimeDelta::minutes(1);

/// Random bytes that name a session: no two have the same.
const ID_BYTES: usize = 16;

/// Bytes of a nonce and a tag of AES-256-GCM. Random nonces repeat after some 2^32 sessions at the earliest.
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;

/// Bytes of a digest of SHA-256.
const DIGEST_BYTES: usize = 32;

/// Bytes of a number.
const NUMBER_BYTES: usize = 8;

/// Bytes that are sealed.
const SEALED_BYTES: usize = ID_BYTES + 2 * NUMBER_BYTES + 2 * DIGEST_BYTES;

/// Characters of a cookie's value. Any other length is none of ours.
const CHARS: usize = ((1 + NONCE_BYTES + SEALED_BYTES + TAG_BYTES) * 4).div_ceil(3);

/// Stands for the id of the platform's own key, which has none.
const PLATFORM: i64 = -1;

/// Begins sessions, and opens them again.
pub(crate) struct Sessions {
    sealing: [u8; DIGEST_BYTES],
    /// Makes the tokens by which the console's own page proves that it sends a request.
    csrf: Hmac<Sha256>,
}

/// A session. Whether its key is still accepted is not known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) id: [u8; ID_BYTES],
    /// `None`: the platform's own key.
    pub(crate) key_id: Option<ApiKeyId>,
    pub(crate) caller: Caller,
    pub(crate) begun_at: DateTime<Utc>,
}

/// A new session, and the value of its cookie.
pub(crate) struct Begun {
    pub(crate) session: Session,
    pub(crate) cookie: String,
}

impl Sessions {
    /// Seals by keys that follow from `secret` or, if it is empty, from the operator's key: all apis have both.
    pub(crate) fn new(secret: &str, operator_key: &str) -> Self {
        let secret = if secret.is_empty() { operator_key } else { secret };
        let derived = |label: &[u8]| -> [u8; DIGEST_BYTES] {
            let mut deriving = signer(secret.as_bytes());
            deriving.update(label);
            deriving.finalize().into_bytes().into()
        };
        Self {
            sealing: derived(b"console sessions: sealing"),
            csrf: signer(&derived(b"console sessions: csrf")),
        }
    }

    /// Begins a session for a key that was accepted.
    ///
    /// # Errors
    /// The system provides no random bytes, or its cipher does not work.
    pub(crate) fn begin(
        &self,
        key_id: Option<ApiKeyId>,
        caller: Caller,
        now: DateTime<Utc>,
    ) -> anyhow::Result<Begun> {
        let mut id = [0; ID_BYTES];
        fill(&mut id)?;
        let session = Session { id, key_id, caller, begun_at: now };
        Ok(Begun { session, cookie: self.sealed(&session)? })
    }

    fn sealed(&self, session: &Session) -> anyhow::Result<String> {
        let mut nonce = [0; NONCE_BYTES];
        fill(&mut nonce)?;
        let mut tag = [0; TAG_BYTES];
        let plain = session.plain();
        let cipher = Cipher::aes_256_gcm();
        let iv = Some(nonce.as_slice());
        let hidden = encrypt_aead(cipher, &self.sealing, iv, &[VERSION], &plain, &mut tag)
            .context("the cipher")?;
        let version = [VERSION];
        let parts = [version.as_slice(), nonce.as_slice(), hidden.as_slice(), tag.as_slice()];
        Ok(URL_SAFE_NO_PAD.encode(parts.concat()))
    }

    /// Opens the value of a cookie. `None`: it is not one of ours, was changed, or its time is over.
    pub(crate) fn open(&self, text: &str, now: DateTime<Utc>) -> Option<Session> {
        if text.len() != CHARS {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (version, rest) = bytes.split_first()?;
        if *version != VERSION {
            return None;
        }
        let (nonce, rest) = rest.split_first_chunk::<NONCE_BYTES>()?;
        let (hidden, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
        let cipher = Cipher::aes_256_gcm();
        let iv = Some(nonce.as_slice());
        let plain = decrypt_aead(cipher, &self.sealing, iv, &[VERSION], hidden, tag).ok()?;
        Session::read(&plain).filter(|session| {
            let age = now - session.begun_at;
            age < LIFE && age > -AHEAD_MAX
        })
    }

    /// Returns the token of a session that its page sends with each change. It is the same from any api.
    pub(crate) fn csrf_token(&self, session: &Session) -> String {
        URL_SAFE_NO_PAD.encode(self.over(session).finalize().into_bytes().as_slice())
    }

    /// Whether a token is the session's.
    pub(crate) fn is_csrf_token(&self, session: &Session, token: &[u8]) -> bool {
        let sent = URL_SAFE_NO_PAD.decode(token).unwrap_or_default();
        self.over(session).verify_slice(&sent).is_ok()
    }

    fn over(&self, session: &Session) -> Hmac<Sha256> {
        let mut signer = self.csrf.clone();
        signer.update(&session.id);
        signer
    }
}

impl Session {
    /// When it ends, however long its key lives.
    pub(crate) fn ends_at(&self) -> DateTime<Utc> {
        self.begun_at + LIFE
    }

    fn plain(&self) -> Vec<u8> {
        let key = self.key_id.map_or(PLATFORM, |key| key.0);
        [
            self.id.as_slice(),
            &key.to_be_bytes(),
            &self.caller.digest,
            &self.caller.seal,
            &self.begun_at.timestamp_millis().to_be_bytes(),
        ]
        .concat()
    }

    fn read(plain: &[u8]) -> Option<Self> {
        let (id, rest) = plain.split_first_chunk::<ID_BYTES>()?;
        let (key, rest) = rest.split_first_chunk::<NUMBER_BYTES>()?;
        let (digest, rest) = rest.split_first_chunk::<DIGEST_BYTES>()?;
        let (seal, rest) = rest.split_first_chunk::<DIGEST_BYTES>()?;
        let begun: [u8; NUMBER_BYTES] = rest.try_into().ok()?;
        let key = i64::from_be_bytes(*key);
        Some(Self {
            id: *id,
            key_id: (key != PLATFORM).then_some(ApiKeyId(key)),
            caller: Caller { digest: *digest, seal: *seal },
            begun_at: DateTime::from_timestamp_millis(i64::from_be_bytes(begun))?,
        })
    }
}

fn fill(bytes: &mut [u8]) -> anyhow::Result<()> {
    getrandom::fill(bytes).map_err(|error| anyhow!("random bytes: {error}"))
}

fn signer(secret: &[u8]) -> Hmac<Sha256> {
    <Hmac<Sha256> as KeyInit>::new_from_slice(secret).expect("a key of any length is taken")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "9f86d081884c7d659a2feaa0c55ad015";

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(ms).unwrap()
    }

    fn now() -> DateTime<Utc> {
        at(1_800_000_000_123)
    }

    fn sessions() -> Sessions {
        Sessions::new(SECRET, "")
    }

    fn begun(sessions: &Sessions, key: Option<ApiKeyId>) -> Begun {
        sessions.begin(key, Caller::of(b"ck_7_a-key"), now()).unwrap()
    }

    #[test]
    fn a_session_is_opened_by_each_api_that_has_the_secret_and_shows_nothing_of_its_key() {
        for key in [None, Some(ApiKeyId(0)), Some(ApiKeyId(i64::MAX))] {
            let Begun { session, cookie } = begun(&sessions(), key);
            assert_eq!(cookie.len(), CHARS);
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            assert!(cookie.chars().all(plain), "{cookie}");
            assert_eq!(sessions().open(&cookie, now()), Some(session));
            assert_eq!(session.key_id, key);
            let bytes = URL_SAFE_NO_PAD.decode(&cookie).unwrap();
            let shows = bytes.windows(DIGEST_BYTES).any(|part| part == session.caller.digest);
            assert!(!shows, "it is sealed");
            assert_ne!(cookie, begun(&sessions(), key).cookie, "no two are alike");
        }
        let cookie = begun(&sessions(), None).cookie;
        for other in [Sessions::new("another", ""), Sessions::new("", "an operator's key")] {
            assert_eq!(other.open(&cookie, now()), None);
        }
        let by_key = || Sessions::new("", "an operator's key");
        assert!(by_key().open(&begun(&by_key(), None).cookie, now()).is_some());
    }

    #[test]
    fn a_session_lasts_for_a_shift_and_no_longer() {
        let cookie = begun(&sessions(), None).cookie;
        let is_open = |at: DateTime<Utc>| sessions().open(&cookie, at).is_some();
        assert!(is_open(now() - AHEAD_MAX + TimeDelta::milliseconds(1)), "clocks differ");
        assert!(!is_open(now() - AHEAD_MAX));
        assert!(is_open(now() + LIFE - TimeDelta::milliseconds(1)) && !is_open(now() + LIFE));
    }

    #[test]
    fn a_csrf_token_is_of_its_session_alone() {
        let one = begun(&sessions(), None).session;
        let other = begun(&sessions(), None).session;
        let token = sessions().csrf_token(&one);
        assert!(sessions().is_csrf_token(&one, token.as_bytes()));
        assert!(!sessions().is_csrf_token(&other, token.as_bytes()));
        assert!(!Sessions::new("another", "").is_csrf_token(&one, token.as_bytes()));
        for wrong in ["", "x", &token[1..], &format!("{token}A")] {
            assert!(!sessions().is_csrf_token(&one, wrong.as_bytes()), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_cookie_with_one_bit_changed_or_an_end_cut_off_is_none(bit in 0_usize..1_000, cut in 1..CHARS) {
            let cookie = begun(&sessions(), None).cookie;
            prop_assert_eq!(sessions().open(&cookie[cut..], now()), None);
            prop_assert_eq!(sessions().open(&cookie[..cut], now()), None);
            let mut bytes = URL_SAFE_NO_PAD.decode(&cookie).unwrap();
            let place = bit % (bytes.len() * 8);
            bytes[place / 8] ^= 1 << (place % 8);
            prop_assert_eq!(sessions().open(&URL_SAFE_NO_PAD.encode(bytes), now()), None);
        }

        #[test]
        fn whatever_is_sent_is_none_unless_it_was_begun_here(text in ".{0,300}") {
            prop_assert_eq!(sessions().open(&text, now()), None);
        }
    }
}

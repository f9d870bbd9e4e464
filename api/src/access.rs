//! The request that is being answered: its id, its caller and its claim. The id is in the answer, in problem bodies and
//! in log lines, so that a shop's complaint leads to the line that explains it.
//!
//! `RUST_LOG=info,api::access=debug` shows one line a request; slow ones are shown at `info`.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use coupon::{ApiKeyId, ClaimId, UserId};

/// Header of the id, in requests and answers.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is taken from a client. A UUID has 36 characters, and gateways' own ids have up to about 60.
const ID_CHARS_MAX: usize = 64;

/// Characters of an id besides letters and digits: those of UUIDs, and of gateways' and base64's ids. None needs
/// quoting in a log or a shell.
const ID_MARKS: &[u8] = b"-_.:=+/";

/// Duration from which a request is slow: no handler waits this long for anything that works.
const SLOW: Duration = Duration::from_secs(1);

tokio::task_local! {
    static CURRENT: Arc<Access>;
}

/// One request.
pub(crate) struct Access {
    id: String,
    user: OnceLock<UserId>,
    key: OnceLock<Option<ApiKeyId>>,
    claim: OnceLock<ClaimId>,
}

impl Access {
    /// Returns the request with these headers. Its id is the client's, or a new one if the client's is absent, too long
    /// or odd.
    pub(crate) fn of(headers: &HeaderMap) -> Arc<Self> {
        let sent = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
        let id = sent.filter(|id| is_sane(id)).map(str::to_owned);
        let id = id.unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)));
        let user = OnceLock::new();
        let key = OnceLock::new();
        let claim = OnceLock::new();
        Arc::new(Self { id, user, key, claim })
    }

    /// Runs a future within the request: there [`current_id`] returns its id.
    pub(crate) async fn within<T>(self: &Arc<Self>, answering: impl Future<Output = T>) -> T {
        CURRENT.scope(Arc::clone(self), answering).await
    }

    /// Like [`Access::within`], for a closure.
    pub(crate) fn within_now<T>(self: &Arc<Self>, make: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(Arc::clone(self), make)
    }

    /// Adds the id to an answer.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            headers.insert(REQUEST_ID, id);
        }
    }

    /// Writes the request's line.
    pub(crate) fn log(&self, method: &str, route: &str, status: StatusCode, took: Duration) {
        let is_slow = took >= SLOW;
        if !is_slow && !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let id = self.id.as_str();
        let status = status.as_u16();
        let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let user = self.user.get().map(|user| user.0);
        let key = self.key.get().map(|key| name_of(*key));
        let claim = self.claim.get().map(|claim| claim.0);
        macro_rules! line {
            ($level:ident, $words:literal) => {
                tracing::$level!(
                    request.id = id,
                    http.method = method,
                    http.route = route,
                    http.status = status,
                    ms,
                    user.id = user,
                    key.id = key,
                    claim.id = claim,
                    $words
                )
            };
        }
        if is_slow {
            line!(info, "a slow request");
        } else {
            line!(debug, "a request");
        }
    }
}

/// Returns the id of the request that is being answered.
pub(crate) fn current_id() -> Option<String> {
    CURRENT.try_with(|access| access.id.clone()).ok()
}

/// Notes the shopper whose token was accepted.
pub(crate) fn note_user(user: UserId) {
    note(|access| {
        access.user.get_or_init(|| user);
    });
}

/// Notes the operator's key that was accepted; `None` is the platform's own.
pub(crate) fn note_key(key: Option<ApiKeyId>) {
    note(|access| {
        access.key.get_or_init(|| key);
    });
}

/// Notes the claim that the request makes or asks for.
pub(crate) fn note_claim(claim: ClaimId) {
    note(|access| {
        access.claim.get_or_init(|| claim);
    });
}

fn note(what: impl FnOnce(&Access)) {
    // Outside a request, e.g. in a unit test, there is nothing to note.
    let _outside = CURRENT.try_with(|access| what(access));
}

fn name_of(key: Option<ApiKeyId>) -> String {
    key.map_or_else(|| "platform".to_owned(), |key| key.to_string())
}

fn is_sane(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || ID_MARKS.contains(&byte);
    (1..=ID_CHARS_MAX).contains(&id.len()) && id.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_for(sent: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_bytes(sent.as_bytes()).unwrap());
        Access::of(&headers).id.clone()
    }

    #[test]
    fn a_sane_id_is_kept_and_any_other_is_replaced_by_a_new_one() {
        let longest = "a".repeat(ID_CHARS_MAX);
        for sane in ["7", "0af76519-16cd-43dd-8448-eb211c80319c", "Root=1-67:2/a+b_c.d", &longest] {
            assert_eq!(id_for(sane), sane);
        }
        for odd in ["", " a", "a b", "a\tb", "\"", "<id>", "é", "a,b", &format!("{longest}a")] {
            let made = id_for(odd);
            assert!(made.len() == 32 && made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{odd}");
            assert_ne!(made, id_for(odd), "each is new");
        }
    }

    #[tokio::test]
    async fn what_is_made_within_a_request_knows_its_id_and_is_noted() {
        let access = Access::of(&HeaderMap::new());
        assert_eq!(current_id(), None);
        let within = access.within(async {
            note_user(UserId(7));
            current_id()
        });
        assert_eq!(within.await, Some(access.id.clone()));
        assert_eq!(access.within_now(current_id), Some(access.id.clone()));
        assert_eq!(access.user.get(), Some(&UserId(7)));
    }
}

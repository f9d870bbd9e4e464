//! Authentication: users by a bearer token, operators by a key. A user's id comes from the token, never from a body.
//!
//! A key belongs to a merchant and has scopes. Requests that only read need the scope `read`, all others `operate`, so
//! a new route is never open to more callers than it should be. Routes that need more check it themselves. Routes of a
//! checkout, which needs `redeem` alone, take a [`Redeemer`].
//!
//! The console's page has a [`session`] in place of its operator's key, and every extractor takes it.

pub(crate) mod api_key;
pub(crate) mod cookie;
mod extractors;
pub(crate) mod fence_limit;
pub(crate) mod jwks;
pub(crate) mod key_cache;
pub(crate) mod rate_limit;
mod same_origin;
pub(crate) mod secrets;
pub(crate) mod session;
pub(crate) mod tokens;
pub(crate) mod upkeep;

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};
use chrono::{DateTime, Utc};
use coupon::{ApiKeyId, MerchantId, Scope, Scopes, UserId};
use mysql_store::{api_key::Digest, merchant::PLATFORM};
use runtime::Clock;

use crate::{
    access,
    auth::{
        key_cache::{KeyAge, KeyCache},
        session::{Begun, Session, Sessions},
        tokens::Tokens,
    },
    code::Code,
    http::{headers, instant::instant},
    problem::Problem,
};

/// Header that carries the operator's key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Header by which the console's page shows that it is the one that changes something.
const CSRF_TOKEN: HeaderName = HeaderName::from_static("x-csrf-token");

/// Name of the platform's own key, which is in the settings.
const PLATFORM_KEY: &str = "platform";

pub(crate) struct Auth {
    tokens: Tokens,
    /// Digest of the platform's own key.
    platform_key: Digest,
    keys: KeyCache,
    sessions: Sessions,
    clock: Clock,
}

/// A key as a request shows it. Whether it is accepted is not known yet.
#[derive(Debug, Clone, Copy)]
struct Shown {
    /// `None`: the text is not in the form of our keys; it may be the platform's own.
    key_id: Option<ApiKeyId>,
    caller: Caller,
}

/// An authenticated shopper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User(pub(crate) UserId);

/// An authenticated operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operator {
    /// The merchant whose templates it sees.
    pub(crate) merchant_id: MerchantId,
    /// `None`: the platform's own key, which is in the settings.
    pub(crate) key_id: Option<ApiKeyId>,
    pub(crate) trace_id: Option<u128>,
    /// When its key expires or is revoked. `None`: never.
    pub(crate) ends_at: Option<DateTime<Utc>>,
    pub(crate) caller: Caller,
    scopes: Scopes,
}

/// Values derived from the key that an operator sent. The key itself is not stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Digest that keys are compared by.
    pub(crate) digest: Digest,
    /// Seals what only the same key may read again ([`api_key::sealed`]). MySQL stores the digest, and not this.
    pub(crate) seal: Digest,
}

impl Caller {
    fn of(key: &[u8]) -> Self {
        let sealing = [b"seal of answers: ", key].concat();
        Self { digest: api_key::digest_of(key), seal: api_key::digest_of(&sealing) }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// An operator whose scopes its handler checks itself: the needed scope depends on the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnyOperator(pub(crate) Operator);

/// Whoever is on call ([`Operator::is_on_call`]), by a key that may be of a while ago if MySQL is away: it reads how the
/// platform is, and changes nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnCall;

/// An operator whose key may be of a while ago if MySQL is away.
#[derive(Debug)]
pub(crate) struct RecentOperator {
    pub(crate) operator: Operator,
    /// Why the key could not be read. Such a request must not change MySQL.
    pub(crate) unread: Option<Problem>,
}

/// An operator who sends the key itself, and no session: who signs in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyHolder(pub(crate) Operator);

/// A session of the console, and the operator whose key it stands for. The key may be of a while ago if MySQL is away.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignedIn {
    pub(crate) operator: Operator,
    pub(crate) session: Session,
}

/// A shop's checkout: an operator whose key has the scope `redeem`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Redeemer(pub(crate) Operator);

/// Who ends a claim: its user, or a shop's checkout. A request with a key is the shop's.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UserOrShop {
    User(UserId),
    Shop(Operator),
}

impl Auth {
    pub(crate) fn new(
        tokens: Tokens,
        platform_key: &str,
        keys: KeyCache,
        sessions: Sessions,
        clock: Clock,
    ) -> Self {
        let platform_key = api_key::digest_of(platform_key.as_bytes());
        Self { tokens, platform_key, keys, sessions, clock }
    }

    /// Makes the next use of an operator's key read it from MySQL.
    pub(crate) fn forget(&self, key: ApiKeyId) {
        self.keys.forget(key);
    }

    /// Takes the keys whose use is due to be written.
    pub(crate) fn take_used(&self) -> Vec<ApiKeyId> {
        self.keys.uses.take()
    }

    /// Keeps the keys of token issuers fresh. Never returns.
    pub(crate) async fn follow(&self) {
        self.tokens.follow().await;
    }

    async fn user(&self, parts: &Parts) -> Result<User, Problem> {
        let token = only(&parts.headers, &header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token)
            .ok_or_else(|| {
                Problem::unauthenticated("Send the header `Authorization: Bearer …`, once.")
            })?;
        let user = self.tokens.user(token).await?;
        access::note_user(user);
        Ok(User(user))
    }

    /// Begins a session for the console of an operator.
    pub(crate) fn begin_session(&self, operator: Operator) -> Result<Begun, Problem> {
        let begun = self.sessions.begin(operator.key_id, operator.caller, self.clock.now());
        begun.map_err(|error| {
            runtime::seldom!("no session can be begun", runtime::report(error.as_ref()));
            let detail = "No session can be begun at the moment. Send the request again.";
            Problem::new(Code::Overloaded, detail)
        })
    }

    /// Returns the token that the console's page sends with each change.
    pub(crate) fn csrf_token(&self, session: &Session) -> String {
        self.sessions.csrf_token(session)
    }

    /// Returns the name of an operator's key, which may be of a while ago if MySQL is away.
    pub(crate) async fn name_of(&self, operator: Operator) -> Result<String, Problem> {
        let Some(id) = operator.key_id else { return Ok(PLATFORM_KEY.to_owned()) };
        let known = self.keys.get(id, KeyAge::Recent).await?;
        Ok(known.map_or_else(String::new, |known| known.key.name.clone()))
    }

    /// Checks again the key of an operator whose request goes on, such as a stream. The key may be of a while ago if
    /// MySQL is away.
    pub(crate) async fn accepts_still(&self, operator: Operator) -> Result<Operator, Problem> {
        let shown = Shown { key_id: operator.key_id, caller: operator.caller };
        self.accepted(shown, operator.trace_id, KeyAge::Recent).await
    }

    async fn operator(&self, parts: &Parts, age: KeyAge) -> Result<Operator, Problem> {
        let trace_id = headers::trace_id(&parts.headers);
        let shown = match self.session(parts)? {
            Some(session) => Shown { key_id: session.key_id, caller: session.caller },
            None => shown(parts)?,
        };
        self.accepted(shown, trace_id, age).await
    }

    async fn key_holder(&self, parts: &Parts) -> Result<Operator, Problem> {
        let trace_id = headers::trace_id(&parts.headers);
        self.accepted(shown(parts)?, trace_id, KeyAge::Recent).await
    }

    async fn signed_in(&self, parts: &Parts) -> Result<SignedIn, Problem> {
        let session = self.session(parts)?.ok_or_else(|| {
            Problem::unauthenticated("There is no session: begin one by `POST` with a key.")
        })?;
        let shown = Shown { key_id: session.key_id, caller: session.caller };
        let trace_id = headers::trace_id(&parts.headers);
        let operator = self.accepted(shown, trace_id, KeyAge::Recent).await?;
        Ok(SignedIn { operator, session })
    }

    /// Returns the session of a request that has its cookie and no key. It must come from the console's own page.
    fn session(&self, parts: &Parts) -> Result<Option<Session>, Problem> {
        let headers = &parts.headers;
        if headers.contains_key(&API_KEY) {
            return Ok(None);
        }
        let Some(cookie) = cookie::session(headers) else { return Ok(None) };
        let session = self.sessions.open(cookie, self.clock.now()).ok_or_else(|| {
            Problem::unauthenticated("The session is over, or is none of ours: sign in again.")
        })?;
        same_origin::check(&parts.method, headers)?;
        let shows_token = only(headers, &CSRF_TOKEN)
            .is_some_and(|token| self.sessions.is_csrf_token(&session, token.as_bytes()));
        if parts.method.is_safe() || shows_token {
            return Ok(Some(session));
        }
        let detail = "Send the session's `csrf_token` in the header `X-Csrf-Token`, once: `GET \
                      /v1/console/session` tells it.";
        Err(Problem::new(Code::CrossSite, detail))
    }

    /// Returns the operator whose key is shown, if it is accepted.
    async fn accepted(
        &self,
        shown: Shown,
        trace_id: Option<u128>,
        age: KeyAge,
    ) -> Result<Operator, Problem> {
        let Shown { key_id, caller } = shown;
        if caller.digest == self.platform_key {
            let merchant_id = PLATFORM;
            let scopes = Scopes::all();
            let key_id = None;
            let ends_at = None;
            access::note_key(None);
            return Ok(Operator { merchant_id, key_id, trace_id, ends_at, caller, scopes });
        }
        let refused = || Problem::unauthenticated("The operator's key is not accepted.");
        let id = key_id.ok_or_else(refused)?;
        let known = self.keys.get(id, age).await?;
        let right = known.filter(|known| known.digest == caller.digest);
        let key = &right.ok_or_else(refused)?.key;
        if !key.is_live(self.clock.now()) {
            // The caller has the whole key, so the answer may say how it ended.
            let (ended, at) = match (key.expires_at, key.revoked_at) {
                (Some(expired), revoked) if revoked.is_none_or(|at| expired <= at) => {
                    ("has expired", expired)
                }
                (expired, revoked) => ("was revoked", revoked.or(expired).unwrap_or_default()),
            };
            let detail =
                format!("The operator's key {ended}: it was accepted until {}.", instant(at));
            return Err(Problem::unauthenticated(detail));
        }
        self.keys.uses.note(id);
        access::note_key(Some(id));
        let merchant_id = key.merchant_id;
        let scopes = key.scopes;
        let ends_at = key.ends_at();
        Ok(Operator { merchant_id, key_id: Some(id), trace_id, ends_at, caller, scopes })
    }
}

impl Operator {
    /// Rejects a key that lacks a scope.
    pub(crate) fn needs(self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.allow(scope) {
            return Ok(());
        }
        let word = scope.word();
        let detail = format!("The key lacks the scope `{word}`.");
        Err(Problem::new(Code::ScopeLacking, detail).with("scope", word))
    }

    /// Rejects every key but the platform's own.
    pub(crate) fn needs_platform(self) -> Result<(), Problem> {
        if self.key_id.is_none() {
            return Ok(());
        }
        let detail = "Only the platform's own key may do this, the one in its settings.";
        Err(Problem::new(Code::PlatformOnly, detail))
    }

    /// Returns whether the operator is called in an emergency: its key is the platform's own, or has the scope
    /// `emergency`.
    pub(crate) fn is_on_call(self) -> bool {
        self.scopes.allow(Scope::Emergency)
    }

    /// Rejects every key but those of [`Operator::is_on_call`].
    pub(crate) fn needs_on_call(self) -> Result<(), Problem> {
        if self.is_on_call() {
            return Ok(());
        }
        let detail = "Only the platform's own key and keys of the scope `emergency` may do this.";
        Err(Problem::new(Code::PlatformOnly, detail))
    }

    /// Returns whether the operator may see this merchant's templates.
    pub(crate) fn sees(self, merchant: MerchantId) -> bool {
        merchant == self.merchant_id || self.is_on_call()
    }

    /// The scopes of the key.
    pub(crate) fn scopes(self) -> Scopes {
        self.scopes
    }

    /// Returns the requested merchant, or the key's own if none is requested. Only the platform's key may request
    /// another merchant.
    pub(crate) fn merchant(self, asked: Option<MerchantId>) -> Result<MerchantId, Problem> {
        let merchant = asked.unwrap_or(self.merchant_id);
        if merchant != self.merchant_id {
            self.needs_platform()?;
        }
        Ok(merchant)
    }

    /// Name of this operator in a stock movement.
    pub(crate) fn actor(self) -> String {
        self.key_id.map_or_else(|| "platform".to_owned(), |id| format!("key:{id}"))
    }
}

/// Returns the key that a request sends.
fn shown(parts: &Parts) -> Result<Shown, Problem> {
    let key = only(&parts.headers, &API_KEY).ok_or_else(|| {
        Problem::unauthenticated("Send the operator's key in the header `X-Api-Key`, once.")
    })?;
    let key_id = key.to_str().ok().and_then(api_key::id_of);
    Ok(Shown { key_id, caller: Caller::of(key.as_bytes()) })
}

/// Returns the value of a header that occurs exactly once: if there are two, a proxy may have read the other.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

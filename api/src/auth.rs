//! Who calls: a user by a bearer token, an operator by a key. A user's id comes from the token, never
//! from a body.
//!
//! A key belongs to a merchant and has scopes. What only looks needs `read`, whatever else `operate`: so a new
//! route is never open to more than it should be. Routes that need more say so, and those of a checkout, which needs
//! `redeem` alone, take a [`Redeemer`].

use std::fmt;

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts},
};
use chrono::{DateTime, Utc};
use coupon::{ApiKeyId, MerchantId, Scope, Scopes, UserId};
use mysql_store::{api_key::Digest, merchant::PLATFORM};

use crate::{api_key, headers, key_cache::KeyCache, problem::Problem, state::App, tokens::Tokens};

/// The header of the operator's key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Checks tokens and keys.
pub(crate) struct Auth {
    tokens: Tokens,
    /// The digest of the platform's own key.
    platform_key: Digest,
    keys: KeyCache,
}

/// A shopper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User(pub(crate) UserId);

/// An operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operator {
    /// Whose templates it sees.
    pub(crate) merchant_id: MerchantId,
    /// Its key; absent: the platform's own, which is in the settings.
    pub(crate) key_id: Option<ApiKeyId>,
    /// The trace of its request.
    pub(crate) trace_id: Option<u128>,
    /// When its key ends; absent: not by itself.
    pub(crate) ends_at: Option<DateTime<Utc>>,
    pub(crate) caller: Caller,
    scopes: Scopes,
}

/// What follows from the key that an operator sent, which is nowhere kept.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    /// What keys are compared by.
    pub(crate) digest: Digest,
    /// Seals what only the same key may read again ([`api_key::sealed`]): MySQL has the digest, and not this.
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

/// A shop's checkout: a key of the scope `redeem`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Redeemer(pub(crate) Operator);

impl Auth {
    pub(crate) fn new(tokens: Tokens, platform_key: &str, keys: KeyCache) -> Self {
        Self { tokens, platform_key: api_key::digest_of(platform_key.as_bytes()), keys }
    }

    /// Looks an operator's key up anew when it is used next.
    pub(crate) fn forget(&self, key: ApiKeyId) {
        self.keys.forget(key);
    }

    /// Keys that were accepted since they were last asked for.
    pub(crate) fn take_used(&self) -> Vec<ApiKeyId> {
        self.keys.uses.take()
    }

    /// Keeps the keys of tokens fresh, for ever.
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
        self.tokens.user(token).await.map(User)
    }

    async fn operator(&self, parts: &Parts, now: DateTime<Utc>) -> Result<Operator, Problem> {
        let key = only(&parts.headers, &API_KEY).ok_or_else(|| {
            Problem::unauthenticated("Send the operator's key in the header `X-Api-Key`, once.")
        })?;
        let caller = Caller::of(key.as_bytes());
        let trace_id = headers::trace_id(&parts.headers);
        if caller.digest == self.platform_key {
            let (merchant_id, scopes) = (PLATFORM, Scopes::all());
            let (key_id, ends_at) = (None, None);
            return Ok(Operator { merchant_id, key_id, trace_id, ends_at, caller, scopes });
        }
        let refused = || Problem::unauthenticated("The operator's key is not accepted.");
        let id = key.to_str().ok().and_then(api_key::id_of).ok_or_else(refused)?;
        let known = self.keys.get(id).await?;
        let right = known.filter(|known| known.digest == caller.digest && known.key.is_live(now));
        let key = &right.ok_or_else(refused)?.key;
        self.keys.uses.note(id);
        let (merchant_id, scopes, ends_at) = (key.merchant_id, key.scopes, key.ends_at());
        Ok(Operator { merchant_id, key_id: Some(id), trace_id, ends_at, caller, scopes })
    }
}

impl Operator {
    /// Refuses a key that lacks a scope.
    pub(crate) fn needs(self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.allow(scope) {
            return Ok(());
        }
        let word = scope.word();
        let detail = format!("The key lacks the scope `{word}`.");
        Err(Problem::forbidden("SCOPE_LACKING", detail).with("scope", word))
    }

    /// Refuses every key but the platform's own.
    pub(crate) fn needs_platform(self) -> Result<(), Problem> {
        if self.key_id.is_none() {
            return Ok(());
        }
        let detail = "Only the platform's own key may do this, the one in its settings.";
        Err(Problem::forbidden("PLATFORM_ONLY", detail))
    }

    /// The merchant that is asked for, its own if none is; another one is for the platform's key only.
    pub(crate) fn merchant(self, asked: Option<MerchantId>) -> Result<MerchantId, Problem> {
        let merchant = asked.unwrap_or(self.merchant_id);
        if merchant != self.merchant_id {
            self.needs_platform()?;
        }
        Ok(merchant)
    }

    /// What stands in a stock movement.
    pub(crate) fn actor(self) -> String {
        self.key_id.map_or_else(|| "platform".to_owned(), |id| format!("key:{id}"))
    }
}

/// The value of a header that is there once: of two, a proxy before us may have read the other.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

impl FromRequestParts<App> for User {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        app.auth.user(parts).await
    }
}

impl FromRequestParts<App> for Redeemer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let operator = app.auth.operator(parts, app.clock.now()).await?;
        operator.needs(Scope::Redeem)?;
        Ok(Self(operator))
    }
}

impl FromRequestParts<App> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let operator = app.auth.operator(parts, app.clock.now()).await?;
        let looks = parts.method.is_safe();
        operator.needs(if looks { Scope::Read } else { Scope::Operate })?;
        Ok(operator)
    }
}

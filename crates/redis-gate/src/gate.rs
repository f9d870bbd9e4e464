//! Claim, settle, release: the life of an admission.

use std::{borrow::Cow, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use coupon::{Claim, ClaimId, Epoch, TemplateId, UserId};
use redis::{FromRedisValue, RedisResult, ScriptInvocation, Value};

use crate::{
    GateError, GateRedis, GateServer, QueueOptions, Verdict,
    connection::Live,
    keys::Keys,
    replica::{Replicated, Rounds, lacks_script},
    scripts::Scripts,
    verdict::{ClaimCall, verdict, wait},
};

/// How often a script is loaded for one call: it may be flushed again before the call arrives.
const LOADED_MAX: u32 = 2;

/// The gates of all templates, on one Redis or on the masters of a cluster.
#[derive(Clone)]
pub struct Gate {
    pub(crate) redis: GateRedis,
    pub(crate) scripts: Arc<Scripts>,
    rounds: Arc<Rounds>,
    prefix: Arc<str>,
}

impl Gate {
    /// Creates the gates on `redis`, with keys that begin with `prefix`.
    pub fn new(redis: GateRedis, prefix: &str) -> Self {
        let scripts = Arc::new(Scripts::new());
        let rounds = Arc::new(Rounds::new(redis.apart(), Arc::clone(&scripts)));
        Self { redis, scripts, rounds, prefix: prefix.into() }
    }

    /// Returns the Redis of the gates.
    pub fn redis(&self) -> &GateRedis {
        &self.redis
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn keys(&self, template: TemplateId) -> Keys {
        Keys::new(&self.prefix, template)
    }

    /// Returns the server that has the gate of `template`, as this process knows; `None`: no server has it now.
    pub fn server_of(&self, template: TemplateId) -> Option<GateServer> {
        self.redis.node_of(&self.keys(template).meta())
    }

    /// Returns the connection to the server that has the gate of `template`.
    pub(crate) async fn live(&self, template: TemplateId) -> Result<Live, GateError> {
        self.redis.live(&self.keys(template).meta()).await
    }

    /// Returns the same gates with a connection of their own, for calls that must not wait behind claims.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { redis: self.redis.apart(), ..self.clone() }
    }

    /// Requests admission of `claim`; `epoch` is the gate's epoch as the caller knows it. A queued claim carries `now`
    /// as its time.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again with the same claim; an admission is then replayed.
    pub async fn claim(
        &self,
        claim: &Claim,
        epoch: Epoch,
        now: DateTime<Utc>,
        queueing: QueueOptions,
    ) -> Result<Verdict, GateError> {
        Ok(self.claim_to_answer(claim, epoch, now, queueing).await?.0)
    }

    /// Like [`Gate::claim`], for a caller that answers a client. Also returns how long a success must be held back:
    /// until then an api may refuse this user from memory ([`crate::REFUSING`]).
    ///
    /// # Errors
    /// As of [`Gate::claim`].
    pub async fn claim_to_answer(
        &self,
        claim: &Claim,
        epoch: Epoch,
        now: DateTime<Utc>,
        queueing: QueueOptions,
    ) -> Result<(Verdict, Duration), GateError> {
        let asked = ClaimCall { claim: Cow::Borrowed(claim), epoch, now, queueing, touch: false };
        let live = self.live(claim.template_id).await?;
        let script = &self.scripts.claim;
        let call = asked.call(script, &asked.keys(&self.keys(claim.template_id)), &live.run);
        let mut connection = live.connection.clone();
        let mut result: RedisResult<Vec<Value>> = call.query_async(&mut connection).await;
        // A script that was flushed between its loading and the call did not run, so it is loaded once more.
        for _ in 0..LOADED_MAX {
            if !lacks_script(&result) {
                break;
            }
            result = match script.load_async(&mut connection).await {
                Ok(_) => call.query_async(&mut connection).await,
                Err(error) => Err(error),
            };
        }
        let answer = live.checked("claim", result).await?;
        let verdict = verdict(&answer, &live.run).ok_or(GateError::Unreadable { call: "claim" })?;
        Ok((verdict, wait(&answer)))
    }

    /// Requests admission of `claim` like [`Gate::claim`], and waits until `copies` replicas have what the gate wrote
    /// for it.
    ///
    /// # Errors
    /// As of [`Gate::claim`]; [`GateError::Unreachable`] also if too many claims wait for replicas already.
    pub async fn claim_replicated(
        &self,
        claim: &Claim,
        epoch: Epoch,
        now: DateTime<Utc>,
        queueing: QueueOptions,
        copies: u32,
    ) -> Result<Replicated, GateError> {
        let asked =
            ClaimCall { claim: Cow::Owned(claim.clone()), epoch, now, queueing, touch: true };
        let server =
            self.server_of(claim.template_id).ok_or(GateError::Unreachable { source: None })?;
        self.rounds.ask(&server, asked.keys(&self.keys(claim.template_id)), asked, copies).await
    }

    /// Settles admissions that landed in `epoch`. Returns how many were pending or queued; `None` under another epoch
    /// or run.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; each takes effect once.
    pub async fn settle(
        &self,
        template: TemplateId,
        epoch: Epoch,
        landed: &[(UserId, ClaimId)],
    ) -> Result<Option<u32>, GateError> {
        let keys = self.keys(template);
        let live = self.live(template).await?;
        let mut call = self.scripts.settle.key(keys.meta());
        call.key(keys.users(epoch))
            .key(keys.inflight(epoch))
            .key(keys.queued(epoch))
            .arg(epoch.0)
            .arg(live.run.as_str());
        for (user, id) in landed {
            call.arg(user.0).arg(id.0);
        }
        let settled: i64 = self.invoke("settle", live, &call).await?;
        Ok(u32::try_from(settled).ok())
    }

    /// Releases an admission that will never land; allowed only behind a fence, and a queued one also behind its
    /// rejection. Returns whether anything was given back; `None` under another epoch or run.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; it takes effect once.
    pub async fn release(
        &self,
        template: TemplateId,
        epoch: Epoch,
        user: UserId,
        id: ClaimId,
    ) -> Result<Option<bool>, GateError> {
        let keys = self.keys(template);
        let live = self.live(template).await?;
        let mut call = self.scripts.release.key(keys.meta());
        call.key(keys.users(epoch))
            .key(keys.inflight(epoch))
            .key(keys.queued(epoch))
            .arg(epoch.0)
            .arg(live.run.as_str())
            .arg(user.0)
            .arg(id.0);
        let released: i64 = self.invoke("release", live, &call).await?;
        Ok(match released {
            1 => Some(true),
            0 => Some(false),
            _ => None,
        })
    }

    /// Marks the gate of this epoch as partly unreadable, so that the keeper rebuilds it.
    ///
    /// # Errors
    /// No answer; the next caller to find the damage marks it again.
    pub async fn mark_unreadable(
        &self,
        template: TemplateId,
        epoch: Epoch,
        what: &str,
    ) -> Result<(), GateError> {
        let live = self.live(template).await?;
        let mut call = self.scripts.mark_unreadable.key(self.keys(template).meta());
        call.arg(epoch.0).arg(what);
        let _: i64 = self.invoke("mark_unreadable", live, &call).await?;
        Ok(())
    }

    pub(crate) async fn invoke<T: FromRedisValue>(
        &self,
        call: &'static str,
        live: Live,
        invocation: &ScriptInvocation<'_>,
    ) -> Result<T, GateError> {
        let mut result = invocation.invoke_async(&mut live.connection.clone()).await;
        // The scripts were flushed after the driver loaded this one and before its call, so it did not run.
        if lacks_script(&result) {
            result = invocation.invoke_async(&mut live.connection.clone()).await;
        }
        live.checked(call, result).await
    }
}

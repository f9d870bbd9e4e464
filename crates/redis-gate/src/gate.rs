//! Claim, settle, release: the life of an admission.

use std::sync::Arc;

use chrono::{DateTime, TimeZone, Utc};
use coupon::{Claim, ClaimId, Epoch, Numbers, TemplateId, UserId};
use redis::{ErrorKind, FromRedisValue, ScriptInvocation, ServerErrorKind, Value};

use crate::{GateError, GateRedis, RequestState, connection::Live, keys::Keys, scripts::Scripts};

/// The gates of all templates, on one Redis.
#[derive(Clone)]
pub struct Gate {
    pub(crate) redis: GateRedis,
    pub(crate) scripts: Arc<Scripts>,
    prefix: Arc<str>,
}

/// The gate's answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Admitted; it must now be landed.
    Admitted {
        /// Its claim numbers; empty without a limit.
        numbers: Numbers,
        /// Stock left.
        left: i64,
    },
    /// The gate remembers this request.
    Replay {
        /// Id of the admission that used the key.
        id: ClaimId,
        /// Whether it is known to have landed.
        state: RequestState,
        /// Its claim numbers.
        numbers: Numbers,
    },
    /// The key was used with another payload.
    KeyReused,
    /// The gate is absent, loading, or of another run; nothing is known.
    NotLoaded,
    /// The gate has another epoch than the caller sent; nothing was done.
    OtherEpoch(Epoch),
    /// This admission, or a later one of the user, was dropped from the entry. It may have landed, which only MySQL
    /// knows; nothing was done. A new claim has a later id.
    TooOld,
    Refused {
        refusal: Refusal,
        /// Whether MySQL must be checked for the key before the refusal is final.
        look_in_mysql: bool,
    },
}

/// Why the gate refuses a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The window has not opened.
    NotOpen {
        /// Start of the window.
        starts_at: DateTime<Utc>,
    },
    /// The template is paused.
    Paused,
    /// The window is over.
    Closed,
    /// The template has ended.
    Ended,
    /// The user would hold more than the limit.
    Limit {
        /// Number of coupons that the user holds.
        taken: u32,
    },
    /// No stock is left.
    SoldOut,
    /// Less stock is left than requested.
    Insufficient {
        /// Stock left.
        left: i64,
    },
}

impl Gate {
    /// Creates the gates on `redis`, with keys that begin with `prefix`.
    pub fn new(redis: GateRedis, prefix: &str) -> Self {
        Self { redis, scripts: Arc::new(Scripts::new()), prefix: prefix.into() }
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

    /// Requests admission of `claim`; `epoch` is the gate's epoch as the caller knows it.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again with the same claim; an admission is then replayed.
    pub async fn claim(
        &self,
        claim: &Claim,
        epoch: Epoch,
        now: DateTime<Utc>,
    ) -> Result<Verdict, GateError> {
        let keys = self.keys(claim.template_id);
        let live = self.redis.live().await?;
        let mut call = self.scripts.claim.key(keys.meta());
        call.key(keys.users(epoch))
            .key(keys.inflight(epoch))
            .arg(epoch.0)
            .arg(live.run.as_str())
            .arg(now.timestamp_millis())
            .arg(claim.user_id.0)
            .arg(&claim.request_id.digest()[..])
            .arg(&claim.payload_hash.0[..])
            .arg(claim.id.0)
            .arg(claim.quantity);
        let answer: Vec<Value> = self.invoke("claim", live, &call).await?;
        verdict(&answer).ok_or(GateError::Unreadable { call: "claim" })
    }

    /// Settles admissions that landed in `epoch`. Returns how many were pending; `None` under another epoch or run.
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
        let live = self.redis.live().await?;
        let mut call = self.scripts.settle.key(keys.meta());
        call.key(keys.users(epoch)).key(keys.inflight(epoch)).arg(epoch.0).arg(live.run.as_str());
        for (user, id) in landed {
            call.arg(user.0).arg(id.0);
        }
        let settled: i64 = self.invoke("settle", live, &call).await?;
        Ok(u32::try_from(settled).ok())
    }

    /// Releases an admission that will never land; allowed only behind a fence. Returns whether anything was given
    /// back; `None` under another epoch or run.
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
        let live = self.redis.live().await?;
        let mut call = self.scripts.release.key(keys.meta());
        call.key(keys.users(epoch))
            .key(keys.inflight(epoch))
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
        let live = self.redis.live().await?;
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
        if matches!(&result, Err(error) if error.code() == Some("NOSCRIPT")) {
            result = invocation.invoke_async(&mut live.connection.clone()).await;
        }
        self.checked(call, &live, result).await
    }

    /// Distinguishes an error answered by Redis from a missing answer.
    pub(crate) async fn checked<T>(
        &self,
        call: &'static str,
        live: &Live,
        result: redis::RedisResult<T>,
    ) -> Result<T, GateError> {
        match result {
            Ok(value) => Ok(value),
            Err(source) if source.is_io_error() || source.is_unrecoverable_error() => {
                self.redis.forget(live).await;
                Err(GateError::Unknown { call, source })
            }
            Err(source) => {
                // The server is no master, or not yet. The next connection finds the master.
                if let ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) =
                    source.kind()
                {
                    self.redis.forget(live).await;
                }
                Err(GateError::Refused { call, source })
            }
        }
    }
}

/// Decodes the answer of `claim.lua`; its header lists the codes.
pub(crate) fn verdict(answer: &[Value]) -> Option<Verdict> {
    let int = |at: usize| answer.get(at).and_then(|value| i64::from_redis_value_ref(value).ok());
    let bytes =
        |at: usize| answer.get(at).and_then(|value| Vec::<u8>::from_redis_value_ref(value).ok());
    let refused = |refusal| Some(Verdict::Refused { refusal, look_in_mysql: int(1)? == 1 });
    match int(0)? {
        0 => Some(Verdict::Admitted { numbers: bytes(1)?, left: int(2)? }),
        1 => Some(Verdict::Replay {
            id: ClaimId(int(1)?),
            state: RequestState::from_byte(*bytes(2)?.first()?)?,
            numbers: bytes(3)?,
        }),
        2 => Some(Verdict::KeyReused),
        3 => Some(Verdict::NotLoaded),
        4 => Some(Verdict::OtherEpoch(Epoch(int(1)?))),
        5 => refused(Refusal::NotOpen { starts_at: Utc.timestamp_millis_opt(int(2)?).single()? }),
        6 => refused(Refusal::Paused),
        7 => refused(Refusal::Closed),
        8 => refused(Refusal::Ended),
        9 => refused(Refusal::Limit { taken: u32::try_from(int(2)?).ok()? }),
        10 => refused(Refusal::SoldOut),
        11 => refused(Refusal::Insufficient { left: int(2)? }),
        12 => Some(Verdict::TooOld),
        _ => None,
    }
}

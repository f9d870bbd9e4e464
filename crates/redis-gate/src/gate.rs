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

/// What the gate says to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Let through; it must now be landed.
    Admitted {
        /// The numbers it took; empty without a limit.
        numbers: Numbers,
        /// What is left for others.
        left: i64,
    },
    /// The gate remembers this request.
    Replay {
        /// Its admission, whoever made it.
        id: ClaimId,
        /// Whether it is known to have landed.
        state: RequestState,
        /// The numbers it took.
        numbers: Numbers,
    },
    /// The key was used for another payload.
    KeyReused,
    /// The gate is absent, being loaded, or of another run: nothing can be said.
    NotLoaded,
    /// The caller knows another epoch than the gate: nothing was done.
    OtherEpoch(Epoch),
    /// This admission, or a later one of the user, was dropped from the entry: it may have landed, and
    /// nothing was done. Only MySQL knows; a claim made now has a later id.
    TooOld,
    /// Refused.
    Refused {
        /// Why.
        refusal: Refusal,
        /// Whether MySQL must be asked for the key before the refusal is final.
        look_in_mysql: bool,
    },
}

/// Why the gate refuses a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The window has not opened.
    NotOpen {
        /// When it will.
        starts_at: DateTime<Utc>,
    },
    /// An operator holds the template.
    Paused,
    /// The window is over.
    Closed,
    /// The template has ended.
    Ended,
    /// The user would hold more than the limit.
    Limit {
        /// How many the user holds.
        taken: u32,
    },
    /// Nothing is left.
    SoldOut,
    /// Less is left than asked for.
    Insufficient {
        /// What is left.
        left: i64,
    },
}

impl Gate {
    /// The gates on `redis`, their keys beginning with `prefix`.
    pub fn new(redis: GateRedis, prefix: &str) -> Self {
        Self { redis, scripts: Arc::new(Scripts::new()), prefix: prefix.into() }
    }

    /// The Redis behind the gates.
    pub fn redis(&self) -> &GateRedis {
        &self.redis
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn keys(&self, template: TemplateId) -> Keys {
        Keys::new(&self.prefix, template)
    }

    /// Asks for admission of `claim`, knowing `epoch`.
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

    /// Tells the gate of `template` in `epoch` that these admissions landed. Answers how many were
    /// pending; absent under another epoch or run.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; each is effective once.
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

    /// Tells the gate that an admission will never land; only behind a fence. Answers whether
    /// anything was given back; absent under another epoch or run.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; it is effective once.
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

    /// Leaves word that something in the gate of this epoch cannot be read: the keeper begins it anew.
    ///
    /// # Errors
    /// No answer: whoever meets it again says so again.
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
        // Flushed between the driver's loading of the script and its call: it did not run.
        if matches!(&result, Err(error) if error.code() == Some("NOSCRIPT")) {
            result = invocation.invoke_async(&mut live.connection.clone()).await;
        }
        self.checked(call, &live, result).await
    }

    /// Tells an error that Redis answered with from an answer that never came.
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
                // No master any more, or not yet: whoever is, is found by the next connection.
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

/// Reads the answer of `claim.lua`; its header lists the codes.
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

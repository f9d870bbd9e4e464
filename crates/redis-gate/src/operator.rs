//! Movements, states, unloading: what an operator changes at a gate that lives on under its epoch.

use chrono::{DateTime, Utc};
use coupon::{Epoch, TemplateId, TemplateState};
use redis::{FromRedisValue, Value};

use crate::{Gate, GateError};

/// What became of a movement at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The stock changed to this; a cut may leave it below zero.
    Applied(i64),
    /// The stock contained it.
    Already,
    /// Movements between this one, the last that the stock contains, and the one sent are missing:
    /// send them first.
    Gap(i64),
    /// The gate is absent, being loaded, or of another run. Its rebuild reads the stock from MySQL.
    NotLoaded,
    /// The caller knows another epoch than the gate: nothing was done.
    OtherEpoch(Epoch),
}

/// What became of a gate that should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unloaded {
    /// It is gone.
    Gone,
    /// Admissions are in flight: nothing was done.
    InFlight,
    /// Its template has not ended and its window is not over: nothing was done.
    Open,
    /// It is absent, or its epoch is another: nothing was done.
    OtherEpoch,
}

impl Gate {
    /// Applies the movement `seq` of `delta` coupons, unless the stock contains it.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; it is effective once.
    pub async fn apply_movement(
        &self,
        template: TemplateId,
        epoch: Epoch,
        seq: i64,
        delta: i64,
    ) -> Result<Moved, GateError> {
        let live = self.redis.live().await?;
        let mut call = self.scripts.apply_movement.key(self.keys(template).meta());
        call.arg(epoch.0).arg(live.run.as_str()).arg(seq).arg(delta);
        let answer: Vec<Value> = self.invoke("apply_movement", live, &call).await?;
        moved(&answer).ok_or(GateError::Unreadable { call: "apply_movement" })
    }

    /// Gives the gate the state that its template has since `version`, also while it is being loaded.
    /// Answers whether that was news; absent: there is no gate, or it is of another epoch or run.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; it is effective once.
    pub async fn set_state(
        &self,
        template: TemplateId,
        epoch: Epoch,
        version: i64,
        state: TemplateState,
    ) -> Result<Option<bool>, GateError> {
        let live = self.redis.live().await?;
        let mut call = self.scripts.set_state.key(self.keys(template).meta());
        call.arg(epoch.0).arg(live.run.as_str()).arg(version).arg(state.word());
        let set: i64 = self.invoke("set_state", live, &call).await?;
        Ok(match set {
            1 => Some(true),
            0 => Some(false),
            _ => None,
        })
    }

    /// Removes the gate of a template that gives nothing any more at `now`.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; it is effective once.
    pub async fn unload(
        &self,
        template: TemplateId,
        epoch: Epoch,
        now: DateTime<Utc>,
    ) -> Result<Unloaded, GateError> {
        let keys = self.keys(template);
        let live = self.redis.live().await?;
        let mut call = self.scripts.unload.key(keys.meta());
        call.key(keys.users(epoch))
            .key(keys.inflight(epoch))
            .arg(epoch.0)
            .arg(live.run.as_str())
            .arg(now.timestamp_millis());
        let unloaded: i64 = self.invoke("unload", live.clone(), &call).await?;
        if unloaded == 1 {
            // Of a rebuild that was begun and never finished the gate before is there still.
            self.remove_older(template, epoch, &live).await?;
        }
        Ok(match unloaded {
            1 => Unloaded::Gone,
            0 => Unloaded::InFlight,
            -1 => Unloaded::Open,
            _ => Unloaded::OtherEpoch,
        })
    }
}

/// Reads the answer of `move.lua`; its header lists the codes.
pub(crate) fn moved(answer: &[Value]) -> Option<Moved> {
    let int = |at: usize| answer.get(at).and_then(|value| i64::from_redis_value_ref(value).ok());
    match int(0)? {
        0 => Some(Moved::Applied(int(1)?)),
        1 => Some(Moved::Already),
        2 => Some(Moved::Gap(int(1)?)),
        3 => Some(Moved::NotLoaded),
        4 => Some(Moved::OtherEpoch(Epoch(int(1)?))),
        _ => None,
    }
}

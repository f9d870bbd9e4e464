//! Movements, states, unloading: changes to a gate that keeps its epoch.

use chrono::{DateTime, Utc};
use coupon::{ClaimMode, Epoch, Lapses, Returned, TemplateId, TemplateState};
use redis::{FromRedisValue, ScriptInvocation, Value};

use crate::{Gate, GateError};

/// Result of applying a movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The new stock; a cut may make it negative.
    Applied(i64),
    /// The stock already contained it.
    Already,
    /// Movements are missing between the last one that the stock contains, given here, and the one sent. Send them
    /// first.
    Gap(i64),
    /// The gate is absent, loading, or of another run. Its rebuild reads the stock from MySQL.
    NotLoaded,
    /// The gate has another epoch than the caller sent; nothing was done.
    OtherEpoch(Epoch),
}

/// Result of a pause at the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halted {
    /// Claims are refused as paused from now on.
    Now,
    /// Another pause was made before, which stays.
    Before(Vec<u8>),
    /// The gate is absent or of another run, so it admits no claim.
    NotLoaded,
}

/// Result of unloading a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unloaded {
    /// It is removed.
    Gone,
    /// Admissions are in flight or queued, or claims are in the outbox; nothing was done.
    InFlight,
    /// The template has not ended and its window is not over; nothing was done.
    Open,
    /// It is absent or has another epoch; nothing was done.
    OtherEpoch,
}

impl Gate {
    /// Applies the movement `seq`, which changes the stock by `delta_stock` and gives this back to users, unless the gate
    /// contains it.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; it takes effect once.
    pub async fn apply_movement(
        &self,
        template: TemplateId,
        epoch: Epoch,
        seq: i64,
        delta_stock: i64,
        returned: &[Returned],
    ) -> Result<Moved, GateError> {
        let keys = self.keys(template);
        let live = self.live(template).await?;
        let mut call = self.scripts.apply_movement.key(keys.meta());
        call.key(keys.users(epoch));
        call.arg(epoch.0).arg(live.run.as_str()).arg(seq).arg(delta_stock);
        returned.iter().for_each(|one| add_returned(&mut call, one));
        let answer: Vec<Value> = self.invoke("apply_movement", live, &call).await?;
        moved(&answer).ok_or(GateError::Unreadable { call: "apply_movement" })
    }

    /// Sets the template's state and mode as of `version`, also while the gate is loading. Returns whether the version
    /// was newer; `None` if the gate is absent or of another epoch or run.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; it takes effect once.
    pub async fn set_state(
        &self,
        template: TemplateId,
        epoch: Epoch,
        version: i64,
        state: TemplateState,
        mode: ClaimMode,
    ) -> Result<Option<bool>, GateError> {
        let live = self.live(template).await?;
        let mut call = self.scripts.set_state.key(self.keys(template).meta());
        call.arg(epoch.0).arg(live.run.as_str()).arg(version).arg(state.word());
        call.arg(mode.word());
        let set: i64 = self.invoke("set_state", live, &call).await?;
        Ok(match set {
            1 => Some(true),
            0 => Some(false),
            _ => None,
        })
    }

    /// Pauses the template at its gate, whatever MySQL says, until [`Gate::lift_halt`] of the same text.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; it takes effect once.
    pub async fn halt(&self, template: TemplateId, halt: &[u8]) -> Result<Halted, GateError> {
        let live = self.live(template).await?;
        let mut call = self.scripts.halt.key(self.keys(template).meta());
        call.arg(live.run.as_str()).arg(halt);
        let (halted, before): (i64, Vec<u8>) = self.invoke("halt", live, &call).await?;
        Ok(match halted {
            1 => Halted::Now,
            // The call was sent twice.
            0 if before == halt => Halted::Now,
            0 => Halted::Before(before),
            _ => Halted::NotLoaded,
        })
    }

    /// Lifts a pause that was made at the gate. Returns whether it was there.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; it takes effect once.
    pub async fn lift_halt(&self, template: TemplateId, halt: &[u8]) -> Result<bool, GateError> {
        let live = self.live(template).await?;
        let mut call = self.scripts.lift_halt.key(self.keys(template).meta());
        call.arg(halt);
        let lifted: i64 = self.invoke("lift_halt", live, &call).await?;
        Ok(lifted == 1)
    }

    /// Removes the gate of a template that gives out no coupons any more at `now`.
    ///
    /// # Errors
    /// [`GateError::Unknown`]: call again; it takes effect once.
    pub async fn unload(
        &self,
        template: TemplateId,
        epoch: Epoch,
        now: DateTime<Utc>,
    ) -> Result<Unloaded, GateError> {
        let keys = self.keys(template);
        let live = self.live(template).await?;
        let mut call = self.scripts.unload.key(keys.meta());
        call.key(keys.users(epoch))
            .key(keys.inflight(epoch))
            .key(keys.queued(epoch))
            .key(keys.outbox())
            .arg(epoch.0)
            .arg(live.run.as_str())
            .arg(now.timestamp_millis());
        let unloaded: i64 = self.invoke("unload", live.clone(), &call).await?;
        if unloaded == 1 {
            // An unfinished rebuild may have left keys of the previous gate.
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

/// Adds what a user gets back, as `lua/gate/includes/returned.lua` takes it.
pub(crate) fn add_returned(call: &mut ScriptInvocation<'_>, returned: &Returned) {
    let lapses = match returned.lapses {
        Lapses::Add(0) => String::new(),
        Lapses::Add(count) => format!("+{count}"),
        Lapses::Lift => "=0".to_owned(),
    };
    call.arg(returned.user.0).arg(&returned.numbers[..]).arg(lapses);
}

/// Decodes the answer of `move.lua`; its header lists the codes.
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

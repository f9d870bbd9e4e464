//! Begin, load, open: a gate is rebuilt under a new epoch, never mended in place.

use chrono::{DateTime, Utc};
use coupon::{Epoch, TemplateId, TemplateState, UserId};

use crate::{Entry, Gate, GateError, connection::Live};

/// Users in one call of `load.lua`: a call of about a millisecond, so that claims on other templates
/// hardly wait. Lua's `unpack` takes at most 8,000 values.
pub const LOAD_USERS_MAX: usize = 1000;

/// How many older epochs' keys a rebuild removes: those of the gate before, and of rebuilders that died or failed, each
/// of which left at most one. What is older still is found by a walk ([`Gate::remove_stale`]).
const OLDER_EPOCHS: i64 = 16;

/// What a gate is opened with, read from MySQL after its epoch began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFacts {
    /// The template's version.
    pub version: i64,
    /// Its state.
    pub state: TemplateState,
    /// When its window opens.
    pub starts_at: DateTime<Utc>,
    /// When its window ends.
    pub ends_at: DateTime<Utc>,
    /// Its limit per user; 0: none.
    pub limit: u32,
    /// Its stock.
    pub stock: i64,
    /// The last movement that the stock contains.
    pub movement: i64,
}

impl Gate {
    /// Makes the gate loading(`epoch`), and removes the keys of older epochs: a gate near its memory's end has no
    /// room for both. Answers whether it was; not so if the gate knows this epoch or a later one.
    ///
    /// # Errors
    /// No answer, or an error of Redis.
    pub async fn begin(&self, template: TemplateId, epoch: Epoch) -> Result<bool, GateError> {
        let keys = self.keys(template);
        let live = self.redis.live().await?;
        let mut call = self.scripts.begin.key(keys.meta());
        call.key(keys.users(epoch)).key(keys.inflight(epoch)).arg(epoch.0).arg(live.run.as_str());
        let begun: i64 = self.invoke("begin", live.clone(), &call).await?;
        if begun != 1 {
            return Ok(false);
        }
        self.remove_older(template, epoch, &live).await?;
        Ok(true)
    }

    /// Removes what was loaded of `epoch` by a rebuild that failed; the gate stays as it is, loading. Only by whoever
    /// began this epoch.
    ///
    /// # Errors
    /// No answer, or an error of Redis.
    pub async fn discard(&self, template: TemplateId, epoch: Epoch) -> Result<(), GateError> {
        let live = self.redis.live().await?;
        self.unlink(template, std::iter::once(epoch), &live).await
    }

    /// Loads users' taken numbers, at most [`LOAD_USERS_MAX`] of them. Answers whether the gate was
    /// still loading(`epoch`).
    ///
    /// # Errors
    /// No answer, or an error of Redis. Loading the same users again does no harm.
    pub async fn load(
        &self,
        template: TemplateId,
        epoch: Epoch,
        users: &[(UserId, Vec<u8>)],
    ) -> Result<bool, GateError> {
        if users.is_empty() {
            return Ok(true);
        }
        let keys = self.keys(template);
        let live = self.redis.live().await?;
        let mut call = self.scripts.load.key(keys.meta());
        call.key(keys.users(epoch)).arg(epoch.0).arg(live.run.as_str());
        for (user, taken) in users {
            call.arg(user.0).arg(Entry::loaded(taken));
        }
        let loaded: i64 = self.invoke("load", live, &call).await?;
        Ok(loaded == 1)
    }

    /// Opens the loaded gate. Answers whether it was still loading(`epoch`).
    ///
    /// # Errors
    /// No answer, or an error of Redis.
    pub async fn open(
        &self,
        template: TemplateId,
        epoch: Epoch,
        facts: &OpenFacts,
    ) -> Result<bool, GateError> {
        let keys = self.keys(template);
        let live = self.redis.live().await?;
        let mut call = self.scripts.open.key(keys.meta());
        call.arg(epoch.0)
            .arg(live.run.as_str())
            .arg(facts.version)
            .arg(facts.state.word())
            .arg(facts.starts_at.timestamp_millis())
            .arg(facts.ends_at.timestamp_millis())
            .arg(facts.limit)
            .arg(facts.stock)
            .arg(facts.movement);
        let opened: i64 = self.invoke("open", live, &call).await?;
        Ok(opened == 1)
    }

    /// Removes what older epochs have left behind anywhere under this prefix, and answers how many keys that were. It
    /// walks through all keys of Redis.
    ///
    /// # Errors
    /// No answer, or an error of Redis.
    pub async fn remove_stale(&self) -> Result<u64, GateError> {
        let mut removed = 0;
        for (template, epoch) in self.epochs().await? {
            let keys = self.keys(template);
            let live = self.redis.live().await?;
            let mut call = self.scripts.remove_stale.key(keys.meta());
            call.key(keys.users(epoch)).key(keys.inflight(epoch)).arg(epoch.0);
            removed += self.invoke::<u64>("remove_stale", live, &call).await?;
        }
        Ok(removed)
    }

    /// Removes the keys of epochs before this one: nobody reads them again.
    pub(crate) async fn remove_older(
        &self,
        template: TemplateId,
        epoch: Epoch,
        live: &Live,
    ) -> Result<(), GateError> {
        let older = (epoch.0 - OLDER_EPOCHS).max(0)..epoch.0;
        if older.is_empty() {
            return Ok(());
        }
        self.unlink(template, older.map(Epoch), live).await
    }

    async fn unlink(
        &self,
        template: TemplateId,
        epochs: impl Iterator<Item = Epoch>,
        live: &Live,
    ) -> Result<(), GateError> {
        let keys = self.keys(template);
        let mut unlink = redis::cmd("UNLINK");
        for epoch in epochs {
            unlink.arg(keys.users(epoch)).arg(keys.inflight(epoch));
        }
        let result = unlink.query_async(&mut live.connection.clone()).await;
        let _removed: i64 = self.checked("unlink", live, result).await?;
        Ok(())
    }
}

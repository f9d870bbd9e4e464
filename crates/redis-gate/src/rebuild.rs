//! Begin, load, open: rebuilds a gate under a new epoch; a gate is never repaired in place.

use std::time::Duration;

use chrono::{DateTime, Utc};
use coupon::{ClaimMode, Epoch, Returned, TemplateId, TemplateState, UserId};

use crate::{
    Entry, Gate, GateError, connection::Live, many::presence::millis, operator::add_returned,
    verdict::NOTED,
};

/// Users per call of `load.lua`: about a millisecond, so that claims on other templates hardly wait. Lua's `unpack`
/// takes at most 8,000 values.
pub const LOAD_USERS_MAX: usize = 1000;

/// Number of older epochs whose keys a rebuild removes: the previous gate's, and those of rebuilders that died or
/// failed, each of which left at most one. A scan finds still older ones ([`Gate::remove_stale`]).
const OLDER_EPOCHS: i64 = 16;

/// The facts to open a gate with, read from MySQL after its epoch began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFacts {
    /// Version of the template.
    pub version: i64,
    pub state: TemplateState,
    /// Whether admissions are landed at once or queued.
    pub mode: ClaimMode,
    /// Start of the claim window.
    pub starts_at: DateTime<Utc>,
    /// End of the claim window.
    pub ends_at: DateTime<Utc>,
    /// Limit per user; 0: no limit.
    pub limit: u32,
    pub stock: i64,
    /// Number of the last movement that the gate contains.
    pub movement: i64,
    /// Lapses after which a user is refused; 0: never.
    pub lapses_allowed: u32,
}

impl Gate {
    /// Makes the gate loading(`epoch`), and removes the keys of older epochs, since a gate near the memory limit has no
    /// room for both. The outbox stays, unless its key has another type. A gate that is loading(`epoch`) stays as it is.
    /// Returns `false` if the gate is open in this epoch, or knows a later one that can be one.
    pub async fn begin(&self, template: TemplateId, epoch: Epoch) -> Result<bool, GateError> {
        let keys = self.keys(template);
        let live = self.live(template).await?;
        let mut call = self.scripts.begin.key(keys.meta());
        call.key(keys.users(epoch))
            .key(keys.inflight(epoch))
            .key(keys.queued(epoch))
            .key(keys.outbox())
            .arg(epoch.0)
            .arg(live.run.as_str())
            .arg(epoch.highest_next().0);
        let (begun, before): (i64, String) = self.invoke("begin", live.clone(), &call).await?;
        if begun != 1 {
            return Ok(false);
        }
        // After a failover of MySQL it is far behind.
        let before = before.parse().map(Epoch).ok().filter(|before| *before != epoch);
        if before.is_some() {
            self.unlink(template, before.into_iter(), &live).await?;
        }
        self.remove_older(template, epoch, &live).await?;
        Ok(true)
    }

    /// Removes what a failed rebuild has loaded of `epoch`; the gate stays loading. Only the rebuilder that began this
    /// epoch may call it.
    pub async fn discard(&self, template: TemplateId, epoch: Epoch) -> Result<(), GateError> {
        let live = self.live(template).await?;
        self.unlink(template, std::iter::once(epoch), &live).await
    }

    /// Loads users' taken numbers, at most [`LOAD_USERS_MAX`] users. Returns whether the gate was still
    /// loading(`epoch`).
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
        let live = self.live(template).await?;
        let mut call = self.scripts.load.key(keys.meta());
        call.key(keys.users(epoch)).arg(epoch.0).arg(live.run.as_str());
        for (user, taken) in users {
            call.arg(user.0).arg(Entry::loaded(taken));
        }
        let loaded: i64 = self.invoke("load", live, &call).await?;
        Ok(loaded == 1)
    }

    /// Loads users with rejected claims, at most [`LOAD_USERS_MAX`] of them: MySQL has answers under their keys. A user
    /// loaded with coupons stays as loaded. Returns whether the gate was still loading(`epoch`).
    ///
    /// # Errors
    /// No answer, or an error of Redis. Loading the same users again does no harm.
    pub async fn load_rejected(
        &self,
        template: TemplateId,
        epoch: Epoch,
        users: &[UserId],
    ) -> Result<bool, GateError> {
        if users.is_empty() {
            return Ok(true);
        }
        let keys = self.keys(template);
        let live = self.live(template).await?;
        let mut call = self.scripts.load_rejected.key(keys.meta());
        call.key(keys.users(epoch)).arg(epoch.0).arg(live.run.as_str()).arg(Entry::loaded(&[]));
        for user in users {
            call.arg(user.0);
        }
        let loaded: i64 = self.invoke("load_rejected", live, &call).await?;
        Ok(loaded == 1)
    }

    /// Gives back what returns freed while the gate was loaded, for at most [`LOAD_USERS_MAX`] users. Returns whether the
    /// gate was still loading(`epoch`).
    ///
    /// # Errors
    /// No answer, or an error of Redis. Lapses may then be counted or not: restart the rebuild.
    pub async fn load_returned(
        &self,
        template: TemplateId,
        epoch: Epoch,
        returned: &[Returned],
    ) -> Result<bool, GateError> {
        let keys = self.keys(template);
        let live = self.live(template).await?;
        let mut call = self.scripts.load_returned.key(keys.meta());
        call.key(keys.users(epoch)).arg(epoch.0).arg(live.run.as_str());
        returned.iter().for_each(|one| add_returned(&mut call, one));
        let loaded: i64 = self.invoke("load_returned", live, &call).await?;
        Ok(loaded == 1)
    }

    /// Loads how often users let holds lapse, at most [`LOAD_USERS_MAX`] users. Returns whether the gate was still
    /// loading(`epoch`).
    ///
    /// # Errors
    /// No answer, or an error of Redis. Loading the same users again does no harm.
    pub async fn load_lapses(
        &self,
        template: TemplateId,
        epoch: Epoch,
        users: &[(UserId, i64)],
    ) -> Result<bool, GateError> {
        let keys = self.keys(template);
        let live = self.live(template).await?;
        let mut call = self.scripts.load_returned.key(keys.meta());
        call.key(keys.users(epoch)).arg(epoch.0).arg(live.run.as_str());
        for (user, lapses) in users {
            call.arg(user.0).arg("").arg(format!("={lapses}"));
        }
        let loaded: i64 = self.invoke("load_returned", live, &call).await?;
        Ok(loaded == 1)
    }

    /// Opens the loaded gate. Returns whether it was still loading(`epoch`).
    pub async fn open(
        &self,
        template: TemplateId,
        epoch: Epoch,
        facts: &OpenFacts,
    ) -> Result<bool, GateError> {
        let keys = self.keys(template);
        let live = self.live(template).await?;
        // No api can have sent a look before the template's first gate.
        let refusing = if epoch > Epoch::FIRST { NOTED } else { Duration::ZERO };
        let mut call = self.scripts.open.key(keys.meta());
        call.key(keys.refusing())
            .arg(epoch.0)
            .arg(live.run.as_str())
            .arg(facts.version)
            .arg(facts.state.word())
            .arg(facts.starts_at.timestamp_millis())
            .arg(facts.ends_at.timestamp_millis())
            .arg(facts.limit)
            .arg(facts.stock)
            .arg(facts.movement)
            .arg(facts.mode.word())
            .arg(facts.lapses_allowed)
            .arg(millis(refusing));
        let opened: i64 = self.invoke("open", live, &call).await?;
        Ok(opened == 1)
    }

    /// Removes leftovers of older epochs of all gates under this prefix that can be reached, and returns the number of
    /// keys. Scans all keys of Redis.
    pub async fn remove_stale(&self) -> Result<u64, GateError> {
        let mut removed = 0;
        for (template, epoch) in self.epochs().await? {
            let keys = self.keys(template);
            // A cancelled move may have left keys on a master that answers, of a template whose own master is away.
            let Ok(live) = self.live(template).await else { continue };
            let mut call = self.scripts.remove_stale.key(keys.meta());
            call.key(keys.users(epoch)).key(keys.inflight(epoch)).key(keys.queued(epoch));
            call.arg(epoch.0);
            match self.invoke::<u64>("remove_stale", live, &call).await {
                // The next scan finds what is left.
                Err(error) if error.is_of_slot() => {}
                keys => removed += keys?,
            }
        }
        Ok(removed)
    }

    /// Removes the keys of epochs before this one, which are never read again.
    pub(crate) async fn remove_older(
        &self,
        template: TemplateId,
        epoch: Epoch,
        live: &Live,
    ) -> Result<(), GateError> {
        let older = epoch.0.saturating_sub(OLDER_EPOCHS).max(0)..epoch.0;
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
            unlink.arg(keys.users(epoch)).arg(keys.inflight(epoch)).arg(keys.queued(epoch));
        }
        let result = unlink.query_async(&mut live.connection.clone()).await;
        let _removed: i64 = live.checked("unlink", result).await?;
        Ok(())
    }
}

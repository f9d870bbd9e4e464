//! The view's commands: one typed call for each script.

pub(crate) mod connection;
pub(crate) mod drop;
pub(crate) mod inspect;
pub(crate) mod many;
pub(crate) mod rebuild;
pub(crate) mod scripts;
pub(crate) mod send;

use std::{ops::RangeInclusive, sync::Arc};

use coupon::UserId;
use redis::{Cmd, FromRedisValue, Script};
use redis_address::slot_of;

use crate::{
    Change, GenerationsOf, Served, ViewError, keys,
    store::{
        connection::{Connection, Live},
        scripts::Scripts,
        send::ForUser,
    },
};

/// Largest number of changes in one call of `view/apply_change.lua` or `view/load.lua`. A script blocks the server; 200
/// changes take well under a millisecond.
pub const CHANGES_PER_CALL: usize = 200;

/// Answer of `view/apply_change.lua` for a cold view.
pub(crate) const CODE_COLD: u8 = 0;

/// Answer of `view/apply_change.lua` for a cold view of a later generation than the connection's.
pub(crate) const CODE_OUTDATED: u8 = 3;

/// The view. Clones share its connections.
#[derive(Clone)]
pub struct ViewStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    prefix: String,
    pub(crate) connection: Connection,
    pub(crate) scripts: Scripts,
}

/// Result of applying one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The view is cold and its remains were dropped. The next reader rebuilds it.
    Cold,
    /// The change is in the view now.
    Applied,
    /// The view knew this version or a later one.
    NotNewer,
}

impl ViewStore {
    /// Opens the view on the server or cluster at `url`, with `prefix` before every key. Connects at once and checks
    /// every master. Later, the next call replaces a lost connection.
    ///
    /// `generations_of` determines the view generations of the connected servers, see [`GenerationsOf`].
    ///
    /// # Errors
    /// The URL is invalid, a server cannot be reached or does not evict, or the generation cannot be determined.
    pub async fn connect(
        url: &str,
        prefix: impl Into<String>,
        generations_of: GenerationsOf,
    ) -> Result<Self, ViewError> {
        let store = Self::open(url, prefix, generations_of)?;
        store.inner.connection.live().await?;
        Ok(store)
    }

    /// Like [`ViewStore::connect`], but the first call connects.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn open(
        url: &str,
        prefix: impl Into<String>,
        generations_of: GenerationsOf,
    ) -> Result<Self, ViewError> {
        let connection = Connection::new(url, generations_of)?;
        let inner = Inner { prefix: prefix.into(), connection, scripts: Scripts::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the slots of the currently connected servers with their run ids, as a [`GenerationsOf`] takes them, or
    /// `None` without a connection.
    pub fn served(&self) -> Option<Vec<Served>> {
        self.inner.connection.served().map(|(served, _)| served)
    }

    /// Compares the connection's generations with the current ones of its servers. If one is later, gives the
    /// connection up, so that the next call determines the generations again, and returns true.
    pub fn learn(&self, generations: &[(RangeInclusive<u16>, i64)]) -> bool {
        let Some((_, live)) = self.inner.connection.served() else { return false };
        let is_later = generations
            .iter()
            .any(|(slots, generation)| *generation > live.generation(*slots.end()));
        if is_later {
            self.inner.connection.give_up(&live, "the views are of a later generation");
        }
        is_later
    }

    /// Checks that the servers are still fit for a view: reachable, and with an eviction policy.
    ///
    /// # Errors
    /// See [`ViewError`]. The message of [`ViewError::NoEviction`] names the remedy.
    pub async fn check_fit(&self) -> Result<(), ViewError> {
        self.inner.connection.fit().await
    }

    /// Calls [`ViewStore::apply_all`] for one user.
    pub async fn apply(&self, user: UserId, changes: &[Change]) -> Result<Vec<Applied>, ViewError> {
        Ok(self.apply_all(&[(user, changes)]).await?.pop().unwrap_or_default())
    }

    /// Calls [`ViewStore::read_back_all`] for one user.
    pub async fn read_back(&self, user: UserId, changes: &[Change]) -> Result<u64, ViewError> {
        self.read_back_all(&[(user, changes)]).await
    }

    /// Returns the generation of the user's view on its current server.
    ///
    /// # Errors
    /// See [`ViewError`].
    pub async fn generation(&self, user: UserId) -> Result<i64, ViewError> {
        Ok(self.live().await?.generation(self.slot(user)))
    }

    pub(crate) async fn write_again(
        &self,
        user: UserId,
        change: &Change,
    ) -> Result<u64, ViewError> {
        let mut call = self.call("write again", user).await?;
        let coupon = &change.coupon;
        call.arguments = vec![
            call.generation.to_string(),
            coupon.id.to_string(),
            coupon.member(),
            coupon.score().to_string(),
            change.version.to_string(),
        ];
        call.run(&self.inner.scripts.write_again).await
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.inner.prefix
    }

    pub(crate) fn keys(&self, user: UserId) -> [String; 2] {
        [keys::list(&self.inner.prefix, user), keys::coupons(&self.inner.prefix, user)]
    }

    /// The slot of both keys.
    pub(crate) fn slot(&self, user: UserId) -> u16 {
        slot_of(&keys::list(&self.inner.prefix, user))
    }

    pub(crate) async fn live(&self) -> Result<Live, ViewError> {
        self.inner.connection.live().await
    }

    /// Prepares a script call on the user's keys. The caller adds the arguments.
    pub(crate) async fn call(
        &self,
        operation: &'static str,
        user: UserId,
    ) -> Result<Call<'_>, ViewError> {
        let live = self.live().await?;
        let slot = self.slot(user);
        let generation = live.generation(slot);
        Ok(Call { store: self, operation, user, slot, live, generation, arguments: Vec::new() })
    }

    /// Builds the command for a script on the user's keys. The caller adds the arguments.
    pub(crate) fn invocation(&self, script: &Script, user: UserId) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(script.get_hash()).arg(2).arg(&self.keys(user));
        command
    }

    pub(crate) fn failed(
        &self,
        operation: &'static str,
        user: UserId,
        live: &Live,
        source: redis::RedisError,
    ) -> ViewError {
        match ViewError::of_keys(user, &source) {
            Some(damaged) => damaged,
            None => self.failed_for_all(operation, live, source),
        }
    }

    /// Converts a failure that does not concern a single user.
    pub(crate) fn failed_for_all(
        &self,
        operation: &'static str,
        live: &Live,
        source: redis::RedisError,
    ) -> ViewError {
        self.inner.connection.judge(live, &source);
        ViewError::Command { operation, source }
    }
}

/// A prepared script call on a user's two keys, under the generation of its connection.
pub(crate) struct Call<'a> {
    store: &'a ViewStore,
    operation: &'static str,
    user: UserId,
    slot: u16,
    pub(crate) live: Live,
    pub(crate) generation: i64,
    pub(crate) arguments: Vec<String>,
}

impl Call<'_> {
    pub(crate) async fn run<T: FromRedisValue>(self, script: &Script) -> Result<T, ViewError> {
        let Call { store, operation, user, slot, live, arguments, .. } = self;
        let mut command = store.invocation(script, user);
        command.arg(&arguments);
        let call = [ForUser { user, slot, command }];
        let answer = store.send(operation, &live, &call, Some(script)).await?.pop();
        let answer = answer.ok_or_else(|| ViewError::unreadable("a script has not answered"))?;
        answer.map_err(|source| store.failed(operation, user, &live, source))
    }
}

impl Applied {
    pub(crate) fn from_code(code: u8) -> Result<Self, ViewError> {
        match code {
            CODE_COLD | CODE_OUTDATED => Ok(Self::Cold),
            1 => Ok(Self::Applied),
            2 => Ok(Self::NotNewer),
            _ => Err(ViewError::unreadable(format!("apply_change answered {code}"))),
        }
    }
}

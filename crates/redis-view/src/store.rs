//! The view's commands: one typed call for each script.

use std::{ops::RangeInclusive, sync::Arc};

use coupon::UserId;
use redis::{Cmd, FromRedisValue, Script};
use redis_address::slot_of;

use crate::{
    Change, GenerationsOf, Served, ViewError,
    connection::{Connection, Live},
    keys,
    scripts::Scripts,
    send::ForUser,
};

/// Changes of one call of `apply_change.lua` or `view_load.lua`: a script blocks the server, and
/// two hundred take well under a millisecond.
pub const CHANGES_PER_CALL: usize = 200;

/// What `apply_change.lua` answers for a view that is cold.
pub(crate) const CODE_COLD: u8 = 0;

/// What it answers for one that was of a later generation than the connection's.
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

/// What became of one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The view is cold, and nothing of it is left: the next reader rebuilds it.
    Cold,
    /// It is in the view now.
    Applied,
    /// The view knew this version or a later one.
    NotNewer,
}

impl ViewStore {
    /// A view on the server or cluster at `url`, with `prefix` before every key. Connects at once and checks
    /// that every master answers; afterwards a lost connection is made anew by whoever needs it.
    ///
    /// `generations_of` finds the view generations of the servers that were met, see [`GenerationsOf`].
    ///
    /// # Errors
    /// The URL is not one, the server cannot be reached or does not evict, or the generation cannot be found.
    pub async fn connect(
        url: &str,
        prefix: impl Into<String>,
        generations_of: GenerationsOf,
    ) -> Result<Self, ViewError> {
        let connection = Connection::new(url, generations_of)?;
        connection.live().await?;
        let inner = Inner { prefix: prefix.into(), connection, scripts: Scripts::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The slots of the servers of the current connection with their run ids, as a [`GenerationsOf`] takes them;
    /// absent: there is no connection.
    pub fn served(&self) -> Option<Vec<Served>> {
        self.inner.connection.served().map(|(served, _)| served)
    }

    /// Hears which generations these servers' views are of by now. If one is later than the connection's, the
    /// connection is given up, and the next call finds them out for itself. Answers whether that was so.
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

    /// Looks whether the servers still are what a view needs: masters that evict what they have no room for.
    ///
    /// # Errors
    /// See [`ViewError`]; [`ViewError::NoEviction`] says how to mend it.
    pub async fn check_fit(&self) -> Result<(), ViewError> {
        self.inner.connection.fit().await
    }

    /// [`ViewStore::apply_all`] for one user.
    ///
    /// # Errors
    /// See there.
    pub async fn apply(&self, user: UserId, changes: &[Change]) -> Result<Vec<Applied>, ViewError> {
        Ok(self.apply_all(&[(user, changes)]).await?.pop().unwrap_or_default())
    }

    /// [`ViewStore::read_back_all`] for one user.
    ///
    /// # Errors
    /// See there.
    pub async fn read_back(&self, user: UserId, changes: &[Change]) -> Result<u64, ViewError> {
        self.read_back_all(&[(user, changes)]).await
    }

    /// The generation of the user's view on the server that has it now.
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

    /// The slot of both.
    pub(crate) fn slot(&self, user: UserId) -> u16 {
        slot_of(&keys::list(&self.inner.prefix, user))
    }

    pub(crate) async fn live(&self) -> Result<Live, ViewError> {
        self.inner.connection.live().await
    }

    /// Prepares a script on the user's keys; the caller adds the arguments.
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

    /// A script on the user's keys; the caller adds the arguments.
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

    /// A failure that is nobody's in particular.
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

/// A script about to run on a user's two keys, under the generation of its connection.
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

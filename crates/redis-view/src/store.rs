//! The view's commands: one typed call for each script.

use std::sync::Arc;

use coupon::UserId;
use redis::{FromRedisValue, Script};

use crate::{
    Change, GenerationOf, ViewError,
    connection::{Connection, Live},
    keys,
    scripts::Scripts,
};

/// Changes of one call of `apply_change.lua` or `view_load.lua`: a script blocks the server, and
/// two hundred take well under a millisecond.
pub const CHANGES_PER_CALL: usize = 200;

/// Views dropped by one pipeline of [`ViewStore::drop_all`]: other commands get their turn between two.
const DROPS_PER_CALL: usize = 1_000;

/// The view. Clones share one connection.
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
    /// The view is cold: nothing was written, the next reader rebuilds it.
    Cold,
    /// It is in the view now.
    Applied,
    /// The view knew this version or a later one.
    NotNewer,
}

impl ViewStore {
    /// A view on the server at `url`, with `prefix` before every key. Connects at once and checks
    /// that the server answers; afterwards a lost connection is made anew by whoever needs it.
    ///
    /// `generation_of` finds the view generation of the server that was met, see [`GenerationOf`].
    ///
    /// # Errors
    /// The URL is not one, the server cannot be reached, or the generation cannot be found.
    pub async fn connect(
        url: &str,
        prefix: impl Into<String>,
        generation_of: GenerationOf,
    ) -> Result<Self, ViewError> {
        let connection = Connection::new(url, generation_of)?;
        connection.live().await?;
        let inner = Inner { prefix: prefix.into(), connection, scripts: Scripts::new() };
        Ok(Self { inner: Arc::new(inner) })
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

    /// The generation of all views on the server that it speaks to.
    ///
    /// # Errors
    /// See [`ViewError`].
    pub async fn generation(&self) -> Result<i64, ViewError> {
        Ok(self.live().await?.generation)
    }

    /// Drops the user's view; the next reader rebuilds it.
    ///
    /// # Errors
    /// See [`ViewError`].
    pub async fn drop_view(&self, user: UserId) -> Result<(), ViewError> {
        let [list, coupons] = self.keys(user);
        let mut command = redis::cmd("UNLINK");
        command.arg(list).arg(coupons);
        self.command("drop a user's view", user, &command).await
    }

    /// Drops every view that stands when this is called, and tells how many. Each is cold once this
    /// is done, unless a reader rebuilt it from MySQL meanwhile.
    ///
    /// # Errors
    /// See [`ViewError`]; the same call may be repeated.
    pub async fn drop_all(&self) -> Result<usize, ViewError> {
        let users = self.users().await?;
        for some in users.chunks(DROPS_PER_CALL) {
            let mut live = self.live().await?;
            let mut command = redis::pipe();
            for user in some {
                command.cmd("UNLINK").arg(&self.keys(*user)).ignore();
            }
            let dropped: Result<(), _> = command.query_async(&mut live.commands).await;
            dropped.map_err(|source| self.failed_for_all("drop all views", &live, source))?;
        }
        Ok(users.len())
    }

    pub(crate) async fn write_again(
        &self,
        user: UserId,
        change: &Change,
    ) -> Result<u64, ViewError> {
        let mut call = self.call("write again", user).await?;
        let coupon = &change.coupon;
        call.arguments = vec![
            call.live.generation.to_string(),
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
        Ok(Call { store: self, operation, user, live, arguments: Vec::new() })
    }

    /// Runs one plain command on the user's keys.
    pub(crate) async fn command<T: FromRedisValue>(
        &self,
        operation: &'static str,
        user: UserId,
        command: &redis::Cmd,
    ) -> Result<T, ViewError> {
        let mut live = self.live().await?;
        let answer = command.query_async(&mut live.commands).await;
        answer.map_err(|source| self.failed(operation, user, &live, source))
    }

    pub(crate) fn failed(
        &self,
        operation: &'static str,
        user: UserId,
        live: &Live,
        source: redis::RedisError,
    ) -> ViewError {
        if source.code() == Some("WRONGTYPE") {
            return ViewError::WrongType { user };
        }
        self.failed_for_all(operation, live, source)
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
    pub(crate) live: Live,
    pub(crate) arguments: Vec<String>,
}

impl Call<'_> {
    pub(crate) async fn run<T: FromRedisValue>(mut self, script: &Script) -> Result<T, ViewError> {
        let mut invocation = script.prepare_invoke();
        for key in self.store.keys(self.user) {
            invocation.key(key);
        }
        for argument in &self.arguments {
            invocation.arg(argument);
        }
        let answer = invocation.invoke_async(&mut self.live.commands).await;
        answer.map_err(|source| self.store.failed(self.operation, self.user, &self.live, source))
    }
}

impl Applied {
    pub(crate) fn from_code(code: u8) -> Result<Self, ViewError> {
        match code {
            0 => Ok(Self::Cold),
            1 => Ok(Self::Applied),
            2 => Ok(Self::NotNewer),
            _ => Err(ViewError::unreadable(format!("apply_change answered {code}"))),
        }
    }
}

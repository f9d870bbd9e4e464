//! Dropping views: one user's, or all. The next reader rebuilds what it needs.

use coupon::UserId;
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind};
use redis_address::slot_of;
use tracing::warn;

use crate::{
    ViewError, ViewStore,
    store::{connection::Live, send::ForUser},
};

/// Number of views that one pipeline of [`ViewStore::drop_all`] drops. The server runs other commands between
/// pipelines.
const DROPS_PER_CALL: usize = 1_000;

const OPERATION: &str = "drop views";

impl ViewStore {
    /// Drops the user's view. The next reader rebuilds it.
    ///
    /// # Errors
    /// See [`ViewError`].
    pub async fn drop_view(&self, user: UserId) -> Result<(), ViewError> {
        self.drop_views(&[user]).await
    }

    /// Drops every view that exists at the time of the call and returns their number. Each is cold afterwards, unless a
    /// reader rebuilt it from MySQL meanwhile.
    ///
    /// # Errors
    /// See [`ViewError`]. The same call may be repeated.
    pub async fn drop_all(&self) -> Result<usize, ViewError> {
        let live = self.live().await?;
        if live.masters.is_cluster() {
            // Views may have moved to a master that joined after the connections were made.
            self.inner.connection.give_up(&live, "all masters are looked for");
        }
        let users = self.users().await?;
        for some in users.chunks(DROPS_PER_CALL) {
            self.drop_views(some).await?;
        }
        Ok(users.len())
    }

    /// Drops these views, also on masters to which their slots are moving.
    pub(crate) async fn drop_views(&self, users: &[UserId]) -> Result<(), ViewError> {
        if users.is_empty() {
            return Ok(());
        }
        let live = self.live().await?;
        // One command per key: of a user's two keys, one may have moved with its slot while the other has not.
        let unlinks: Vec<_> = users
            .iter()
            .flat_map(|&user| self.keys(user).map(|key| (user, key)))
            .map(|(user, key)| ForUser { user, slot: slot_of(&key), command: unlink(&key) })
            .collect();
        let answers = self.send::<i64>(OPERATION, &live, &unlinks, None).await?;
        for (answer, call) in answers.into_iter().zip(unlinks) {
            match answer {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::Ask) => {
                    self.follow(&live, &error, call).await;
                }
                Err(error) => return Err(self.failed(OPERATION, call.user, &live, error)),
            }
        }
        Ok(())
    }

    /// Sends the command to the master to which the slot is moving. A failure there matters only if the move is
    /// cancelled: once the slot has arrived, all its views are cold.
    async fn follow(&self, live: &Live, ask: &RedisError, call: ForUser) {
        let ForUser { user, slot, command } = call;
        let index = live.masters.index_of(slot);
        let sent = async {
            let mut master = self.inner.connection.follow(live, index, ask).await?;
            let mut pipe = redis::pipe();
            // The importing master serves the slot only after `ASKING`.
            pipe.cmd("ASKING").ignore().add_command(command);
            let (_,): (i64,) = pipe.query_async(&mut master).await?;
            RedisResult::Ok(())
        };
        if let Err(error) = sent.await {
            warn!(user.id = %user, error = runtime::report(&error), "view not dropped where its slot is going");
        }
    }
}

fn unlink(key: &str) -> redis::Cmd {
    let mut command = redis::cmd("UNLINK");
    command.arg(key);
    command
}

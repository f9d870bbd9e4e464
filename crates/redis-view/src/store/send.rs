//! Sends commands on users' keys to the servers that have them.
//!
//! In a cluster, that is the master of the user's slot. While a slot moves to another master, commands on keys that
//! have moved, or do not exist, are answered with a redirection. No view is read or built there: until the move is
//! complete, the slot's generation is that of the old master, and the new one may fail over unnoticed. Readers use
//! MySQL; for changes see [`ViewStore::drop_views`].

use std::collections::BTreeMap;

use coupon::UserId;
use futures::future::join_all;
use redis::{
    Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, Script, ServerErrorKind, Value,
    from_redis_value,
};

use crate::{ViewError, ViewStore, store::connection::Live};

/// Maximum number of times a command is sent: twice if a server lacked the script.
const ROUNDS_MAX: usize = 2;

/// A command on the keys of one user.
pub(crate) struct ForUser {
    pub(crate) user: UserId,
    pub(crate) slot: u16,
    pub(crate) command: Cmd,
}

impl ViewStore {
    /// Sends all commands, in one pipeline per server. The answers are in the order of the commands. One user's failure
    /// does not affect other users. `script` is the script that the commands call, if any.
    pub(crate) async fn send<T: FromRedisValue>(
        &self,
        operation: &'static str,
        live: &Live,
        commands: &[ForUser],
        script: Option<&Script>,
    ) -> Result<Vec<RedisResult<T>>, ViewError> {
        let mut answers: BTreeMap<usize, RedisResult<T>> = BTreeMap::new();
        let mut waiting: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, ForUser { slot, .. }) in commands.iter().enumerate() {
            let master = live.masters.index_of(*slot);
            waiting.entry(master).or_default().push(index);
        }
        for _ in 0..ROUNDS_MAX {
            let sent = std::mem::take(&mut waiting).into_iter().map(async |(master, indexes)| {
                let answers = pipeline(live, master, &indexes, commands, script).await;
                (master, indexes, answers)
            });
            for (master, indexes, round) in join_all(sent).await {
                let round = round.map_err(|source| self.failed_for_all(operation, live, source))?;
                for (index, answer) in indexes.into_iter().zip(round) {
                    if answer.as_ref().is_err_and(is_missing_script) {
                        waiting.entry(master).or_default().push(index);
                    }
                    answers.insert(index, answer);
                }
            }
            if waiting.is_empty() {
                break;
            }
        }
        Ok(answers.into_values().collect())
    }
}

/// Sends some of the commands to one server. Loads the script into a server that lacks it.
async fn pipeline<T: FromRedisValue>(
    live: &Live,
    master: usize,
    indexes: &[usize],
    commands: &[ForUser],
    script: Option<&Script>,
) -> RedisResult<Vec<RedisResult<T>>> {
    let mut connection = live.masters.at(master);
    let mut pipe = redis::pipe();
    for &index in indexes {
        pipe.add_command(commands[index].command.clone());
    }
    let answers: Vec<RedisResult<Value>> =
        pipe.ignore_errors().query_async(&mut connection).await?;
    // Each by itself: an answer that does not have the expected form is about the keys of its user.
    let read = |answer: RedisResult<Value>| Ok(from_redis_value(answer?)?);
    let answers: Vec<RedisResult<T>> = answers.into_iter().map(read).collect();
    let lacks_script = answers.iter().any(|answer| answer.as_ref().is_err_and(is_missing_script));
    if let Some(script) = script.filter(|_| lacks_script) {
        script.load_async(&mut connection).await?;
    }
    Ok(answers)
}

/// Returns whether at least one of the user's keys has moved to the new master of its slot.
pub(crate) fn is_moving(error: &RedisError) -> bool {
    [ServerErrorKind::Ask, ServerErrorKind::TryAgain].map(ErrorKind::Server).contains(&error.kind())
}

fn is_missing_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

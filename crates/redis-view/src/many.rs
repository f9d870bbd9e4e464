//! Many users' changes in one round trip: a consumer with a backlog spends its time on changes, not on
//! calls. Each user's call stays a command of its own; nothing is atomic over users.

use coupon::UserId;
use redis::{FromRedisValue, Pipeline, RedisResult};

use crate::{
    Change, ViewError,
    connection::Live,
    keys,
    store::{Applied, CHANGES_PER_CALL, ViewStore},
};

/// A user and changes of its coupons, in their order.
pub type UserChanges<'a> = (UserId, &'a [Change]);

impl ViewStore {
    /// Applies the changes of many users, each change if it is newer; the answers have the same shape and
    /// order. A view that is cold stays cold.
    ///
    /// # Errors
    /// See [`ViewError`]; others' changes may be applied. After any but a wrong type the same call may be
    /// repeated, and after one once that user's view is dropped.
    pub async fn apply_all(
        &self,
        users: &[UserChanges<'_>],
    ) -> Result<Vec<Vec<Applied>>, ViewError> {
        let mut live = self.live().await?;
        let (mut pipe, mut calls) = (redis::pipe(), Vec::new());
        for (place, user, changes) in chunks(users) {
            calls.push((place, user));
            self.apply_call(&mut pipe, &live, user, changes);
        }
        if calls.is_empty() {
            return Ok(vec![Vec::new(); users.len()]);
        }
        let script = &self.inner.scripts.apply_change;
        let mut answers = self.answers::<Vec<u8>>("apply changes", &mut pipe, &mut live).await?;
        // Only the first call can find the script missing: the server forgets all scripts or none.
        if answers.iter().any(|answer| matches!(answer, Err(error) if is_missing_script(error))) {
            let loaded = script.prepare_invoke().load_async(&mut live.commands).await;
            loaded.map_err(|source| self.failed_for_all("load a script", &live, source))?;
            answers = self.answers("apply changes", &mut pipe, &mut live).await?;
        }
        let mut applied: Vec<Vec<Applied>> = vec![Vec::new(); users.len()];
        for ((place, user), answer) in calls.into_iter().zip(answers) {
            let codes =
                answer.map_err(|source| self.failed("apply changes", user, &live, source))?;
            for code in codes {
                applied[place].push(Applied::from_code(code)?);
            }
        }
        let whole = applied.iter().zip(users).all(|(some, (_, all))| some.len() == all.len());
        if whole { Ok(applied) } else { Err(ViewError::unreadable("too few codes of changes")) }
    }

    /// The read after the write, for many users: looks for each listed change's member and score, and
    /// writes what is missing again, but only where the view still holds exactly that version. Returns
    /// how many had to be written again.
    ///
    /// Leave out changes that found the view [`Applied::Cold`].
    ///
    /// # Errors
    /// As with [`ViewStore::apply_all`].
    pub async fn read_back_all(&self, users: &[UserChanges<'_>]) -> Result<u64, ViewError> {
        let (mut pipe, mut calls) = (redis::pipe(), Vec::new());
        for (_, user, changes) in chunks(users) {
            let listed: Vec<&Change> = changes.iter().filter(|change| change.is_listed()).collect();
            if listed.is_empty() {
                continue;
            }
            pipe.cmd("ZMSCORE").arg(keys::list(self.prefix(), user));
            for change in &listed {
                pipe.arg(change.coupon.member());
            }
            calls.push((user, listed));
        }
        if calls.is_empty() {
            return Ok(0);
        }
        let mut live = self.live().await?;
        let answers = self.answers::<Vec<Option<i64>>>("read back", &mut pipe, &mut live).await?;
        let mut repaired = 0;
        for ((user, listed), answer) in calls.into_iter().zip(answers) {
            let scores = answer.map_err(|source| self.failed("read back", user, &live, source))?;
            for (change, score) in listed.into_iter().zip(scores) {
                if score != Some(change.coupon.score()) {
                    repaired += self.write_again(user, change).await?;
                }
            }
        }
        Ok(repaired)
    }

    fn apply_call(&self, pipe: &mut Pipeline, live: &Live, user: UserId, changes: &[Change]) {
        let [list, coupons] = self.keys(user);
        let hash = self.inner.scripts.apply_change.get_hash();
        pipe.cmd("EVALSHA").arg(hash).arg(2).arg(list).arg(coupons).arg(live.generation);
        for change in changes {
            pipe.arg(&change.arguments());
        }
    }

    async fn answers<T: FromRedisValue>(
        &self,
        operation: &'static str,
        pipe: &mut Pipeline,
        live: &mut Live,
    ) -> Result<Vec<RedisResult<T>>, ViewError> {
        // One user's failure is not another's.
        let answers = pipe.ignore_errors().query_async(&mut live.commands).await;
        answers.map_err(|source| self.failed_for_all(operation, live, source))
    }
}

/// The changes of one call each, with the place of their user.
fn chunks<'a>(users: &[UserChanges<'a>]) -> impl Iterator<Item = (usize, UserId, &'a [Change])> {
    users.iter().enumerate().flat_map(|(place, &(user, changes))| {
        changes.chunks(CHANGES_PER_CALL).map(move |some| (place, user, some))
    })
}

fn is_missing_script(error: &redis::RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

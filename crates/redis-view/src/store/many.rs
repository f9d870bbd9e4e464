//! Changes of many users in one round trip, because a consumer with a backlog would otherwise spend its time waiting
//! for calls. Each user has separate commands; nothing is atomic across users.

use coupon::UserId;

use crate::{
    Change, ViewError, keys,
    store::{
        Applied, CHANGES_PER_CALL, CODE_COLD, CODE_OUTDATED, ViewStore,
        send::{ForUser, is_moving},
    },
};

/// A user and changes of the user's coupons, in order.
pub type UserChanges<'a> = (UserId, &'a [Change]);

impl ViewStore {
    /// Applies the changes of many users, each change if it is newer. The answers have the same shape and order. A cold
    /// view stays cold and its remains are dropped, because connections with another generation may trust them. A view
    /// whose slot is moving to another server is dropped too.
    ///
    /// # Errors
    /// See [`ViewError`]. Changes of other users may have been applied. The same call may be repeated; if
    /// [`ViewError::damage`] names a user, drop that user's view first.
    pub async fn apply_all(
        &self,
        users: &[UserChanges<'_>],
    ) -> Result<Vec<Vec<Applied>>, ViewError> {
        let operation = "apply changes";
        let script = &self.inner.scripts.apply_change;
        let live = self.live().await?;
        let mut sent = Vec::new();
        let mut calls = Vec::new();
        for (index, user, changes) in chunks(users) {
            let mut command = self.invocation(script, user);
            let slot = self.slot(user);
            command.arg(live.generation(slot));
            for change in changes {
                command.arg(&change.arguments());
            }
            sent.push((index, changes));
            calls.push(ForUser { user, slot, command });
        }
        let answers = self.send::<Vec<u8>>(operation, &live, &calls, Some(script)).await?;
        let mut moving = Vec::new();
        let mut applied: Vec<Vec<Applied>> = vec![Vec::new(); users.len()];
        for (((index, changes), ForUser { user, .. }), answer) in
            sent.into_iter().zip(&calls).zip(answers)
        {
            let codes = match answer {
                Err(error) if is_moving(&error) => {
                    moving.push(*user);
                    vec![CODE_COLD; changes.len()]
                }
                answer => answer.map_err(|source| self.failed(operation, *user, &live, source))?,
            };
            if codes.contains(&CODE_OUTDATED) {
                self.inner.connection.give_up(&live, "a view of a later generation stood");
            }
            for code in codes {
                applied[index].push(Applied::from_code(code)?);
            }
        }
        // After a completed move the view is cold anyway. If the move is cancelled, moved keys without this change must
        // not come back.
        self.drop_views(&moving).await?;
        let answered = applied.iter().zip(users).all(|(some, (_, all))| some.len() == all.len());
        if answered { Ok(applied) } else { Err(ViewError::unreadable("too few codes of changes")) }
    }

    /// Reads back the writes of many users: checks each listed change's member and score. Writes a missing member again
    /// if the view still holds exactly that version. Returns the number of members written again.
    ///
    /// Leave out changes that found the view [`Applied::Cold`].
    ///
    /// # Errors
    /// See [`ViewStore::apply_all`].
    pub async fn read_back_all(&self, users: &[UserChanges<'_>]) -> Result<u64, ViewError> {
        let operation = "read back";
        let mut wanted = Vec::new();
        let mut calls = Vec::new();
        for (_, user, changes) in chunks(users) {
            let listed: Vec<&Change> = changes.iter().filter(|change| change.is_listed()).collect();
            if listed.is_empty() {
                continue;
            }
            let mut command = redis::cmd("ZMSCORE");
            command.arg(keys::list(self.prefix(), user));
            for change in &listed {
                command.arg(change.coupon.member());
            }
            wanted.push(listed);
            calls.push(ForUser { user, slot: self.slot(user), command });
        }
        if calls.is_empty() {
            return Ok(0);
        }
        let live = self.live().await?;
        let answers = self.send::<Vec<Option<String>>>(operation, &live, &calls, None).await?;
        let mut repaired = 0;
        for ((listed, ForUser { user, .. }), answer) in wanted.into_iter().zip(&calls).zip(answers)
        {
            if answer.as_ref().is_err_and(is_moving) {
                continue;
            }
            let scores = answer.map_err(|source| self.failed(operation, *user, &live, source))?;
            for (change, score) in listed.into_iter().zip(scores) {
                // Compared as text, because a damaged score need not be an integer.
                if score != Some(change.coupon.score().to_string()) {
                    repaired += self.write_again(*user, change).await?;
                }
            }
        }
        Ok(repaired)
    }
}

/// Splits the changes into calls, each with the index of its user.
fn chunks<'a>(users: &[UserChanges<'a>]) -> impl Iterator<Item = (usize, UserId, &'a [Change])> {
    users.iter().enumerate().flat_map(|(index, &(user, changes))| {
        changes.chunks(CHANGES_PER_CALL).map(move |some| (index, user, some))
    })
}

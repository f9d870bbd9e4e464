//! Many users' changes in one round trip: a consumer with a backlog spends its time on changes, not on
//! calls. Each user's call stays a command of its own; nothing is atomic over users.

use coupon::UserId;

use crate::{
    Change, ViewError, keys,
    send::{ForUser, is_moving},
    store::{Applied, CHANGES_PER_CALL, CODE_COLD, CODE_OUTDATED, ViewStore},
};

/// A user and changes of its coupons, in their order.
pub type UserChanges<'a> = (UserId, &'a [Change]);

impl ViewStore {
    /// Applies the changes of many users, each change if it is newer; the answers have the same shape and
    /// order. A view that is cold stays cold and is dropped if anything is left of it: others may trust it whose
    /// generation is another one. So is one whose slot is on its way to another server.
    ///
    /// # Errors
    /// See [`ViewError`]; others' changes may be applied. The same call may be repeated, after
    /// [`ViewError::damage`] once that user's view is dropped.
    pub async fn apply_all(
        &self,
        users: &[UserChanges<'_>],
    ) -> Result<Vec<Vec<Applied>>, ViewError> {
        let operation = "apply changes";
        let script = &self.inner.scripts.apply_change;
        let live = self.live().await?;
        let (mut places, mut calls) = (Vec::new(), Vec::new());
        for (place, user, changes) in chunks(users) {
            let mut command = self.invocation(script, user);
            let slot = self.slot(user);
            command.arg(live.generation(slot));
            for change in changes {
                command.arg(&change.arguments());
            }
            places.push((place, changes));
            calls.push(ForUser { user, slot, command });
        }
        let answers = self.send::<Vec<u8>>(operation, &live, &calls, Some(script)).await?;
        let mut moving = Vec::new();
        let mut applied: Vec<Vec<Applied>> = vec![Vec::new(); users.len()];
        for (((place, changes), ForUser { user, .. }), answer) in
            places.into_iter().zip(&calls).zip(answers)
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
                applied[place].push(Applied::from_code(code)?);
            }
        }
        // Whoever takes the slot over begins anew; if nobody does, what has moved must not come back.
        self.drop_views(&moving).await?;
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
        let operation = "read back";
        let (mut wanted, mut calls) = (Vec::new(), Vec::new());
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
                // As text: a score that was damaged need not be a whole number.
                if score != Some(change.coupon.score().to_string()) {
                    repaired += self.write_again(*user, change).await?;
                }
            }
        }
        Ok(repaired)
    }
}

/// The changes of one call each, with the place of their user.
fn chunks<'a>(users: &[UserChanges<'a>]) -> impl Iterator<Item = (usize, UserId, &'a [Change])> {
    users.iter().enumerate().flat_map(|(place, &(user, changes))| {
        changes.chunks(CHANGES_PER_CALL).map(move |some| (place, user, some))
    })
}

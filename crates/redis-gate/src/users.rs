//! Reads users' entries, one or in pages.

use std::collections::HashMap;

use coupon::{Epoch, TemplateId, UserId};

use crate::{Entry, Gate, GateError, inspect::SCAN_KEYS};

/// A field name of the users hash, and its user and entry if they can be read.
pub type ReadEntry = (String, Option<(UserId, Entry)>);

impl Gate {
    /// Counts the users with an entry. Fewer than [`crate::Meta::users`] means that some are lost.
    pub async fn user_count(&self, template: TemplateId, epoch: Epoch) -> Result<u64, GateError> {
        let live = self.live(template).await?;
        let result = redis::cmd("HLEN")
            .arg(self.keys(template).users(epoch))
            .query_async(&mut live.connection.clone())
            .await;
        live.checked("user_count", result).await
    }

    /// Reads a user's entry.
    ///
    /// # Errors
    /// No answer, or an entry in an unknown layout.
    pub async fn entry(
        &self,
        template: TemplateId,
        epoch: Epoch,
        user: UserId,
    ) -> Result<Option<Entry>, GateError> {
        let live = self.live(template).await?;
        let result = redis::cmd("HGET")
            .arg(self.keys(template).users(epoch))
            .arg(user.0)
            .query_async(&mut live.connection.clone())
            .await;
        let bytes: Option<Vec<u8>> = live.checked("entry", result).await?;
        bytes
            .map(|bytes| Entry::decode(&bytes))
            .transpose()
            .map_err(|_| GateError::Unreadable { call: "entry" })
    }

    /// Reads some users' entries and returns the next cursor. Cursor 0 starts, and a returned 0 ends. Some entries may
    /// come twice.
    pub async fn entries_from(
        &self,
        template: TemplateId,
        epoch: Epoch,
        cursor: u64,
    ) -> Result<(u64, Vec<ReadEntry>), GateError> {
        let (next, fields) = self.scan_users::<Vec<u8>>("entries", template, epoch, cursor).await?;
        let read = |(user, bytes): (String, Vec<u8>)| {
            // The scripts name users by `Display`, and would not find one under another spelling.
            let id = user.parse().ok().filter(|id: &UserId| id.to_string() == user);
            (user, id.zip(Entry::decode(&bytes).ok()))
        };
        Ok((next, fields.into_iter().map(read).collect()))
    }

    /// Reads some of the users who have an entry, and returns the next cursor, like [`Gate::entries_from`]. Users are
    /// absent whose names cannot be read.
    pub async fn users_from(
        &self,
        template: TemplateId,
        epoch: Epoch,
        cursor: u64,
    ) -> Result<(u64, Vec<Option<UserId>>), GateError> {
        let scanned = self.scan_users::<redis::Value>("users", template, epoch, cursor).await;
        let (next, fields) = scanned?;
        Ok((next, fields.into_iter().map(|(user, _)| user.parse().ok()).collect()))
    }

    /// Reads some fields of the users hash, with each value as a `V`.
    async fn scan_users<V: redis::FromRedisValue>(
        &self,
        call: &'static str,
        template: TemplateId,
        epoch: Epoch,
        cursor: u64,
    ) -> Result<(u64, Vec<(String, V)>), GateError> {
        let live = self.live(template).await?;
        let result = redis::cmd("HSCAN")
            .arg(self.keys(template).users(epoch))
            .arg(cursor)
            .arg("COUNT")
            .arg(SCAN_KEYS)
            .query_async(&mut live.connection.clone())
            .await;
        let (next, fields): (u64, Vec<(Vec<u8>, V)>) = live.checked(call, result).await?;
        let named =
            |(name, value): (Vec<u8>, V)| (String::from_utf8_lossy(&name).into_owned(), value);
        Ok((next, fields.into_iter().map(named).collect()))
    }

    /// Returns those of `users` that have no entry.
    pub async fn without_entry(
        &self,
        template: TemplateId,
        epoch: Epoch,
        users: &[UserId],
    ) -> Result<Vec<UserId>, GateError> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let live = self.live(template).await?;
        let mut pipe = redis::pipe();
        for user in users {
            pipe.cmd("HEXISTS").arg(self.keys(template).users(epoch)).arg(user.0);
        }
        let result = pipe.query_async(&mut live.connection.clone()).await;
        let there: Vec<bool> = live.checked("entries", result).await?;
        Ok(users.iter().zip(there).filter(|(_, there)| !there).map(|(user, _)| *user).collect())
    }

    /// Reads every user's entry, in steps; for the verifier.
    ///
    /// # Errors
    /// No answer, or an entry in an unknown layout.
    pub async fn entries(
        &self,
        template: TemplateId,
        epoch: Epoch,
    ) -> Result<HashMap<UserId, Entry>, GateError> {
        let mut entries = HashMap::new();
        let mut cursor = 0;
        loop {
            let (next, read) = self.entries_from(template, epoch, cursor).await?;
            for (_, entry) in read {
                entries.extend([entry.ok_or(GateError::Unreadable { call: "entries" })?]);
            }
            if next == 0 {
                return Ok(entries);
            }
            cursor = next;
        }
    }
}

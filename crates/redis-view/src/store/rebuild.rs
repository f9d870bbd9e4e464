//! The steps of the rebuild of a cold view: begin, load, complete.
//!
//! ```text
//! begin     deletes the user's keys and creates them with the nonce of this rebuild
//! (MySQL)   rows are read only now: a change committed later comes through the consumer,
//!           which applies changes to views under rebuild too
//! load      writes rows, each if newer than what the consumer has applied meanwhile; many rows in several calls
//! complete  succeeds only if the nonce is still in every key
//! ```
//! A rebuild that dies leaves a loading view that no reader trusts. Its nonce goes stale, and the next reader begins
//! again. Each load keeps the nonce fresh.
//!
//! Rows may be loaded in any number of pieces, but all must be of one moment. Otherwise a view could know a change and
//! not the one before it.

use std::{fmt, time::Duration};

use chrono::{DateTime, Utc};
use coupon::UserId;

use crate::{Change, ViewError, ViewStore, store::CHANGES_PER_CALL};

/// Time after a rebuild's last sign of life during which no other rebuild may begin. Far longer than the interval
/// between two signs of life. After the death of a rebuild, a user's reads go to MySQL for at most this long.
pub(crate) const NONCE_YOUNG: Duration = Duration::from_secs(5);

/// Time to live of an unfinished view after the last sign of life. By then every process has given the rebuild up.
const UNFINISHED_LIFE: Duration = Duration::from_secs(60);

/// Time to live of a view. Less than the topic's retention (7 days), so that a change which retention deleted before
/// the consumer read it does not stay missing for ever.
pub(crate) const VIEW_LIFE: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// How far back a rebuild reads changes of coupons that are no longer unused: the topic's retention (7 days) and three
/// more, because a message may be written late and its segment dropped late. Changes that the topic cannot
/// replay need no tombstone.
pub const REBUILD_WINDOW: Duration = Duration::from_secs(10 * 24 * 60 * 60);

/// Result of `begin`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// The view is under this rebuild: read MySQL now.
    Begun(Nonce),
    /// Another rebuild is in progress.
    Busy,
    /// The view is already complete.
    Complete,
    /// The view has a later generation. This connection was out of date and is given up.
    Outdated,
}

/// Identifies one rebuild, together with the generation under which it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonce {
    generation: i64,
    random: u64,
}

impl ViewStore {
    /// Begins a rebuild. Read the rows of MySQL only after this.
    ///
    /// # Errors
    /// See [`ViewError`].
    pub async fn begin(&self, user: UserId, now: DateTime<Utc>) -> Result<Begun, ViewError> {
        let mut call = self.call("begin a rebuild", user).await?;
        let nonce = Nonce { generation: call.generation, random: fastrand::u64(..) };
        call.arguments = vec![
            nonce.generation.to_string(),
            nonce.to_string(),
            now.timestamp_millis().to_string(),
            NONCE_YOUNG.as_millis().to_string(),
            UNFINISHED_LIFE.as_millis().to_string(),
        ];
        let live = call.live.clone();
        match call.run(&self.inner.scripts.begin).await? {
            0 => Ok(Begun::Busy),
            1 => Ok(Begun::Begun(nonce)),
            2 => Ok(Begun::Complete),
            3 => {
                self.inner.connection.give_up(&live, "a view of a later generation stands");
                Ok(Begun::Outdated)
            }
            code => Err(ViewError::unreadable(format!("view_begin answered {code}"))),
        }
    }

    /// Loads rows, each if newer, and keeps the nonce fresh. Returns false if the view is no longer under this rebuild.
    ///
    /// # Errors
    /// See [`ViewError`].
    pub async fn load(
        &self,
        user: UserId,
        nonce: Nonce,
        rows: &[Change],
        now: DateTime<Utc>,
    ) -> Result<bool, ViewError> {
        for chunk in rows.chunks(CHANGES_PER_CALL) {
            let mut call = self.call("load rows", user).await?;
            call.arguments = vec![
                nonce.generation.to_string(),
                nonce.to_string(),
                now.timestamp_millis().to_string(),
                UNFINISHED_LIFE.as_millis().to_string(),
            ];
            call.arguments.extend(chunk.iter().flat_map(Change::arguments));
            let loaded: bool = call.run(&self.inner.scripts.load).await?;
            if !loaded {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Completes a rebuild, so that readers trust the view. Returns false if the view was no longer under this rebuild.
    ///
    /// # Errors
    /// See [`ViewError`].
    pub async fn complete(&self, user: UserId, nonce: Nonce) -> Result<bool, ViewError> {
        let mut call = self.call("complete a rebuild", user).await?;
        call.arguments = vec![
            nonce.generation.to_string(),
            nonce.to_string(),
            VIEW_LIFE.as_millis().to_string(),
        ];
        call.run(&self.inner.scripts.complete).await
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.random)
    }
}

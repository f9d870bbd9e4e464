//! The rebuild of a cold view, step by step: begin, load, complete.
//!
//! ```text
//! begin     the user's keys are deleted and made anew, each with the nonce of this rebuild
//! (MySQL)   only now the rows are read: a change committed later comes through the consumer,
//!           which applies to views under rebuild too
//! load      the rows, each if newer than what the consumer has applied meanwhile; of many rows some at a time
//! complete  only if the nonce is still in every key
//! ```
//! A rebuild that dies leaves a loading view that nobody trusts; its nonce grows old and the next
//! reader begins again. While it goes on, each load keeps its nonce young.
//!
//! The rows may be loaded in any number of pieces, but all of them are of one moment: else a view could know a change
//! and not the one before it.

use std::{fmt, time::Duration};

use chrono::{DateTime, Utc};
use coupon::UserId;

use crate::{Change, ViewError, ViewStore, store::CHANGES_PER_CALL};

/// For how long a nonce is young from a rebuild's last sign of life: nobody else begins meanwhile. Far above what is between
/// two of them, and the longest that a rebuild's death keeps a user's reads on MySQL.
pub(crate) const NONCE_YOUNG: Duration = Duration::from_secs(5);

/// How long an unfinished view lives from the last sign of life: until every process has long given its rebuild up.
const UNFINISHED_LIFE: Duration = Duration::from_secs(60);

/// How long a view lives: less than the topic's retention (7 days), so that a change which the topic
/// forgot before the consumer saw it does not stay missing for ever.
const VIEW_LIFE: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// How far back a rebuild reads changes of coupons that are not unused any more: the topic's
/// retention (7 days) and three more, because a message may have been written late and its segment
/// is dropped late. What the topic cannot replay any more needs no tombstone.
pub const REBUILD_WINDOW: Duration = Duration::from_secs(10 * 24 * 60 * 60);

/// What `begin` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// The view is under this rebuild: read MySQL now.
    Begun(Nonce),
    /// Somebody else's rebuild is young.
    Busy,
    /// The view is complete.
    Complete,
    /// A view of a later generation stands: this connection was out of date, and is given up.
    Outdated,
}

/// One rebuild, told apart from all others, with the generation it was begun under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonce {
    generation: i64,
    random: u64,
}

impl ViewStore {
    /// Begins a rebuild. Read the rows of MySQL after this, never before.
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

    /// Loads rows, each if newer, and keeps the rebuild young. False: the view is not under this rebuild any more.
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

    /// Ends a rebuild: readers trust the view. False: it was not under this rebuild any more.
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

//! The landing: one transaction that makes many admissions durable, all or none; and the ends of queued claims that do
//! not land.
//!
//! It inserts the claims, then the coupons. The guard comes last, right before the commit, because all landings of a
//! template wait for its stock row. COMMIT is sent only after the guard's answer. Direct and queued claims differ in the
//! guard only.
//!
//! A claim that was answered as accepted always gets a row: landed, rejected, or a fence beside the answer that its key
//! has under another id. Only one that comes after its epoch was given up gets none, since its client was already told
//! that it is lost. So every transaction but a landing, whose guard compares the epoch, first locks the stock row and
//! decides again.

mod guard;
mod insert;
mod locked;
mod reject;
mod reject_all;
mod renew;
mod reread;

use std::{future::ready, io};

use chrono::{DateTime, Utc};
use coupon::{Admission, Claim, LandedClaim, LandingMode, MerchantId};
use sqlx::{Connection, MySqlConnection};

use self::guard::Demand;
pub use self::{
    guard::join as guard_join,
    locked::locked,
    reject::{RejectOutcome, fence_elsewhere, reject},
    reject_all::reject_all,
    renew::renew,
    reread::reread,
};
use crate::{StoreError, connect};

/// An admission with all data for its rows.
#[derive(Debug, Clone)]
pub struct Landing {
    pub admission: Admission,
    /// The template's owner.
    pub merchant_id: MerchantId,
    /// Version of the template from which the validity in `landed` comes.
    pub terms: i64,
    /// The answer if it lands now. Its coupons become rows.
    pub landed: LandedClaim,
    /// When the gate admitted it, if known.
    pub admitted_at: Option<DateTime<Utc>>,
    /// Stock left at the gate after this admission, if known.
    pub left_after: Option<i64>,
}

impl Landing {
    fn claim(&self) -> &Claim {
        &self.admission.claim
    }
}

/// Result of an attempt. All but `Landed` were rolled back whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Everything is committed.
    Landed,
    /// A stock row was not open, of another epoch, of later terms, or short of stock.
    GuardRefused,
    /// A claim's key or id was taken.
    ClaimTaken,
    /// A user's number was taken.
    NumberTaken,
    /// A coupon's id was taken; the coupon needs a new one.
    CouponIdTaken,
}

/// Tries to land all of `landings`, with at most 1,000 coupons. They may be of several templates.
///
/// # Errors
/// After a conflict nothing has landed. After a lost connection it is unknown whether everything has. The same call finds
/// out, because landing is idempotent by claim id.
pub async fn land(
    connection: &mut MySqlConnection,
    mode: LandingMode,
    landings: &[Landing],
) -> Result<Attempt, StoreError> {
    land_by_way_of(connection, mode, landings, |_| ready(Ok(()))).await
}

/// Like [`land`], but calls `reach` with the name of each point in the transaction: `landing.after_insert`,
/// `landing.after_guard` (whatever its result) and `landing.before_commit`, or `queued.after_insert` and so on. There, a
/// test can end the process, delay it, or break its connection.
///
/// # Errors
/// As of [`land`]. An error of `reach` counts as a lost connection.
pub async fn land_by_way_of<F: Future<Output = io::Result<()>>>(
    connection: &mut MySqlConnection,
    mode: LandingMode,
    landings: &[Landing],
    reach: impl Fn(&'static str) -> F,
) -> Result<Attempt, StoreError> {
    let mut transaction = connection.begin().await.map_err(StoreError::query("begin a landing"))?;
    let done = write(&mut transaction, mode, landings, &reach).await;
    let keeps = |attempt: &Attempt| matches!(attempt, Attempt::Landed);
    connect::finish(transaction, done, keeps, ["commit a landing", "roll back a landing"]).await
}

/// Runs everything between begin and commit.
async fn write<F: Future<Output = io::Result<()>>>(
    connection: &mut MySqlConnection,
    mode: LandingMode,
    landings: &[Landing],
    reach: &impl Fn(&'static str) -> F,
) -> Result<Attempt, StoreError> {
    let stopped = |error| StoreError::query("go on with a landing")(sqlx::Error::Io(error));
    let [after_insert, after_guard, before_commit] = match mode {
        LandingMode::Direct => {
            ["landing.after_insert", "landing.after_guard", "landing.before_commit"]
        }
        LandingMode::Queued => {
            ["queued.after_insert", "queued.after_guard", "queued.before_commit"]
        }
    };
    let demands = guard::sums(landings.iter().map(Demand::of));
    if let Some(refused) = insert::all(connection, landings).await? {
        return Ok(refused);
    }
    reach(after_insert).await.map_err(stopped)?;
    let matched = guard::take(connection, mode, &demands).await?;
    reach(after_guard).await.map_err(stopped)?;
    if matched < demands.len() as u64 {
        return Ok(Attempt::GuardRefused);
    }
    reach(before_commit).await.map_err(stopped)?;
    Ok(Attempt::Landed)
}

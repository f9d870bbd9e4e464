//! The landing of queued claims: that of [`crate::landing`] with the guard of queued claims, and the ends of those that
//! do not land.
//!
//! A claim that was answered as accepted always gets a row: landed, rejected, or a fence beside the answer that its key
//! has under another id. Only one that comes after its epoch was given up gets none, since its client was already told
//! that it is lost. So every transaction but a landing, whose guard compares the epoch, first locks the stock row and
//! decides again.

mod reject;
mod reject_all;
mod reread;

use std::{future::ready, io};

use coupon::{Claim, Epoch, LandedClaim, MerchantId, QueuedClaim};
use sqlx::MySqlConnection;

pub use self::{
    reject::{RejectOutcome, fence_elsewhere, reject},
    reject_all::reject_all,
    reread::reread,
};
pub use super::landing::Attempt as QueuedAttempt;
use super::landing::{
    guard::{self, Demand, Guard},
    insert::Rows,
    renew as direct,
    transaction::{self, Work},
};
use crate::StoreError;

/// A queued claim with all data for its rows.
#[derive(Debug, Clone)]
pub struct QueuedLanding {
    pub queued: QueuedClaim,
    /// The template's owner.
    pub merchant_id: MerchantId,
    /// Version of the template from which the validity in `landed` comes.
    pub terms: i64,
    /// The answer if it lands now. Its coupons become rows.
    pub landed: LandedClaim,
}

/// Tries to land all of `landings`, with at most 1,000 coupons. They may be of several templates.
///
/// # Errors
/// A statement fails. After a conflict nothing has landed. After a lost connection it is unknown whether everything
/// has. The same call finds out, because landing is idempotent by claim id.
pub async fn land(
    connection: &mut MySqlConnection,
    landings: &[QueuedLanding],
) -> Result<QueuedAttempt, StoreError> {
    land_by_way_of(connection, landings, |_| ready(Ok(()))).await
}

/// Like [`land`], but calls `reach` with the name of each point in the transaction: `queued.after_insert`,
/// `queued.after_guard` (whatever its result) and `queued.before_commit`. There, a test can end the process, delay it,
/// or break its connection.
///
/// # Errors
/// As of [`land`]. An error of `reach` counts as a lost connection.
pub async fn land_by_way_of<F: Future<Output = io::Result<()>>>(
    connection: &mut MySqlConnection,
    landings: &[QueuedLanding],
    reach: impl Fn(&'static str) -> F,
) -> Result<QueuedAttempt, StoreError> {
    let demand = |landing: &QueuedLanding| Demand::of(&landing.queued.admission, landing.terms);
    let work = Work {
        rows: landings.iter().map(QueuedLanding::rows).collect(),
        demands: guard::sums(landings.iter().map(demand)),
        guard: Guard::Queued,
        points: ["queued.after_insert", "queued.after_guard", "queued.before_commit"],
    };
    transaction::run(connection, &work, reach).await
}

/// Gives each of `landings` whose template has a newer version the new validity, as [`crate::landing::renew()`] does.
/// Returns whether there were any.
///
/// # Errors
/// A statement fails; then none has changed.
pub async fn renew<'a>(
    connection: &mut MySqlConnection,
    landings: impl Iterator<Item = &'a mut QueuedLanding>,
) -> Result<bool, StoreError> {
    let parts = |landing: &'a mut QueuedLanding| (&mut landing.landed, &mut landing.terms);
    let parts = landings.map(parts).collect();
    direct::all(connection, parts).await
}

/// The guard's SQL for `count` templates.
pub fn guard_join(count: usize) -> String {
    Guard::Queued.join(count)
}

impl QueuedLanding {
    fn claim(&self) -> &Claim {
        &self.queued.admission.claim
    }

    fn epoch(&self) -> Epoch {
        self.queued.admission.epoch
    }

    fn rows(&self) -> Rows<'_> {
        Rows {
            claim: self.claim(),
            merchant_id: self.merchant_id,
            landed: &self.landed,
            admitted_at: Some(self.queued.admitted_at),
            left_after: self.queued.left_after,
        }
    }
}

//! The landing: one transaction that makes many admissions durable, all or none.
//!
//! It inserts the claims, then the coupons. The guard comes last, right before the commit, because all landings of a
//! template wait for its stock row. COMMIT is sent only after the guard's answer. Landings of queued claims, in
//! [`crate::queued_landing`], differ only in the guard.

pub(crate) mod guard;
pub(crate) mod insert;
mod locked;
pub(crate) mod renew;
pub(crate) mod reread;
pub(crate) mod transaction;

use std::{future::ready, io};

use chrono::{DateTime, Utc};
use coupon::{Admission, LandedClaim, MerchantId};
use sqlx::MySqlConnection;

use self::{
    guard::{Demand, Guard},
    insert::Rows,
    transaction::Work,
};
pub use self::{locked::locked, renew::renew, reread::reread};
use crate::StoreError;

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

/// Tries to land all of `landings`, with at most 1,000 coupons.
///
/// # Errors
/// A statement fails. After a conflict nothing has landed. After a lost connection it is unknown whether everything
/// has. The same call finds out, because landing is idempotent by claim id.
pub async fn land(
    connection: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<Attempt, StoreError> {
    land_by_way_of(connection, landings, |_| ready(Ok(()))).await
}

/// Like [`land`], but calls `reach` with the name of each point in the transaction: `landing.after_insert`,
/// `landing.after_guard` (whatever its result) and `landing.before_commit`. There, a test can end the process, delay
/// it, or break its connection.
///
/// # Errors
/// As of [`land`]. An error of `reach` counts as a lost connection.
pub async fn land_by_way_of<F: Future<Output = io::Result<()>>>(
    connection: &mut MySqlConnection,
    landings: &[Landing],
    reach: impl Fn(&'static str) -> F,
) -> Result<Attempt, StoreError> {
    let demand = |landing: &Landing| Demand::of(&landing.admission, landing.terms);
    let work = Work {
        rows: landings.iter().map(Landing::rows).collect(),
        demands: guard::sums(landings.iter().map(demand)),
        guard: Guard::Direct,
        points: ["landing.after_insert", "landing.after_guard", "landing.before_commit"],
    };
    transaction::run(connection, &work, reach).await
}

/// The guard's SQL for `count` templates.
pub fn guard_join(count: usize) -> String {
    Guard::Direct.join(count)
}

impl Landing {
    fn rows(&self) -> Rows<'_> {
        Rows {
            claim: &self.admission.claim,
            merchant_id: self.merchant_id,
            landed: &self.landed,
            admitted_at: self.admitted_at,
            left_after: self.left_after,
        }
    }
}

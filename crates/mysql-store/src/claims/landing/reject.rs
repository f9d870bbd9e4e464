//! The ends of a queued claim that does not land: a rejected row under its key, or a fence beside the key's answer.
//!
//! Both lock the stock row first. A rebuild that gives up the claim's epoch changes this row, and from then on the client
//! is told that the claim is lost and may send its key again. So the epoch is compared under the lock, and a rejection is
//! decided there once more. Both may be repeated after any error.

use chrono::{DateTime, Utc};
use coupon::{Decision, Epoch, LandingMode, RejectReason, TemplateId, decide};
use sqlx::{Connection, MySqlConnection};

use super::{Landing, reject_all, reread};
use crate::{
    StoreError,
    claims::fence::{self, Fence},
    connect,
};

/// Attempts to insert a rejected row. Before each repetition, another template's fence was lifted.
const INSERTS_MAX: u32 = 3;

/// Result of a rejection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RejectOutcome {
    /// The rejected row stands: the claim has its end.
    Written,
    /// Under the lock, the decision is another one. Nothing was written.
    Otherwise(Decision),
}

/// Rejects a queued claim for good, if the reason still holds under the lock of its stock row.
/// [`RejectReason::Failed`] holds while the claim has no row and its epoch is still that of queued claims. Call it on
/// a connection that the server ends if the process stops ([`crate::connect::lander`]).
///
/// # Errors
/// A statement fails. After a conflict nothing was written. After a lost connection it is unknown; the same call then
/// finds [`Decision::Rejected`]. A duplicate key: another claim has its id, so it never gets a row.
pub async fn reject(
    connection: &mut MySqlConnection,
    landing: &Landing,
    reason: RejectReason,
    now: DateTime<Utc>,
) -> Result<RejectOutcome, StoreError> {
    let mut transaction =
        connection.begin().await.map_err(StoreError::query("begin a rejection"))?;
    let done = try_reject(&mut transaction, landing, reason, now).await;
    let keeps = |outcome: &RejectOutcome| *outcome == RejectOutcome::Written;
    connect::finish(transaction, done, keeps, ["commit a rejection", "roll back a rejection"]).await
}

async fn try_reject(
    transaction: &mut MySqlConnection,
    landing: &Landing,
    reason: RejectReason,
    now: DateTime<Utc>,
) -> Result<RejectOutcome, StoreError> {
    hold_stock(transaction, landing.claim().template_id).await?;
    let decision = decide_now(transaction, landing).await?;
    if !stands(reason, &decision) {
        return Ok(RejectOutcome::Otherwise(decision));
    }
    let mut tries = 0;
    loop {
        match insert(transaction, landing, reason, now).await {
            Ok(()) => return Ok(RejectOutcome::Written),
            Err(error) if error.duplicate_key().is_some() => {
                // A fence was placed meanwhile, which needs no lock of the stock row. A foreign one is lifted here.
                let decision = decide_now(transaction, landing).await?;
                if !stands(reason, &decision) {
                    return Ok(RejectOutcome::Otherwise(decision));
                }
                tries += 1;
                if tries == INSERTS_MAX {
                    // Its id is another claim's, so it can never have a row.
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether this decision lets the claim be rejected for this reason.
pub(super) fn stands(reason: RejectReason, decision: &Decision) -> bool {
    match reason {
        RejectReason::Failed => decision.is_unanswered(),
        reason => decision.reject_reason() == Some(reason),
    }
}

/// Fences a queued claim whose key has its answer under another id, so that a poll of its own id finds an end. Returns
/// whether the fence stands, from now or earlier; false if the claim's epoch was given up, so that it gets no row, or
/// if it has landed. Call it on a connection that the server ends if the process stops ([`crate::connect::lander`]).
///
/// # Errors
/// A statement fails. After a conflict nothing was written. After a lost connection it is unknown; the same call finds
/// out.
pub async fn fence_elsewhere(
    connection: &mut MySqlConnection,
    landing: &Landing,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let mut transaction = connection.begin().await.map_err(StoreError::query("begin a fence"))?;
    let done = try_fence(&mut transaction, landing, now).await;
    let keeps = |stands: &bool| *stands;
    connect::finish(transaction, done, keeps, ["commit a fence", "roll back a fence"]).await
}

async fn try_fence(
    transaction: &mut MySqlConnection,
    landing: &Landing,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let claim = landing.claim();
    let queued_epoch = hold_stock(transaction, claim.template_id).await?;
    if queued_epoch.is_none_or(|queued_epoch| landing.admission.epoch < queued_epoch) {
        return Ok(false);
    }
    let template = claim.template_id;
    let user = claim.user_id;
    let fence = fence::place_held(transaction, template, user, claim.id, now).await?;
    Ok(fence == Fence::Stands)
}

/// Locks the stock row and returns its epoch of queued claims, or `None` if there is no such template.
async fn hold_stock(
    transaction: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Option<Epoch>, StoreError> {
    let epoch: Option<i64> = sqlx::query_scalar(
        "select queued_epoch from template_stock where template_id = ? for update",
    )
    .bind(template.0)
    .fetch_optional(transaction)
    .await
    .map_err(StoreError::query("hold the stock row"))?;
    Ok(epoch.map(Epoch))
}

async fn decide_now(
    transaction: &mut MySqlConnection,
    landing: &Landing,
) -> Result<Decision, StoreError> {
    let found = reread(transaction, LandingMode::Queued, std::slice::from_ref(landing)).await?;
    // One claim was reread, so its rows are there.
    let decision =
        found.first().map(|found| decide(LandingMode::Queued, &landing.admission, found));
    Ok(decision.unwrap_or(Decision::Retry))
}

/// Inserts the row under the client's key, and adds its user to those that a rebuilt gate looks up.
async fn insert(
    transaction: &mut MySqlConnection,
    landing: &Landing,
    reason: RejectReason,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    reject_all::insert_claims(transaction, vec![(landing, reason)], now).await?;
    reject_all::note_users(transaction, &[(landing, reason)]).await
}

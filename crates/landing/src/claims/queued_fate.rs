//! The fate of a queued claim, for a client with a receipt; looking it up inserts nothing. For a client without a
//! receipt: whether the claim may be queued.

use std::time::Duration;

use chrono::TimeDelta;
use coupon::{ClaimId, Epoch, LandedClaim, RejectReason, RequestId, TemplateId, UserId};
use mysql_store::{
    MySqlPool, StoreError, connect,
    look_up::{self, ClaimFate, StoredAnswer},
    stock,
};
use redis_gate::Gate;

use super::{fate::FateError, walk::QUEUED_WITHIN};

/// Age from which a claim may be fenced if its template was ever queued. No api queues a claim that is older than
/// [`QUEUED_WITHIN`]; the rest of the time is for its last call to the gate, and for clocks that differ.
const UNQUEUED_AFTER: Duration = Duration::from_secs(180);

const _: () = assert!(UNQUEUED_AFTER.as_secs() >= 3 * QUEUED_WITHIN.as_secs());

/// The fate of a queued claim. All but [`QueuedFate::Processing`] are final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueuedFate {
    /// The user has the coupons, perhaps by another admission with the same key.
    Succeeded(LandedClaim),
    /// It was rejected, perhaps by way of another admission with the same key.
    Rejected(RejectReason),
    /// It has not landed and never will. The same key may be sent again.
    Lost,
    /// It may still land.
    Processing,
}

/// Determines the fate of the claim `id` that was queued under `receipt_epoch` with the client's `key`.
///
/// # Errors
/// MySQL is unreachable, or holds data that this version cannot read. Nothing definite can be said.
pub async fn queued_fate(
    pool: &MySqlPool,
    template: TemplateId,
    user: UserId,
    id: ClaimId,
    receipt_epoch: Epoch,
    key: &RequestId,
) -> Result<QueuedFate, StoreError> {
    connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        // Read before the row: a claim that landed before the epoch rose has its row by then, so no row means never.
        let facts = stock::queue_facts(&mut connection, template).await?;
        Ok(match look_up::claim_fate(&mut connection, id).await? {
            Some(ClaimFate::Landed(landed)) => QueuedFate::Succeeded(landed),
            Some(ClaimFate::Rejected { reason, .. }) => QueuedFate::Rejected(reason),
            // The lander fences a claim whose key has an answer. A fence in another template says nothing.
            Some(ClaimFate::GivenUp { template_id, .. }) if template_id == template => {
                match look_up::by_key(&mut connection, template, user, key).await? {
                    Some(StoredAnswer::Landed(landed)) => QueuedFate::Succeeded(landed),
                    Some(StoredAnswer::Rejected { reason, .. }) => QueuedFate::Rejected(reason),
                    None => QueuedFate::Lost,
                }
            }
            // Without a template nothing lands.
            _ if facts.is_none_or(|facts| receipt_epoch < facts.queued_epoch) => QueuedFate::Lost,
            Some(ClaimFate::GivenUp { .. } | ClaimFate::Lost { .. }) | None => {
                QueuedFate::Processing
            }
        })
    })
    .await
}

/// A claim that may be in a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueuedClaim {
    pub(super) template: TemplateId,
    pub(super) id: ClaimId,
    /// The user who asks. Another user's claim that the gate holds is not theirs, whatever the queue has.
    pub(super) asked_by: Option<UserId>,
    /// Since its id was made.
    pub(super) age: TimeDelta,
}

/// Returns whether a claim may be in the queue, and land. It cannot if the template was never queued or its queue is closed.
/// Otherwise only an open gate rules it out, if its epoch is both `epoch` and `queued_epoch` in MySQL: a claim that the
/// gate does not hold was not queued under this epoch, and one of an earlier epoch is too late.
///
/// # Errors
/// MySQL or the gate is unreachable.
pub(super) async fn may_be_queued(
    pool: &MySqlPool,
    gate: &Gate,
    claim: QueuedClaim,
) -> Result<bool, FateError> {
    let QueuedClaim { template, id, asked_by, age } = claim;
    let facts = connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        stock::queue_facts(&mut connection, template).await
    });
    let Some(facts) = facts.await? else { return Ok(false) };
    if !facts.ever_queued || facts.queue_closed {
        return Ok(false);
    }
    let unqueued_after = TimeDelta::from_std(UNQUEUED_AFTER).unwrap_or(TimeDelta::MAX);
    let epoch = facts.epoch;
    if age < unqueued_after
        || facts.queued_epoch != epoch
        || !is_open(gate, template, epoch).await?
    {
        return Ok(true);
    }
    // The gate was open before and after the search, so it is the same gate, and had lost nothing.
    let held = gate.find_in_flight(template, epoch, id).await?;
    let is_held = held.is_some_and(|held| asked_by.is_none_or(|user| user == held.user));
    Ok(is_held || !is_open(gate, template, epoch).await?)
}

async fn is_open(gate: &Gate, template: TemplateId, epoch: Epoch) -> Result<bool, FateError> {
    let meta = gate.meta(template).await?;
    Ok(meta.is_some_and(|meta| meta.is_open() && meta.epoch == epoch && meta.unreadable.is_none()))
}

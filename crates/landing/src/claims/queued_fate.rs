//! The fate of a claim that was queued, for a client with a receipt. Nothing is inserted by looking.

use coupon::{ClaimId, Epoch, LandedClaim, RejectReason, RequestId, TemplateId, UserId};
use mysql_store::{
    MySqlPool, StoreError, connect,
    look_up::{self, ClaimFate, StoredAnswer},
    stock,
};

/// The fate of a queued claim. All but [`QueuedFate::Processing`] are final.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueuedFate {
    /// The user has the coupons, perhaps by another admission with the same key.
    Succeeded(LandedClaim),
    /// It was rejected, perhaps as another admission with the same key.
    Rejected(RejectReason),
    /// It has not landed and never will. The same key may be sent again.
    Lost,
    /// It may still land.
    Processing,
}

/// Determines the fate of the claim `id` that was queued under `receipt_epoch` with the client's `key`.
///
/// # Errors
/// MySQL is unreachable, or holds what this version does not know. Nothing definite can be said.
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
        // Before the row: what landed before the epoch rose has its row by then, so no row means never.
        let facts = stock::queue_facts(&mut connection, template).await?;
        Ok(match look_up::claim_fate(&mut connection, id).await? {
            Some(ClaimFate::Landed(landed)) => QueuedFate::Succeeded(landed),
            Some(ClaimFate::Rejected { reason, .. }) => QueuedFate::Rejected(reason),
            // The lander fences what finds its key answered.
            Some(ClaimFate::GivenUp { .. }) => {
                match look_up::by_key(&mut connection, template, user, key).await? {
                    Some(StoredAnswer::Landed(landed)) => QueuedFate::Succeeded(landed),
                    Some(StoredAnswer::Rejected { reason, .. }) => QueuedFate::Rejected(reason),
                    None => QueuedFate::Lost,
                }
            }
            // Without a template nothing lands.
            None if facts.is_none_or(|facts| receipt_epoch < facts.queued_epoch) => {
                QueuedFate::Lost
            }
            None => QueuedFate::Processing,
        })
    })
    .await
}

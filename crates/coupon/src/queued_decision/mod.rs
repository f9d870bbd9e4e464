//! Decides how a queued claim continues after its landing was rolled back, as a pure function.
//!
//! The table is that of [`crate::decide`] with these differences, because a queued claim was already accepted: it lands
//! under `queued_epoch`, also while the template is paused, and with other numbers if its own are taken; if it is
//! refused, a row records it.

use crate::{ClaimRow, ClaimState, Epoch, Numbers, Open, QueuedClaim, RejectReason, TemplateState};

/// The part of a `template_stock` row that a decision about a queued claim needs. `stock` is what remains after the
/// earlier claims of the same batch that were decided to land.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedStock {
    /// The lowest epoch of the queued claims that land. A later one than MySQL's is one that only a gate knew.
    pub queued_epoch: Epoch,
    pub open: Open,
    pub stock: i64,
}

/// What the reread found for one queued claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedRows {
    /// The row under the client's key.
    pub by_key: Option<ClaimRow>,
    /// Whether this admission has a fence.
    pub fenced: bool,
    /// The numbers of all coupons that the user has of the template; none if it has no limit.
    pub taken: Vec<u8>,
    /// The template's limit per user; 0 if there is none.
    pub limit: u32,
    pub stock: Option<QueuedStock>,
    pub template_state: TemplateState,
}

/// How a queued claim continues. The variants are in the order of the rules, and the first rule that applies decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueuedDecision {
    /// An earlier attempt of the same admission landed.
    Landed,
    /// The same admission was rejected before.
    Rejected,
    /// The key has its answer, landed or rejected, under another admission: this one gets a fence, so that its id has an
    /// end too.
    Elsewhere,
    /// The admission was fenced and never lands.
    Fenced,
    /// The epoch was given up before the claim came: it is skipped, and gets no row.
    TooLate {
        /// The database's epoch of queued claims; [`Epoch::UNKNOWN`] if the template does not exist any more.
        now: Epoch,
    },
    /// A number is taken, or beyond the limit: the gate is wrong about this user.
    NumberTaken {
        /// The lowest free numbers to land with instead; `None` if the user has too few.
        free: Option<Numbers>,
    },
    /// The template was paused or ended with its accepted claims rejected.
    NotOpen(RejectReason),
    /// The gate admitted more than the stock covers.
    Short {
        /// Stock left for this claim, less than it asks for.
        left: i64,
    },
    /// No rule applies: run the claim again.
    Retry,
}

impl QueuedDecision {
    /// Returns the reason with which the claim is to be rejected, or `None` if it is not.
    pub fn reject_reason(&self) -> Option<RejectReason> {
        match self {
            Self::NumberTaken { free: None } => Some(RejectReason::LimitReached),
            Self::NotOpen(reason) => Some(*reason),
            Self::Short { left } => Some(RejectReason::of_short_stock(*left)),
            Self::Landed
            | Self::Rejected
            | Self::Elsewhere
            | Self::Fenced
            | Self::TooLate { .. }
            | Self::NumberTaken { free: Some(_) }
            | Self::Retry => None,
        }
    }

    /// Returns whether the claim has no row yet and its epoch is still that of queued claims, so that it may get one.
    pub fn is_unanswered(&self) -> bool {
        match self {
            Self::NumberTaken { .. } | Self::NotOpen(_) | Self::Short { .. } | Self::Retry => true,
            Self::Landed
            | Self::Rejected
            | Self::Elsewhere
            | Self::Fenced
            | Self::TooLate { .. } => false,
        }
    }
}

/// Decides for one queued claim.
pub fn decide_queued(claim: &QueuedClaim, found: &QueuedRows) -> QueuedDecision {
    let admission = &claim.admission;
    if let Some(row) = found.by_key {
        let mine = row.id == admission.claim.id;
        match row.state {
            ClaimState::Landed if mine => return QueuedDecision::Landed,
            ClaimState::Rejected if mine => return QueuedDecision::Rejected,
            ClaimState::Landed | ClaimState::Rejected => return QueuedDecision::Elsewhere,
            // A fence has a key of its own.
            ClaimState::Void => {}
        }
    }
    if found.fenced {
        return QueuedDecision::Fenced;
    }
    // A template without a stock row does not exist, so no claim of it lands, and a rejection has no stock row to lock.
    let Some(stock) = found.stock else { return QueuedDecision::TooLate { now: Epoch::UNKNOWN } };
    if admission.epoch < stock.queued_epoch {
        return QueuedDecision::TooLate { now: stock.queued_epoch };
    }
    let beyond = |number: &u8| found.limit > 0 && u32::from(*number) > found.limit;
    if admission.numbers.iter().any(|number| found.taken.contains(number) || beyond(number)) {
        return QueuedDecision::NumberTaken { free: lowest_free(admission.claim.quantity, found) };
    }
    if !stock.open.lands_queued() {
        // Ended is final; anything else was a pause.
        let ended = found.template_state == TemplateState::Ended;
        let reason = if ended { RejectReason::Ended } else { RejectReason::Paused };
        QueuedDecision::NotOpen(reason)
    } else if stock.stock < i64::from(admission.claim.quantity) {
        QueuedDecision::Short { left: stock.stock }
    } else {
        QueuedDecision::Retry
    }
}

/// Returns the `quantity` lowest free numbers of the user, or `None` if fewer are free.
fn lowest_free(quantity: u32, found: &QueuedRows) -> Option<Numbers> {
    let limit = u8::try_from(found.limit).unwrap_or(u8::MAX);
    let free = (1..=limit).filter(|number| !found.taken.contains(number));
    let lowest: Numbers = free.take(quantity as usize).collect();
    (lowest.len() == quantity as usize).then_some(lowest)
}

#[cfg(test)]
mod tests;

//! Decides how an admission continues after its landing was rolled back, as a pure function.
//!
//! If a key was taken or the guard matched too few rows, the lander rolls back the whole transaction, rereads the rows,
//! decides for each admission, and runs the undecided ones again. There is one table, and [`LandingMode`] is a column of
//! it.

use crate::{Admission, ClaimId, ClaimState, Epoch, Numbers, Open, RejectReason, TemplateState};

/// What a claim's client was told before it lands, and so under which conditions it lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LandingMode {
    /// Nothing: the client waits. The claim lands under the template's epoch, while the template is open.
    Direct,
    /// That the claim is accepted. It lands under [`StockRow::queued_epoch`] or a later epoch, which only the gate knew,
    /// also while the template is paused, and with other numbers if its own are taken. If it is refused, a row records it.
    Queued,
}

/// The part of a `claim` row that a decision needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRow {
    /// The admission that wrote the row.
    pub id: ClaimId,
    pub state: ClaimState,
}

/// The part of a `template_stock` row that a decision needs. `stock` is what remains after the earlier admissions of
/// the same batch that were decided to land.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StockRow {
    pub epoch: Epoch,
    /// The lowest epoch of the queued claims that land.
    pub queued_epoch: Epoch,
    pub open: Open,
    pub stock: i64,
}

/// What the reread found for one admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundRows {
    /// The row under the client's key.
    pub by_key: Option<ClaimRow>,
    /// Whether this admission has a fence.
    pub fenced: bool,
    /// The numbers of all coupons that the user has of the template; none if it has no limit.
    pub taken: Vec<u8>,
    /// The template's limit per user; 0 if there is none.
    pub limit: u32,
    pub stock: Option<StockRow>,
    pub template_state: TemplateState,
}

/// How an admission continues. The variants are in the order of the rules, and the first rule that applies decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// An earlier attempt of the same admission landed: success.
    Landed,
    /// The same admission was queued and rejected before.
    Rejected,
    /// The key has its answer, landed or rejected, under another admission. A direct claim is released and answered from
    /// that one, or its key is refused if the payload differs. A queued one gets a fence, so that its id has an end too.
    Elsewhere,
    /// The admission was fenced and never lands.
    Fenced,
    /// No admission of this epoch lands any more. A direct claim is admitted once more. A queued one came too late: it is
    /// skipped, and gets no row.
    StaleEpoch {
        /// The database's epoch for this mode; [`Epoch::UNKNOWN`] if the template does not exist any more.
        now: Epoch,
    },
    /// A number is taken, or beyond the limit: the gate is wrong about this user.
    NumberTaken {
        /// The lowest free numbers, with which a queued claim lands instead; `None` if the user has too few.
        free: Option<Numbers>,
    },
    /// The template is paused or ended. The reason is that of a queued claim's rejection.
    NotOpen(RejectReason),
    /// The gate admitted more than the stock covers.
    Short {
        /// Stock left for this admission, less than it asks for.
        left: i64,
    },
    /// No rule applies: run the admission again.
    Retry,
}

impl Decision {
    /// Returns the reason with which a queued claim is to be rejected, or `None` if it is not.
    pub fn reject_reason(&self) -> Option<RejectReason> {
        match self {
            Self::NumberTaken { free: None } => Some(RejectReason::LimitReached),
            Self::NotOpen(reason) => Some(*reason),
            Self::Short { left } => Some(RejectReason::of_short_stock(*left)),
            Self::Landed
            | Self::Rejected
            | Self::Elsewhere
            | Self::Fenced
            | Self::StaleEpoch { .. }
            | Self::NumberTaken { free: Some(_) }
            | Self::Retry => None,
        }
    }

    /// Returns whether the claim has no row yet and its epoch still lands, so that it may get one.
    pub fn is_unanswered(&self) -> bool {
        match self {
            Self::NumberTaken { .. } | Self::NotOpen(_) | Self::Short { .. } | Self::Retry => true,
            Self::Landed
            | Self::Rejected
            | Self::Elsewhere
            | Self::Fenced
            | Self::StaleEpoch { .. } => false,
        }
    }
}

/// Decides for one admission. One rule for each row of the tables "After a rollback" in docs/failures.md.
pub fn decide(mode: LandingMode, admission: &Admission, found: &FoundRows) -> Decision {
    if let Some(row) = found.by_key {
        let mine = row.id == admission.claim.id;
        match row.state {
            ClaimState::Landed if mine => return Decision::Landed,
            ClaimState::Rejected if mine => return Decision::Rejected,
            ClaimState::Landed | ClaimState::Rejected => return Decision::Elsewhere,
            // A fence has a key of its own.
            ClaimState::Void => {}
        }
    }
    if found.fenced {
        return Decision::Fenced;
    }
    // A template without a stock row does not exist, so no claim of it lands, and a rejection has no stock row to lock.
    let Some(stock) = found.stock else {
        return match mode {
            LandingMode::Direct => Decision::NotOpen(RejectReason::Ended),
            LandingMode::Queued => Decision::StaleEpoch { now: Epoch::UNKNOWN },
        };
    };
    if let Some(now) = mode.later_epoch(admission.epoch, stock) {
        return Decision::StaleEpoch { now };
    }
    let beyond = |number: &u8| found.limit > 0 && u32::from(*number) > found.limit;
    if admission.numbers.iter().any(|number| found.taken.contains(number) || beyond(number)) {
        return Decision::NumberTaken { free: lowest_free(admission.claim.quantity, found) };
    }
    if !mode.is_open(stock.open) {
        // Ended is final; anything else was a pause.
        let ended = found.template_state == TemplateState::Ended;
        Decision::NotOpen(if ended { RejectReason::Ended } else { RejectReason::Paused })
    } else if stock.stock < i64::from(admission.claim.quantity) {
        Decision::Short { left: stock.stock }
    } else {
        Decision::Retry
    }
}

impl LandingMode {
    /// Returns the database's epoch if admissions of `epoch` do not land.
    fn later_epoch(self, epoch: Epoch, stock: StockRow) -> Option<Epoch> {
        match self {
            Self::Direct => (epoch != stock.epoch).then_some(stock.epoch),
            Self::Queued => (epoch < stock.queued_epoch).then_some(stock.queued_epoch),
        }
    }

    fn is_open(self, open: Open) -> bool {
        match self {
            Self::Direct => open.lands_direct(),
            Self::Queued => open.lands_queued(),
        }
    }
}

/// Returns the `quantity` lowest free numbers of the user, or `None` if fewer are free.
fn lowest_free(quantity: u32, found: &FoundRows) -> Option<Numbers> {
    let limit = u8::try_from(found.limit).unwrap_or(u8::MAX);
    let free = (1..=limit).filter(|number| !found.taken.contains(number));
    let lowest: Numbers = free.take(quantity as usize).collect();
    (lowest.len() == quantity as usize).then_some(lowest)
}

#[cfg(test)]
mod tests;

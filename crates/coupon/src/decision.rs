//! Decides how an admission continues after its landing was rolled back, as a pure function.
//!
//! If a key was taken or the guard matched too few rows, the lander rolls back the whole transaction, rereads the rows,
//! decides for each admission, and runs the undecided ones again.

use crate::{Admission, ClaimId, ClaimState, Epoch};

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
    /// Whether direct claims land: [`crate::Open::All`].
    pub open: bool,
    pub stock: i64,
}

/// What the reread found for one admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FoundRows {
    /// The row under the client's key.
    pub by_key: Option<ClaimRow>,
    /// Whether this admission has a fence.
    pub fenced: bool,
    /// Whether a coupon of the same user has one of the admission's numbers.
    pub number_taken: bool,
    pub stock: Option<StockRow>,
}

/// How an admission continues. The variants are in the order of the rules, and the first rule that applies decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// An earlier attempt of the same admission landed: success.
    Landed,
    /// The request has its answer, landed or rejected, under another admission: release this one, and answer the stored
    /// result, or refuse the key if its payload differs.
    LandedElsewhere,
    /// The same admission was queued earlier and rejected: release it, and answer that.
    Rejected,
    /// The admission was fenced and never lands.
    Fenced,
    /// The gate was rebuilt meanwhile: no admission of the old epoch can land.
    StaleEpoch {
        /// The database's epoch.
        now: Epoch,
    },
    /// A number is taken: the gate is wrong about this user.
    NumberTaken,
    /// The template is paused or ended.
    NotOpen,
    /// The gate admitted more than the stock covers.
    Short {
        /// Stock left for this admission, less than it asks for.
        left: i64,
    },
    /// No rule applies: run the admission again.
    Retry,
}

/// Decides for one admission.
pub fn decide(admission: &Admission, found: &FoundRows) -> Decision {
    if let Some(row) = found.by_key {
        let mine = row.id == admission.claim.id;
        match row.state {
            ClaimState::Landed if mine => return Decision::Landed,
            ClaimState::Rejected if mine => return Decision::Rejected,
            ClaimState::Landed | ClaimState::Rejected => return Decision::LandedElsewhere,
            // A fence has a key of its own.
            ClaimState::Void => {}
        }
    }
    if found.fenced {
        return Decision::Fenced;
    }
    // A template without a stock row does not exist, so it is not open.
    let Some(stock) = found.stock else { return Decision::NotOpen };
    if stock.epoch != admission.epoch {
        Decision::StaleEpoch { now: stock.epoch }
    } else if found.number_taken {
        Decision::NumberTaken
    } else if !stock.open {
        Decision::NotOpen
    } else if stock.stock < i64::from(admission.claim.quantity) {
        Decision::Short { left: stock.stock }
    } else {
        Decision::Retry
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;
    use crate::{Claim, PayloadHash, RequestId, TemplateId, UserId};

    fn admission() -> Admission {
        let claim = Claim {
            id: ClaimId(7),
            template_id: TemplateId(1),
            user_id: UserId(2),
            request_id: RequestId::from_client("k").unwrap(),
            payload_hash: PayloadHash::of_quantity(2),
            quantity: 2,
            claimed_at: DateTime::UNIX_EPOCH,
            trace_parent: None,
        };
        Admission { claim, epoch: Epoch(3), numbers: vec![1, 2] }
    }

    fn row(id: i64) -> Option<ClaimRow> {
        Some(ClaimRow { id: ClaimId(id), state: ClaimState::Landed })
    }

    fn rejected(id: i64) -> Option<ClaimRow> {
        Some(ClaimRow { id: ClaimId(id), state: ClaimState::Rejected })
    }

    fn stock(epoch: i64, open: bool, stock: i64) -> Option<StockRow> {
        Some(StockRow { epoch: Epoch(epoch), open, stock })
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let all_wrong = FoundRows {
            by_key: row(7),
            fenced: true,
            number_taken: true,
            stock: stock(4, false, 0),
        };
        let cases = [
            (all_wrong, Decision::Landed),
            (FoundRows { by_key: row(8), ..all_wrong }, Decision::LandedElsewhere),
            (FoundRows { by_key: rejected(7), ..all_wrong }, Decision::Rejected),
            (FoundRows { by_key: rejected(8), ..all_wrong }, Decision::LandedElsewhere),
            (FoundRows { by_key: None, ..all_wrong }, Decision::Fenced),
            (
                FoundRows { by_key: None, fenced: false, ..all_wrong },
                Decision::StaleEpoch { now: Epoch(4) },
            ),
            (
                FoundRows { number_taken: true, stock: stock(3, false, 0), ..FoundRows::default() },
                Decision::NumberTaken,
            ),
            (FoundRows { stock: stock(3, false, 0), ..FoundRows::default() }, Decision::NotOpen),
            (
                FoundRows { stock: stock(3, true, 1), ..FoundRows::default() },
                Decision::Short { left: 1 },
            ),
            (FoundRows { stock: stock(3, true, 2), ..FoundRows::default() }, Decision::Retry),
            (FoundRows::default(), Decision::NotOpen),
        ];
        for (found, decision) in cases {
            assert_eq!(decide(&admission(), &found), decision, "{found:?}");
        }
    }
}

//! What becomes of an admission whose landing was rolled back: the rules, as a pure function.
//!
//! The lander rolls back the whole transaction when a key was taken or the guard matched too little,
//! rereads what stands in the database, decides, and runs the undecided admissions again.

use crate::{Admission, ClaimId, ClaimState, Epoch};

/// A `claim` row, as far as a decision needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRow {
    /// The admission that wrote it.
    pub id: ClaimId,
    /// What it says.
    pub state: ClaimState,
}

/// A `template_stock` row, as far as a decision needs it. `stock` is what is left after the
/// admissions of the same batch that were decided to land before this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StockRow {
    /// The template's epoch.
    pub epoch: Epoch,
    /// Whether landings are allowed.
    pub open: bool,
    /// What is left.
    pub stock: i64,
}

/// What the reread found for one admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FoundRows {
    /// The row under the client's key.
    pub by_key: Option<ClaimRow>,
    /// Whether the fence of this admission stands.
    pub fenced: bool,
    /// Whether a coupon of the same user holds one of the admission's numbers.
    pub number_taken: bool,
    /// The template's stock row.
    pub stock: Option<StockRow>,
}

/// What becomes of the admission. The first rule that fits decides, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// An earlier attempt of this very admission landed: success.
    Landed,
    /// The request landed under another admission: release mine, answer the stored result, or
    /// refuse the key if its payload differs.
    LandedElsewhere,
    /// Somebody fenced this admission: it never lands.
    Fenced,
    /// The gate was rebuilt meanwhile: nothing of the old epoch can land.
    StaleEpoch {
        /// The database's epoch.
        now: Epoch,
    },
    /// A number is taken: the gate is wrong about this user.
    NumberTaken,
    /// The template is paused or ended.
    NotOpen,
    /// The gate promised more than there is.
    Short {
        /// What was left for this admission, less than it asks for.
        left: i64,
    },
    /// Nothing stands in the way: run it again.
    Retry,
}

/// Decides for one admission by what was found.
pub fn decide(admission: &Admission, found: &FoundRows) -> Decision {
    let landed = found.by_key.filter(|row| row.state == ClaimState::Landed);
    if let Some(row) = landed {
        let mine = row.id == admission.claim.id;
        return if mine { Decision::Landed } else { Decision::LandedElsewhere };
    }
    if found.fenced {
        return Decision::Fenced;
    }
    // A template without a stock row does not exist: nothing of it can be open.
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

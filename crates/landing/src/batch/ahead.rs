//! Decides the admissions of one transaction together.

use std::collections::{HashMap, HashSet};

use coupon::{Decision, FoundRows, LandingMode, RequestId, TemplateId, UserId, decide};
use mysql_store::landing::Landing;

/// A user's number of a template.
type Number = (TemplateId, UserId, i64);

/// Decides in batch order, as if each admission were landed alone. One that will be tried again takes its stock from those
/// behind it, so if a batch asks for too much, only its tail is refused. One that shares a key or a number with such an
/// earlier one is tried again too, since the earlier one's row decides it. Whether it will take stock is unknown, so from
/// then on none of its template is refused as short, but tried again.
///
/// A direct claim's number that is found taken counts only if `is_proven`; else the claim is tried again. A return may be
/// giving the number back: the gate has it from the binlog a moment before MySQL shows the commit. A landing that meets
/// the duplicate waits for that return, a reread does not.
pub(super) fn decide_all(
    mode: LandingMode,
    landings: &[Landing],
    found: Vec<FoundRows>,
    is_proven: bool,
) -> Vec<Decision> {
    let mut ahead = Ahead::default();
    landings
        .iter()
        .zip(found)
        .map(|(landing, mut found)| {
            let template = landing.landed.template_id;
            if let Some(stock) = &mut found.stock {
                stock.stock -= ahead.stock_taken.get(&template).copied().unwrap_or(0);
            }
            let decision = decide(mode, &landing.admission, &found);
            let numbers = match &decision {
                Decision::NumberTaken { free: Some(free) } if mode == LandingMode::Queued => {
                    free_numbers(landing, free)
                }
                _ => numbers(landing),
            };
            if ahead.must_land_before(mode, landing, &decision, &numbers) {
                ahead.uncertain_stock.insert(template);
                return Decision::Retry;
            }
            match (&decision, mode) {
                (Decision::NumberTaken { .. }, LandingMode::Direct) if !is_proven => {
                    ahead.add_keys(landing, numbers);
                    ahead.uncertain_stock.insert(template);
                    return Decision::Retry;
                }
                (Decision::Retry, _)
                | (Decision::NumberTaken { free: Some(_) }, LandingMode::Queued) => {
                    *ahead.stock_taken.entry(template).or_default() +=
                        i64::from(landing.admission.claim.quantity);
                    ahead.add_keys(landing, numbers);
                }
                _ => {}
            }
            decision
        })
        .collect()
}

/// The stock, keys and numbers of the batch's earlier admissions that will be tried again.
#[derive(Default)]
struct Ahead<'a> {
    stock_taken: HashMap<TemplateId, i64>,
    keys: HashSet<(TemplateId, UserId, &'a RequestId)>,
    numbers: HashSet<Number>,
    /// Templates of which one of those admissions may or may not take stock.
    uncertain_stock: HashSet<TemplateId>,
}

impl<'a> Ahead<'a> {
    fn add_keys(&mut self, landing: &'a Landing, numbers: Vec<Number>) {
        let claim = &landing.admission.claim;
        self.keys.insert((claim.template_id, claim.user_id, &claim.request_id));
        self.numbers.extend(numbers);
    }

    fn must_land_before(
        &self,
        mode: LandingMode,
        landing: &Landing,
        decision: &Decision,
        numbers: &[Number],
    ) -> bool {
        let claim = &landing.admission.claim;
        let wants_numbers = match decision {
            Decision::Short { .. } | Decision::Retry => true,
            Decision::NumberTaken { free: Some(_) } => mode == LandingMode::Queued,
            _ => false,
        };
        let is_short = matches!(decision, Decision::Short { .. });
        self.keys.contains(&(claim.template_id, claim.user_id, &claim.request_id))
            || is_short && self.uncertain_stock.contains(&claim.template_id)
            || wants_numbers && numbers.iter().any(|number| self.numbers.contains(number))
    }
}

/// The numbers that its coupons have.
fn numbers(landing: &Landing) -> Vec<Number> {
    let landed = &landing.landed;
    let number = |no| (landed.template_id, landed.user_id, no);
    landed.coupons.iter().map(|coupon| number(coupon.claim_no)).collect()
}

/// The numbers that its coupons would have instead.
fn free_numbers(landing: &Landing, free: &[u8]) -> Vec<Number> {
    let landed = &landing.landed;
    free.iter().map(|no| (landed.template_id, landed.user_id, i64::from(*no))).collect()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use coupon::{
        Admission, Claim, ClaimId, CouponId, Epoch, LandedClaim, LandedCoupon, MerchantId, Open,
        PayloadHash, StockRow, TemplateState,
    };

    use super::*;

    const TEMPLATE: TemplateId = TemplateId(1);

    fn landing(index: i64, user: i64, key: &str, number: u8) -> Landing {
        let at = DateTime::UNIX_EPOCH;
        let claim = Claim {
            id: ClaimId(index),
            template_id: TEMPLATE,
            user_id: UserId(user),
            request_id: RequestId::from_client(key).unwrap(),
            payload_hash: PayloadHash::of_quantity(1),
            quantity: 1,
            claimed_at: at,
            trace_parent: None,
        };
        let landed = LandedClaim {
            id: claim.id,
            template_id: claim.template_id,
            user_id: claim.user_id,
            payload_hash: claim.payload_hash,
            claimed_at: at,
            valid_from: at,
            valid_until: at,
            held_until: None,
            coupons: vec![LandedCoupon { id: CouponId(index), claim_no: i64::from(number) }],
        };
        let admission = Admission { claim, epoch: Epoch(3), numbers: vec![number] };
        Landing {
            admission,
            merchant_id: MerchantId(1),
            terms: 1,
            landed,
            admitted_at: Some(at),
            left_after: None,
        }
    }

    fn rows(taken: &[u8], stock: i64) -> FoundRows {
        let stock = StockRow { epoch: Epoch(3), queued_epoch: Epoch(3), open: Open::All, stock };
        FoundRows {
            by_key: None,
            fenced: false,
            taken: taken.to_vec(),
            limit: 3,
            stock: Some(stock),
            template_state: TemplateState::Published,
        }
    }

    const MODES: [LandingMode; 2] = [LandingMode::Direct, LandingMode::Queued];
    const SOLD_OUT: Decision = Decision::Short { left: 0 };

    fn decided(mode: LandingMode, landings: &[Landing], found: &FoundRows) -> Vec<Decision> {
        decide_all(mode, landings, vec![found.clone(); landings.len()], false)
    }

    #[test]
    fn only_the_tail_of_a_batch_that_asks_for_too_much_is_refused() {
        let landings: Vec<Landing> = (0..4).map(|user| landing(user, user, "a", 1)).collect();
        for mode in MODES {
            let decided = decided(mode, &landings, &rows(&[], 2));
            assert_eq!(decided, [Decision::Retry, Decision::Retry, SOLD_OUT, SOLD_OUT]);
        }
    }

    #[test]
    fn a_claim_with_the_key_or_a_number_of_one_ahead_waits_for_it_and_the_last_stock_for_both() {
        let same_key = [
            landing(0, 7, "a", 1),
            landing(1, 8, "a", 1),
            landing(2, 7, "a", 2),
            landing(3, 9, "a", 1),
        ];
        let same_number = [landing(0, 7, "a", 1), landing(1, 7, "b", 1)];
        for mode in MODES {
            let decided_by_key = decided(mode, &same_key, &rows(&[], 1));
            let expected = [Decision::Retry, SOLD_OUT, Decision::Retry, Decision::Retry];
            assert_eq!(decided_by_key, expected);
            let decided_by_number = decided(mode, &same_number, &rows(&[], 2));
            assert_eq!(decided_by_number, [Decision::Retry, Decision::Retry]);
        }
    }

    #[test]
    fn free_numbers_are_given_once_and_one_ahead_keeps_its_own() {
        let landings = [landing(0, 7, "a", 1), landing(1, 7, "b", 1), landing(2, 7, "c", 3)];
        let free = Decision::NumberTaken { free: Some(vec![2]) };
        let queued = decided(LandingMode::Queued, &landings, &rows(&[1], 9));
        assert_eq!(queued, [free, Decision::Retry, Decision::Retry]);
        let none = decided(LandingMode::Queued, &landings[..1], &rows(&[1, 2, 3], 9));
        assert_eq!(none, [Decision::NumberTaken { free: None }]);
    }

    #[test]
    fn the_number_of_a_direct_claim_is_taken_only_if_that_is_proven() {
        let landings = [landing(0, 7, "a", 1), landing(1, 8, "a", 2), landing(2, 9, "a", 2)];
        let found = vec![rows(&[1], 1), rows(&[], 1), rows(&[], 1)];
        let decided = decide_all(LandingMode::Direct, &landings, found.clone(), false);
        // The last one may get a coupon if the first one gets none.
        assert_eq!(decided, [Decision::Retry, Decision::Retry, Decision::Retry]);
        let proven = decide_all(LandingMode::Direct, &landings[..1], found[..1].to_vec(), true);
        assert_eq!(proven, [Decision::NumberTaken { free: Some(vec![2]) }]);
    }
}

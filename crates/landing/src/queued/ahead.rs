//! Decides the claims of one transaction together.

use std::collections::{HashMap, HashSet};

use coupon::{QueuedDecision, QueuedRows, RequestId, TemplateId, UserId, decide_queued};
use mysql_store::queued_landing::QueuedLanding;

use crate::queued::{end::Next, group::QueuedJob};

/// A user's number of a template.
type Number = (TemplateId, UserId, i64);

/// Decides in batch order, as if each claim were landed alone. Each claim that will be run again reduces the stock left
/// for the claims behind it, so if a batch asks for too much, only its tail is rejected. A claim that shares a key or a
/// number with one ahead of it is decided after that one has landed. Whether that one takes stock is not known yet, so
/// where too little is left, a claim behind it is run again.
pub(super) fn decide_all(jobs: &[QueuedJob], found: Vec<QueuedRows>) -> Vec<Next> {
    let mut ahead = Ahead::default();
    jobs.iter()
        .zip(found)
        .map(|(job, mut found)| {
            let landing = &job.landing;
            if let Some(stock) = &mut found.stock {
                let template = landing.landed.template_id;
                stock.stock -= ahead.taken.get(&template).copied().unwrap_or(0);
            }
            let decision = decide_queued(&landing.queued, &found);
            if ahead.must_land_before(landing, &decision) {
                ahead.unknown.insert(landing.landed.template_id);
                return Next::Again;
            }
            let next = Next::from(decision);
            match &next {
                Next::Again => ahead.add(landing, numbers(landing)),
                Next::AgainWith(free) => ahead.add(landing, others(landing, free)),
                Next::End(_) | Next::Later(_) => {}
            }
            next
        })
        .collect()
}

/// The stock, keys and numbers of the batch's earlier claims that will be tried again.
#[derive(Default)]
struct Ahead<'a> {
    taken: HashMap<TemplateId, i64>,
    keys: HashSet<(TemplateId, UserId, &'a RequestId)>,
    numbers: HashSet<Number>,
    /// Templates of which one of those claims may or may not take stock.
    unknown: HashSet<TemplateId>,
}

impl<'a> Ahead<'a> {
    fn add(&mut self, landing: &'a QueuedLanding, numbers: Vec<Number>) {
        let claim = &landing.queued.admission.claim;
        *self.taken.entry(claim.template_id).or_default() += i64::from(claim.quantity);
        self.keys.insert((claim.template_id, claim.user_id, &claim.request_id));
        self.numbers.extend(numbers);
    }

    fn must_land_before(&self, landing: &QueuedLanding, decision: &QueuedDecision) -> bool {
        let claim = &landing.queued.admission.claim;
        let wanted = match decision {
            QueuedDecision::NumberTaken { free: Some(free) } => others(landing, free),
            QueuedDecision::Short { .. } | QueuedDecision::Retry => numbers(landing),
            _ => Vec::new(),
        };
        matches!(decision, QueuedDecision::Short { .. })
            && self.unknown.contains(&claim.template_id)
            || self.keys.contains(&(claim.template_id, claim.user_id, &claim.request_id))
            || wanted.iter().any(|number| self.numbers.contains(number))
    }
}

/// The numbers that its coupons have.
fn numbers(landing: &QueuedLanding) -> Vec<Number> {
    let landed = &landing.landed;
    let number = |no| (landed.template_id, landed.user_id, no);
    landed.coupons.iter().map(|coupon| number(coupon.claim_no)).collect()
}

/// The numbers that its coupons would have instead.
fn others(landing: &QueuedLanding, free: &[u8]) -> Vec<Number> {
    let landed = &landing.landed;
    free.iter().map(|no| (landed.template_id, landed.user_id, i64::from(*no))).collect()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use coupon::{
        AcceptAfter, Admission, Claim, ClaimId, CouponId, Epoch, LandedClaim, LandedCoupon,
        MerchantId, Open, PayloadHash, QueuedClaim, QueuedStock, RejectReason, TemplateState,
    };

    use super::*;
    use crate::queued::end::Ending;

    const TEMPLATE: TemplateId = TemplateId(1);

    fn job(index: usize, user: i64, key: &str, number: u8) -> QueuedJob {
        let at = DateTime::UNIX_EPOCH;
        let id = i64::try_from(index).unwrap();
        let claim = Claim {
            id: ClaimId(id),
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
            coupons: vec![LandedCoupon { id: CouponId(id), claim_no: i64::from(number) }],
        };
        let admission = Admission { claim, epoch: Epoch(3), numbers: vec![number] };
        let queued = QueuedClaim {
            admission,
            accept_after: AcceptAfter::Topic,
            admitted_at: at,
            left_after: None,
        };
        let merchant_id = MerchantId(1);
        QueuedJob::new(index, QueuedLanding { queued, merchant_id, terms: 1, landed })
    }

    fn rows(taken: &[u8], stock: i64) -> QueuedRows {
        let (queued_epoch, open) = (Epoch(3), Open::All);
        QueuedRows {
            by_key: None,
            fenced: false,
            taken: taken.to_vec(),
            limit: 3,
            stock: Some(QueuedStock { queued_epoch, open, stock }),
            template_state: TemplateState::Published,
        }
    }

    #[test]
    fn only_the_tail_of_a_batch_that_asks_for_too_much_is_rejected() {
        let jobs: Vec<QueuedJob> = (0..4).map(|user| job(user, user as i64, "a", 1)).collect();
        let next = decide_all(&jobs, vec![rows(&[], 2); 4]);
        let sold_out = Next::Later(Ending::Reject(RejectReason::SoldOut));
        assert_eq!(next, [Next::Again, Next::Again, sold_out.clone(), sold_out]);
    }

    #[test]
    fn a_claim_with_the_key_or_a_number_of_one_ahead_waits_for_it_and_the_last_stock_for_both() {
        let jobs = [job(0, 7, "a", 1), job(1, 8, "a", 1), job(2, 7, "a", 2), job(3, 9, "a", 1)];
        let next = decide_all(&jobs, vec![rows(&[], 1); 4]);
        let sold_out = Next::Later(Ending::Reject(RejectReason::SoldOut));
        assert_eq!(next, [Next::Again, sold_out, Next::Again, Next::Again]);
        let jobs = [job(0, 7, "a", 1), job(1, 7, "b", 1)];
        assert_eq!(decide_all(&jobs, vec![rows(&[], 2); 2]), [Next::Again, Next::Again]);
    }

    #[test]
    fn free_numbers_are_given_once_and_one_ahead_keeps_its_own() {
        let jobs = [job(0, 7, "a", 1), job(1, 7, "b", 1), job(2, 7, "c", 3)];
        let next = decide_all(&jobs, vec![rows(&[1], 9); 3]);
        assert_eq!(next, [Next::AgainWith(vec![2]), Next::Again, Next::Again]);
        let next = decide_all(&jobs[..1], vec![rows(&[1, 2, 3], 9)]);
        assert_eq!(next, [Next::Later(Ending::Reject(RejectReason::LimitReached))]);
        assert!(next[0].blames_the_gate());
    }
}

//! [`Landers`]: the queues before a process's landers, as claims use them.

use std::{sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use coupon::{Admission, Claim, LandedClaim, LandedCoupon, Template, TemplateId};
use mysql_store::landing::Landing;
use runtime::FailPoints;
use tokio::sync::{mpsc, oneshot};

use crate::{
    batch::{Outcome, job::BATCH_COUPONS_MAX},
    ids::{IdError, Ids},
    lander::{Job, Lander, Link, aside, pulse::Pulse},
};

/// Lander workers of one process. Two alternating transactions keep the disk busy (measured: 65,000 claims/s, against
/// 42,000 with one). Templates are distributed among the landers by a hash of their ids.
pub const LANDERS: usize = 2;

/// Admissions that may wait for a lander before mode spill queues further claims: two batches, so that each waits for
/// a few transactions at most.
const BEHIND_MAX: usize = 2 * BATCH_COUPONS_MAX;

/// Longest time of one batch, or of a connect, before mode spill treats MySQL as not answering; far above the time of a
/// batch, and far below the deadline of a request.
const ANSWERS_MAX: Duration = Duration::from_secs(1);

/// The landers of a process, as claims use them.
#[derive(Clone)]
pub struct Landers {
    queues: Vec<(mpsc::Sender<Job>, Arc<Pulse>)>,
    ids: Arc<Ids>,
}

/// Creates `count` landers whose queues hold `queued_max` admissions each.
pub fn landers(
    count: usize,
    queued_max: usize,
    database_url: &str,
    ids: &Arc<Ids>,
    points: &FailPoints,
) -> (Landers, Vec<Lander>) {
    let (queues, workers) = (0..count)
        .map(|_| {
            let (sender, queue) = mpsc::channel(queued_max);
            let pulse = Arc::<Pulse>::default();
            let link = Link::new(database_url, ids, points);
            ((sender, Arc::clone(&pulse)), Lander::new(queue, link, pulse))
        })
        .unzip();
    (Landers { queues, ids: Arc::clone(ids) }, workers)
}

/// How long the landers of a process have been waiting for MySQL. It does not keep them at work.
#[derive(Clone)]
pub struct LandingWait(Vec<Arc<Pulse>>);

impl LandingWait {
    /// Returns the longest wait; zero if there is none.
    pub fn lasts(&self) -> Duration {
        self.0.iter().map(|pulse| pulse.lasts()).max().unwrap_or_default()
    }
}

impl Landers {
    /// Returns what tells how long MySQL does not answer the landers.
    pub fn wait(&self) -> LandingWait {
        LandingWait(self.queues.iter().map(|(_, pulse)| Arc::clone(pulse)).collect())
    }

    /// Lands an admission made at `admitted_at` that left `left_after` coupons in the gate, if known, and returns its
    /// outcome. `None`: the landers have stopped, and it is unknown whether the admission landed; the resolver will
    /// find out.
    ///
    /// # Errors
    /// No coupon id can be made; the admission did not begin to land.
    pub async fn land(
        &self,
        template: &Template,
        admission: Admission,
        admitted_at: DateTime<Utc>,
        left_after: Option<i64>,
    ) -> Result<Option<Outcome>, IdError> {
        let landed = answer_if_landed(&self.ids, template, &admission, admitted_at)?;
        let merchant_id = template.merchant_id;
        let terms = template.version;
        let admitted_at = Some(admitted_at);
        let landing = Landing { admission, merchant_id, terms, landed, admitted_at, left_after };
        let (answer, outcome) = oneshot::channel();
        let job = Job::new(answer, landing);
        let (queue, _) = &self.queues[share_of(template.id, self.queues.len())];
        if queue.send(job).await.is_err() {
            return Ok(None);
        }
        Ok(outcome.await.ok())
    }

    /// Returns the number of admissions that wait to land.
    pub(crate) fn queued(&self) -> usize {
        self.queues.iter().map(|(queue, _)| waiting(queue)).sum::<usize>() + aside::waiting()
    }

    /// Returns whether a template's lander is behind: too many admissions wait for it, or MySQL does not answer it.
    pub(crate) fn is_behind(&self, template: TemplateId) -> bool {
        let (queue, pulse) = &self.queues[share_of(template, self.queues.len())];
        waiting(queue) > BEHIND_MAX || pulse.lasts() > ANSWERS_MAX
    }
}

/// Returns the answer to an admission if it lands at `lands_at` under this version of its template, with new ids for
/// its coupons. A hold runs from the landing. Grants are not held: nobody pays for them, so they would lapse.
///
/// # Errors
/// No coupon id can be made.
pub(crate) fn answer_if_landed(
    ids: &Ids,
    template: &Template,
    admission: &Admission,
    lands_at: DateTime<Utc>,
) -> Result<LandedClaim, IdError> {
    let claim = &admission.claim;
    let coupons = (0..claim.quantity as usize)
        .map(|index| {
            let id = ids.coupon()?;
            let claim_no = admission.numbers.get(index).map_or(id.0, |n| i64::from(*n));
            Ok(LandedCoupon { id, claim_no })
        })
        .collect::<Result<_, IdError>>()?;
    let answer = answer_without_hold(template, claim, coupons);
    let is_held = !claim.request_id.is_grant();
    let held_until =
        is_held.then(|| template.hold.held_until(lands_at, answer.valid_until)).flatten();
    Ok(LandedClaim { held_until, ..answer })
}

/// Returns the answer to a claim with these coupons, which are not held. A claim that cannot land has none.
pub(crate) fn answer_without_hold(
    template: &Template,
    claim: &Claim,
    coupons: Vec<LandedCoupon>,
) -> LandedClaim {
    let (valid_from, valid_until) = template.validity.of_claim(claim.claimed_at);
    LandedClaim {
        id: claim.id,
        template_id: claim.template_id,
        user_id: claim.user_id,
        payload_hash: claim.payload_hash,
        claimed_at: claim.claimed_at,
        valid_from,
        valid_until,
        held_until: None,
        coupons,
    }
}

fn waiting(queue: &mpsc::Sender<Job>) -> usize {
    queue.max_capacity() - queue.capacity()
}

/// Returns which of `shares` lands a template. The low bits of an id count within its millisecond and are nearly always
/// 0, so the id is mixed first: multiplying by 2^64 divided by the golden ratio carries every bit upwards.
fn share_of(template: TemplateId, shares: usize) -> usize {
    let mixed = template.0.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    usize::try_from(mixed).unwrap_or(0) % shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_whose_low_bits_are_all_zero_are_shared_out_evenly() {
        let ids = (0..1_000).map(|ms| TemplateId((2_123_985_067_360_387_072 >> 22 | ms) << 22));
        let mut shares = [0; 4];
        for id in ids {
            shares[share_of(id, 4)] += 1;
        }
        assert!(shares.iter().all(|share| (200..=300).contains(share)), "{shares:?}");
    }
}

//! The messages of each partition that have no end yet, above all payments that came before their claims. Such payments
//! wait while their partition continues, so one shop's wrong payments do not hold up those of others.
//!
//! The guarantee: the stored offset of a partition is that of its first message without an end. So after a crash a
//! payment that waits is taken again, and so are the messages behind it. Those that had ended change nothing more.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use coupon::ClaimId;
use landing::ids::made_at;
use runtime::Backoff;
use tokio::sync::Notify;
use topic::{LaneMessage, PaymentMessage};

use crate::payment_wait::{PaymentWait, TopicReach, Verdict};

/// Most payments of one partition that wait, in about half a megabyte: as many as a faulty shop sends within a minute.
/// While so many wait, the partition stops.
const WAITING_MAX: usize = 1024;

/// First and longest pause before a payment is tried again. The longest is short compared with a hold.
pub(crate) const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The messages of this process that have no end yet.
#[derive(Default)]
pub(crate) struct Early {
    lanes: Mutex<BTreeMap<i32, Lane>>,
    /// Notified when a payment begins to wait.
    came: Notify,
    /// Notified when one has ended.
    went: Notify,
}

/// One partition.
#[derive(Default)]
struct Lane {
    /// By offset; `None` for a message that is being processed.
    unended: BTreeMap<i64, Option<EarlyPayment>>,
    /// Offset behind the last message that was taken over.
    end: i64,
}

struct EarlyPayment {
    message: Arc<LaneMessage<PaymentMessage>>,
    claim: ClaimId,
    patience: PaymentWait,
    backoff: Backoff,
    due: Instant,
}

/// A payment that is to be tried again.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    pub(crate) partition: i32,
    pub(crate) claim: ClaimId,
    pub(crate) message: Arc<LaneMessage<PaymentMessage>>,
}

impl Early {
    /// Takes over the messages of a batch.
    pub(crate) fn begin(&self, partition: i32, messages: &[LaneMessage<PaymentMessage>]) {
        let (Some(first), Some(last)) = (messages.first(), messages.last()) else { return };
        let mut lanes = self.lock();
        let lane = lanes.entry(partition).or_default();
        if first.offset < lane.end {
            // The partition was lost and came back: what has no end comes again.
            *lane = Lane::default();
        }
        lane.unended.extend(messages.iter().map(|message| (message.offset, None)));
        lane.end = last.offset + 1;
    }

    /// Records that a message has its end. Returns the offset before which all have theirs, if the partition is held.
    pub(crate) fn end(&self, partition: i32, offset: i64) -> Option<i64> {
        let mut lanes = self.lock();
        let lane = lanes.get_mut(&partition)?;
        lane.unended.remove(&offset)?;
        let next = lane.unended.keys().next().copied().unwrap_or(lane.end);
        drop(lanes);
        self.went.notify_waiters();
        Some(next)
    }

    /// Drops the messages of all other partitions, whose next owners take them.
    pub(crate) fn keep(&self, partitions: &[i32]) {
        self.lock().retain(|partition, _| partitions.contains(partition));
        self.went.notify_waiters();
    }

    /// Returns the claims of the payments that wait in a partition. Later payments for them wait too, so that the
    /// payments of a claim stay in order.
    pub(crate) fn claims(&self, partition: i32) -> HashSet<ClaimId> {
        let lanes = self.lock();
        lanes.get(&partition).into_iter().flat_map(Lane::waiting).map(|one| one.claim).collect()
    }

    /// Waits until another payment of the partition may wait.
    pub(crate) async fn room(&self, partition: i32) {
        loop {
            // Created before the check, so that a payment that ends in between wakes it.
            let went = self.went.notified();
            let waiting = self.lock().get(&partition).map_or(0, |lane| lane.waiting().count());
            if waiting < WAITING_MAX {
                return;
            }
            went.await;
        }
    }

    /// Lets a payment wait for its claim.
    pub(crate) fn wait(
        &self,
        partition: i32,
        message: LaneMessage<PaymentMessage>,
        claim: ClaimId,
        patience: PaymentWait,
    ) {
        let mut backoff = Backoff::new(AGAIN.0, AGAIN.1);
        let due = Instant::now() + backoff.next_wait();
        let mut lanes = self.lock();
        let lane = lanes.get_mut(&partition);
        if let Some(place) = lane.and_then(|lane| lane.unended.get_mut(&message.offset)) {
            let message = Arc::new(message);
            *place = Some(EarlyPayment { message, claim, patience, backoff, due });
        }
        drop(lanes);
        self.came.notify_one();
    }

    /// Waits until a payment waits.
    pub(crate) async fn any(&self) {
        loop {
            let came = self.came.notified();
            if self.lock().values().any(|lane| lane.waiting().next().is_some()) {
                return;
            }
            came.await;
        }
    }

    /// Returns the payments that are due at `now`, and all others for their claims, in the order of each partition.
    pub(crate) fn due(&self, now: Instant) -> Vec<Due> {
        let mut due = Vec::new();
        for (partition, lane) in &*self.lock() {
            let claims: HashSet<ClaimId> =
                lane.waiting().filter(|one| one.due <= now).map(|one| one.claim).collect();
            let of_claims = lane.waiting().filter(|one| claims.contains(&one.claim));
            due.extend(of_claims.map(|one| Due {
                partition: *partition,
                claim: one.claim,
                message: Arc::clone(&one.message),
            }));
        }
        due
    }

    /// Postpones a payment. `was_away`: MySQL gave no answer.
    pub(crate) fn postpone(&self, one: &Due, was_away: bool) {
        self.change(one, |payment| {
            payment.due = Instant::now() + payment.backoff.next_wait();
            if was_away {
                payment.patience.begin_again();
            }
        });
    }

    /// Returns whether one of these payments needs a [`TopicReach`] for its verdict.
    pub(crate) fn want_reach(&self, payments: &[Due], now: DateTime<Utc>) -> bool {
        let wants = |payment: &mut EarlyPayment| payment.patience.wants_reach(now);
        payments.iter().any(|one| self.change(one, wants).unwrap_or(false))
    }

    /// Returns the verdict on a payment after a lookup that found no claim, and postpones the payment. For one that is
    /// no longer held: [`Verdict::LookAgain`].
    pub(crate) fn after_look(
        &self,
        one: &Due,
        now: DateTime<Utc>,
        reach: Option<&TopicReach>,
    ) -> Verdict {
        let admitted = made_at(one.claim.0);
        let verdict = self.change(one, |payment| {
            payment.due = Instant::now() + payment.backoff.next_wait();
            payment.patience.after_look(now, admitted, reach)
        });
        verdict.unwrap_or(Verdict::LookAgain)
    }

    fn change<T>(&self, one: &Due, change: impl FnOnce(&mut EarlyPayment) -> T) -> Option<T> {
        let mut lanes = self.lock();
        let lane = lanes.get_mut(&one.partition)?;
        lane.unended.get_mut(&one.message.offset)?.as_mut().map(change)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    fn waiting(&self) -> impl Iterator<Item = &EarlyPayment> {
        self.unended.values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use coupon::MerchantId;
    use futures::FutureExt as _;

    use super::*;

    const PARTITION: i32 = 3;

    fn messages(offsets: std::ops::Range<i64>) -> Vec<LaneMessage<PaymentMessage>> {
        let body = |offset: i64| PaymentMessage {
            claim_id: ClaimId(offset % 2),
            merchant_id: MerchantId(1),
            payment_ref: offset.to_string(),
            coupons: None,
        };
        let at = DateTime::UNIX_EPOCH;
        let message = |offset| LaneMessage { offset, at, key: Vec::new(), body: Ok(body(offset)) };
        offsets.map(message).collect()
    }

    /// Takes over messages and lets all wait, for two claims in turn.
    fn waiting(offsets: std::ops::Range<i64>) -> Early {
        let early = Early::default();
        early.begin(PARTITION, &messages(offsets.clone()));
        for message in messages(offsets) {
            let claim = ClaimId(message.offset % 2);
            early.wait(PARTITION, message, claim, PaymentWait::new());
        }
        early
    }

    fn offsets(due: &[Due]) -> Vec<i64> {
        due.iter().map(|one| one.message.offset).collect()
    }

    #[test]
    fn what_ends_behind_a_payment_that_waits_is_stored_with_it() {
        let early = waiting(5..6);
        early.begin(PARTITION, &messages(6..9));
        assert_eq!([6, 8].map(|offset| early.end(PARTITION, offset)), [Some(5); 2]);
        assert_eq!(early.end(PARTITION, 5), Some(7));
        assert_eq!(early.end(PARTITION, 5), None, "it has ended");
        assert_eq!(early.end(PARTITION, 7), Some(9));
    }

    #[test]
    fn a_payment_that_is_due_brings_all_others_for_its_claim_in_order() {
        let early = waiting(0..6);
        let later = Instant::now() + AGAIN.1;
        let all = early.due(later);
        assert_eq!(offsets(&all), [0, 1, 2, 3, 4, 5]);
        for one in &all[..5] {
            // Far beyond the time that is asked for.
            (0..8).for_each(|_| early.postpone(one, false));
        }
        assert_eq!(offsets(&early.due(Instant::now() + AGAIN.0)), [1, 3, 5]);
        assert!(early.due(Instant::now() - AGAIN.1).is_empty());
        assert_eq!(early.claims(PARTITION), [0, 1].map(ClaimId).into());
    }

    #[test]
    fn a_partition_has_room_for_so_many_and_again_when_one_has_ended() {
        let early = waiting(0..1024);
        assert!(early.room(PARTITION + 1).now_or_never().is_some());
        let mut room = std::pin::pin!(early.room(PARTITION));
        assert!(room.as_mut().now_or_never().is_none());
        early.end(PARTITION, 700);
        assert!(room.now_or_never().is_some());
    }

    #[test]
    fn a_partition_that_was_lost_begins_anew() {
        let early = waiting(5..8);
        early.begin(PARTITION, &messages(6..8));
        assert!(early.due(Instant::now() + AGAIN.1).is_empty());
        assert_eq!(early.end(PARTITION, 6), Some(7));
        early.keep(&[PARTITION + 1]);
        assert_eq!(early.end(PARTITION, 7), None, "another member's");
    }
}

//! Takes payments from their topic: confirms the held coupons that they pay for.
//!
//! The guarantee: an offset is stored only after each payment before it has its end, which is in MySQL or a dead letter.
//! So each payment is taken at least once, and the payments for one claim in a partition in order. A confirmation is
//! idempotent by its reference, so doubled, shuffled and late messages change no end.
//!
//! Plain payments of a batch share a transaction, as those of the api do (docs/decisions/0063). Every other payment has
//! a transaction of its own, in the order of the partition, which finds out what is wrong with it.
//!
//! A payment without a definite answer is tried again after a pause. If its claim may still land (`patience.rs`), it
//! waits beside its partition (`early.rs`), and only later payments for the same claim wait for it. If MySQL is away, or
//! the hold is over by our own clock only, those behind it in its partition wait too, except for plain ones of its batch.

use std::{
    collections::HashSet,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use coupon::ClaimId;
use futures::{StreamExt as _, stream::FuturesUnordered};
use metrics::{counter, histogram};
use mysql_store::connect;
use runtime::{Backoff, Part};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use topic::{ConsumerOptions, LaneBatch, LaneMessage, PaymentMessage, PaymentsReader};
use tracing::debug;

use crate::{
    confirming::{End, NO_SUCH_CLAIM, Shop, Tried, plain, unreadable},
    early::{AGAIN, Due, Early},
    leave_group::GroupLeave,
    metrics::{PAYMENT_DELAY, PAYMENTS},
    payment_wait::{self, PaymentWait, TopicReach, Verdict},
    work::LAST_BATCH_MAX,
};

/// Transactions at once, each over a connection of its own: they share flushes, and leave MySQL room for landings.
pub(crate) const AT_ONCE: usize = 8;

/// Messages of a partition taken over at once: most payments of one transaction. It locks their coupons for some
/// milliseconds.
const BATCH_MAX: usize = 64;

/// Interval between checks of the payments that wait. Those that are due share one statement.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Age up to which the brokers' answer serves payments that wait. A verdict needs two answers, seconds apart.
const REACH_EVERY: Duration = Duration::from_secs(1);

/// The loop over the payments of this process.
struct Payments<'a> {
    shop: &'a Shop<'a>,
    reader: &'a PaymentsReader,
    stop: &'a CancellationToken,
    /// [`AT_ONCE`].
    turns: Semaphore,
    early: Early,
}

/// What becomes of a message in the order of its partition.
enum Next {
    Ends(End),
    /// It waits for its claim.
    Waits(ClaimId, PaymentWait),
    /// The process is to stop.
    Stops,
}

/// What the brokers said last, and when they were asked.
#[derive(Default)]
struct LastReach {
    asked: Option<Instant>,
    reach: Option<TopicReach>,
}

impl Shop<'_> {
    /// Takes payments until `stop`, then commits the stored offsets.
    ///
    /// # Errors
    /// The topic is missing, or consuming fails for good.
    pub(crate) async fn run(&self, part: &Part, stop: &CancellationToken) -> anyhow::Result<()> {
        let brokers = &self.config.kafka_brokers;
        let options = ConsumerOptions::default();
        let reader = PaymentsReader::join(brokers, self.names, options).await?;
        let turns = Semaphore::new(AT_ONCE);
        let early = Early::default();
        let payments = Payments { shop: self, reader: &reader, stop, turns, early };
        let (has_left, leaving) = watch::channel(false);
        let away = GroupLeave { reader: &reader, pool: self.pool, has_left };
        let beside = async {
            tokio::join!(away.run(), crate::show_partitions(&reader, leaving, part));
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = beside => {}
            taken = payments.run() => taken?,
        }
        reader.close().await.context("the last offsets of payments were not committed")
    }
}

impl Payments<'_> {
    /// Takes payments until `stop`. Each partition has one batch at a time, so a partition that waits delays no other.
    async fn run(&self) -> anyhow::Result<()> {
        let mut in_hand = FuturesUnordered::new();
        {
            let mut looking = pin!(self.look_again());
            loop {
                tokio::select! {
                    biased;
                    () = self.stop.cancelled() => break,
                    looked = &mut looking => return looked,
                    Some(taken) = in_hand.next() => taken?,
                    batch = self.reader.next_batch(BATCH_MAX) => {
                        in_hand.push(self.take(batch.context("consuming payments failed")?));
                    }
                }
            }
        }
        let rest = async {
            while let Some(taken) = in_hand.next().await {
                taken?;
            }
            Ok(())
        };
        // The partition's next owner takes the rest.
        tokio::time::timeout(LAST_BATCH_MAX, rest).await.unwrap_or(Ok(()))
    }

    async fn take(&self, batch: LaneBatch<PaymentMessage>) -> anyhow::Result<()> {
        let LaneBatch { partition, messages } = batch;
        self.early.begin(partition, &messages);
        let confirmed = self.together(partition, &messages).await;
        for message in messages {
            let next = if confirmed.contains(&message.offset) {
                Next::Ends(End { outcome: "confirmed", refused: None })
            } else {
                self.next_of(partition, &message).await
            };
            match next {
                Next::Ends(end) => self.end(partition, &message, end).await?,
                Next::Waits(claim, patience) => {
                    let room = self.stop.run_until_cancelled(self.early.room(partition));
                    if room.await.is_none() {
                        return Ok(());
                    }
                    self.early.wait(partition, message, claim, patience);
                }
                Next::Stops => return Ok(()),
            }
        }
        self.reader.pass(partition);
        Ok(())
    }

    /// Counts a payment that has its end, puts it aside if it is refused, and stores how far its partition has come.
    async fn end(
        &self,
        partition: i32,
        message: &LaneMessage<PaymentMessage>,
        end: End,
    ) -> anyhow::Result<()> {
        counter!(PAYMENTS.name, "outcome" => end.outcome).increment(1);
        let delay = crate::delay(self.shop.clock.now(), message.at);
        histogram!(PAYMENT_DELAY.name).record(delay.as_secs_f64());
        if let Some(reason) = end.refused {
            self.shop.put_aside(partition, message, reason).await;
        }
        self.shop.config.fail_points.reach("payments.before_offset").await?;
        if let Some(next) = self.early.end(partition, message.offset) {
            self.reader.done(partition, next);
        }
        Ok(())
    }

    /// Confirms the payments of a batch that are plain cases, and returns their offsets. Nothing is known about the
    /// others.
    async fn together(
        &self,
        partition: i32,
        messages: &[LaneMessage<PaymentMessage>],
    ) -> HashSet<i64> {
        let mut confirmed = HashSet::new();
        for (merchant, payments) in plain(messages, &self.early.claims(partition)) {
            // The semaphore is never closed.
            let _turn = self.turns.acquire().await;
            match connect::within(self.shop.confirm_all(merchant, &payments)).await {
                Ok(offsets) => confirmed.extend(offsets),
                Err(error) => debug!(error = runtime::report(&error), "confirmed one by one"),
            }
        }
        confirmed
    }

    /// Tries a payment until its outcome is certain.
    async fn next_of(&self, partition: i32, message: &LaneMessage<PaymentMessage>) -> Next {
        let payment = match &message.body {
            Ok(payment) => payment,
            Err(payload) => return Next::Ends(unreadable(payload)),
        };
        let claim = payment.claim_id;
        let mut patience = PaymentWait::new();
        let mut backoff = Backoff::new(AGAIN.0, AGAIN.1);
        while !self.stop.is_cancelled() {
            if self.early.claims(partition).contains(&claim) {
                return Next::Waits(claim, patience);
            }
            match self.try_once(payment).await {
                Tried::Ended(end) => return Next::Ends(end),
                Tried::NoClaim if self.shop.reach("payments.no_claim").await.is_ok() => {
                    let admitted = landing::ids::made_at(claim.0);
                    patience.after_look(self.shop.clock.now(), admitted, None);
                    return Next::Waits(claim, patience);
                }
                Tried::NoClaim | Tried::Unsure { .. } => {}
            }
            if self.stop.run_until_cancelled(backoff.wait()).await.is_none() {
                break;
            }
        }
        Next::Stops
    }

    async fn try_once(&self, payment: &PaymentMessage) -> Tried {
        // The semaphore is never closed.
        let _turn = self.turns.acquire().await;
        self.shop.try_once(payment).await
    }

    /// Keeps checking the payments that wait for their claims. Returns only on an error.
    async fn look_again(&self) -> anyhow::Result<()> {
        let owned = self.reader.rebalances();
        let mut last = LastReach::default();
        loop {
            self.early.any().await;
            tokio::time::sleep(LOOK_EVERY).await;
            self.early.keep(&owned.borrow().of(self.reader.topic()));
            let due = self.early.due(Instant::now());
            if !due.is_empty() {
                self.look(due, &mut last).await?;
            }
        }
    }

    /// Checks the payments that are due, and tries those whose claims MySQL knows by now, in order.
    async fn look(&self, due: Vec<Due>, last: &mut LastReach) -> anyhow::Result<()> {
        let claims: HashSet<ClaimId> = due.iter().map(|one| one.claim).collect();
        let known = {
            // The semaphore is never closed.
            let _turn = self.turns.acquire().await;
            self.shop.known(&Vec::from_iter(claims)).await
        };
        let known = match known {
            Ok(known) => known,
            Err(error) => {
                runtime::seldom!("payments are not confirmed yet", runtime::report(&error));
                due.iter().for_each(|one| self.early.postpone(one, true));
                return Ok(());
            }
        };
        let mut missing = Vec::new();
        let mut stopped = HashSet::new();
        for one in due {
            let Ok(payment) = &one.message.body else { continue };
            if !known.contains(&one.claim) {
                missing.push(one);
            } else if stopped.contains(&(one.partition, one.claim)) {
                // An earlier payment for the claim has no end yet.
                self.early.postpone(&one, false);
            } else {
                match self.try_once(payment).await {
                    Tried::Ended(end) => {
                        self.end(one.partition, &one.message, end).await?;
                        continue;
                    }
                    Tried::Unsure { was_away } => self.early.postpone(&one, was_away),
                    Tried::NoClaim => missing.push(one.clone()),
                }
                stopped.insert((one.partition, one.claim));
            }
        }
        self.end_without_claims(missing, last).await
    }

    /// Ends the payments that have waited long enough for a claim that MySQL does not know.
    async fn end_without_claims(
        &self,
        missing: Vec<Due>,
        last: &mut LastReach,
    ) -> anyhow::Result<()> {
        if self.early.want_reach(&missing, self.shop.clock.now()) {
            last.renew(self.shop).await;
        }
        for one in missing {
            if self.shop.reach("payments.no_claim").await.is_err() {
                self.early.postpone(&one, false);
                continue;
            }
            let now = self.shop.clock.now();
            let reason = match self.early.after_look(&one, now, last.reach.as_ref()) {
                Verdict::LookAgain => continue,
                Verdict::NoSuchClaim => NO_SUCH_CLAIM.to_owned(),
                Verdict::NotLanded => {
                    let waited = payment_wait::LONGEST.num_seconds();
                    format!("the claim had not landed {waited} s later: it may wait in the queue")
                }
            };
            let end = End { outcome: "not_found", refused: Some(reason) };
            self.end(one.partition, &one.message, end).await?;
        }
        Ok(())
    }
}

impl LastReach {
    /// Asks the brokers, unless they were asked a moment ago.
    async fn renew(&mut self, shop: &Shop<'_>) {
        if self.asked.is_some_and(|asked| asked.elapsed() < REACH_EVERY) {
            return;
        }
        self.reach = match TopicReach::ask(shop.offsets).await {
            Ok(reach) => Some(reach),
            Err(error) => {
                let error = runtime::report(&error);
                runtime::seldom!("how far queued claims have landed is not known", error);
                None
            }
        };
        self.asked = Some(Instant::now());
    }
}

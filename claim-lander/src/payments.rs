//! Takes payments from their topic: confirms the held coupons that they pay for.
//!
//! The guarantee: an offset is stored only after the payment has its end, which is in MySQL or a dead letter. So each
//! payment is taken at least once, and the payments of one partition in order. A confirmation is idempotent by its
//! reference, so doubled, shuffled and late messages change no end.
//!
//! Plain payments of a batch share a transaction, as those of the api do (docs/decisions/0063). Every other payment has
//! a transaction of its own, in the order of the partition, which finds out what is wrong with it.
//!
//! A payment without a definite answer is tried again after a pause: MySQL is away, the hold is over by our own clock
//! only, or the claim may still land (`patience.rs`). Only the payments behind it in its partition wait for it, except
//! for plain ones of its batch.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use anyhow::Context as _;
use coupon::{ClaimId, CouponId, MerchantId};
use futures::{StreamExt as _, stream::FuturesUnordered};
use landing::ids::made_at;
use metrics::{counter, histogram};
use mysql_store::{
    MySqlPool, StoreError,
    confirmation::{self, Confirmation, Payment},
    confirmation_batch::{self, RequestedPayment},
    connect,
    look_up::{self, ClaimFate},
};
use runtime::{Backoff, Clock, Part};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use topic::{
    ConsumerOptions, LaneBatch, LaneMessage, PaymentMessage, PaymentsReader, Producer,
    QueueOffsets, TopicNames, decode_payment,
};
use tracing::{debug, warn};

use crate::{
    Config,
    away::Away,
    dead_letter::DeadLetter,
    metrics::{PAYMENT_DELAY, PAYMENTS},
    patience::{self, Patience, Verdict},
    work::LAST_BATCH_MAX,
};

/// Transactions at once, each over a connection of its own: they share flushes, and leave MySQL room for landings.
pub(crate) const AT_ONCE: usize = 8;

/// Messages of a partition taken over at once: most payments of one transaction. It locks their coupons for some
/// milliseconds.
const BATCH_MAX: usize = 64;

/// First and longest pause before a payment is tried again. The longest is short compared with a hold.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Why a payment is a dead letter if its claim is unknown, or its coupons are not the claim's.
const NO_SUCH_CLAIM: &str = "the merchant has no such claim with these coupons";

/// The configuration and connections with which payments are taken.
pub(crate) struct Shop<'a> {
    /// Its fail points are `payments.before_commit` and `payments.after_commit`, once per transaction,
    /// `payments.before_offset`, once per payment, and `payments.no_claim` after each look that found no claim.
    pub(crate) config: &'a Config,
    pub(crate) clock: &'a Clock,
    pub(crate) names: &'a TopicNames,
    pub(crate) pool: &'a MySqlPool,
    pub(crate) producer: &'a Producer,
    /// Of the claims' topic.
    pub(crate) offsets: &'a QueueOffsets,
}

/// The loop over the payments of this process.
struct Payments<'a> {
    shop: &'a Shop<'a>,
    reader: &'a PaymentsReader,
    stop: &'a CancellationToken,
    /// [`AT_ONCE`].
    turns: Semaphore,
}

/// How a payment ended: the label of the counter, and why it is a dead letter.
struct End {
    outcome: &'static str,
    refused: Option<String>,
}

impl Shop<'_> {
    /// Takes payments until `stop`, then commits the stored offsets.
    ///
    /// # Errors
    /// The topic is missing, or consuming fails for good.
    pub(crate) async fn run(&self, part: &Part, stop: &CancellationToken) -> anyhow::Result<()> {
        let (brokers, options) = (&self.config.kafka_brokers, ConsumerOptions::default());
        let reader = PaymentsReader::join(brokers, self.names, options).await?;
        let payments =
            Payments { shop: self, reader: &reader, stop, turns: Semaphore::new(AT_ONCE) };
        let (has_left, leaving) = watch::channel(false);
        let away = Away { reader: &reader, pool: self.pool, has_left };
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
    /// Takes payments until `stop`. Each partition has one batch in hand, so a partition that waits delays no other.
    async fn run(&self) -> anyhow::Result<()> {
        let mut in_hand = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                Some(taken) = in_hand.next() => taken?,
                batch = self.reader.next_batch(BATCH_MAX) => {
                    in_hand.push(self.take(batch.context("consuming payments failed")?));
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
        let confirmed = self.together(&batch.messages).await;
        let mut patience = Patience::new(self.shop.offsets);
        for message in batch.messages {
            let (offset, at) = (message.offset, message.at);
            let end = if confirmed.contains(&offset) {
                Some(End { outcome: "confirmed", refused: None })
            } else {
                self.end_of(&message, &mut patience).await
            };
            let Some(end) = end else { return Ok(()) };
            counter!(PAYMENTS.name, "outcome" => end.outcome).increment(1);
            let delay = (self.shop.clock.now() - at).to_std().unwrap_or_default();
            histogram!(PAYMENT_DELAY.name).record(delay.as_secs_f64());
            if let Some(reason) = end.refused {
                self.put_aside(batch.partition, message, reason).await;
            }
            self.shop.config.fail_points.reach("payments.before_offset").await?;
            self.reader.done(batch.partition, offset + 1);
        }
        Ok(())
    }

    /// Confirms the payments of a batch that are plain cases, and returns their offsets. Nothing is known of the
    /// others.
    async fn together(&self, messages: &[LaneMessage<PaymentMessage>]) -> HashSet<i64> {
        let mut confirmed = HashSet::new();
        for (merchant, payments) in plain(messages) {
            // The semaphore is never closed.
            let _turn = self.turns.acquire().await;
            match connect::within(self.confirm_all(merchant, &payments)).await {
                Ok(offsets) => confirmed.extend(offsets),
                Err(error) => debug!(error = runtime::report(&error), "confirmed one by one"),
            }
        }
        confirmed
    }

    /// Confirms the payments of a merchant that are plain cases, in one transaction.
    async fn confirm_all(
        &self,
        merchant: MerchantId,
        payments: &[(i64, &PaymentMessage)],
    ) -> Result<Vec<i64>, StoreError> {
        let asked: Vec<RequestedPayment<'_>> =
            payments.iter().map(|(_, payment)| asked(payment)).collect();
        let now = self.shop.clock.now();
        let mut transaction = connect::begin(self.shop.pool).await?;
        let confirmed =
            confirmation_batch::confirm_all(&mut transaction, merchant, &asked, now).await?;
        let confirmed = confirmed.unwrap_or_default();
        if !confirmed.is_empty() {
            self.reach("payments.before_commit").await?;
            connect::commit(transaction).await?;
            self.reach("payments.after_commit").await?;
        }
        Ok(confirmed.into_iter().map(|(at, _)| payments[at].0).collect())
    }

    /// Tries a payment until it has an end; `None` if the process is to stop before.
    async fn end_of(
        &self,
        message: &LaneMessage<PaymentMessage>,
        patience: &mut Patience<'_>,
    ) -> Option<End> {
        let payment = match &message.body {
            Ok(payment) => payment,
            Err(payload) => {
                let why = decode_payment(payload).err().map(|error| runtime::report(&error));
                let refused = Some(why.unwrap_or_default());
                return Some(End { outcome: "unreadable", refused });
            }
        };
        let mut backoff = Backoff::new(AGAIN.0, AGAIN.1);
        while !self.stop.is_cancelled() {
            match self.confirm(payment).await {
                Ok(Some(confirmation)) => match end_of(&confirmation) {
                    Some(end) => return Some(end),
                    None => runtime::seldom!("a payment has no definite answer", "clocks differ"),
                },
                Ok(None) => {
                    if let Some(end) = self.end_without_claim(payment.claim_id, patience).await {
                        return Some(end);
                    }
                }
                Err(error) if error.is_unreadable() || error.is_of_row() => {
                    let refused = Some(runtime::report(&error));
                    return Some(End { outcome: "failed", refused });
                }
                Err(error) => {
                    patience.begin_again();
                    runtime::seldom!("payments are not confirmed yet", runtime::report(&error));
                }
            }
            self.stop.run_until_cancelled(backoff.wait()).await?;
        }
        None
    }

    /// The end of a payment whose claim MySQL does not know, or `None` if the claim may still land.
    async fn end_without_claim(&self, claim: ClaimId, patience: &mut Patience<'_>) -> Option<End> {
        self.reach("payments.no_claim").await.ok()?;
        let admitted = made_at(claim.0);
        let reason = match patience.after_look(self.shop.clock.now(), admitted).await {
            Verdict::LookAgain => return None,
            Verdict::NoSuchClaim => NO_SUCH_CLAIM.to_owned(),
            Verdict::NotLanded => {
                let waited = patience::LONGEST.num_seconds();
                format!("the claim had not landed {waited} s later: it may wait in the queue")
            }
        };
        Some(End { outcome: "not_found", refused: Some(reason) })
    }

    /// Confirms the coupons that the payment names. Returns `None` if MySQL does not know its claim.
    async fn confirm(&self, payment: &PaymentMessage) -> Result<Option<Confirmation>, StoreError> {
        // The semaphore is never closed.
        let _turn = self.turns.acquire().await;
        let once = || connect::within(self.confirm_once(payment));
        connect::retried(once, StoreError::is_conflict).await
    }

    async fn confirm_once(
        &self,
        payment: &PaymentMessage,
    ) -> Result<Option<Confirmation>, StoreError> {
        let mut transaction = connect::begin(self.shop.pool).await?;
        let claim = match look_up::claim_fate(&mut transaction, payment.claim_id).await? {
            Some(ClaimFate::Landed(claim)) => claim,
            Some(ClaimFate::Rejected { .. }) => return Ok(Some(Confirmation::NotFound)),
            // A fence may stand in another template than the claim's, which then still lands.
            Some(ClaimFate::GivenUp { .. }) | None => return Ok(None),
        };
        let mut issued: Vec<CouponId> = claim.coupons.iter().map(|coupon| coupon.id).collect();
        issued.sort_unstable();
        let payment = Payment {
            merchant: payment.merchant_id,
            payment_ref: &payment.payment_ref,
            claim: claim.id,
            template: claim.template_id,
            coupons: payment.coupons.as_deref().unwrap_or(&issued),
            actor: confirmation::TOPIC,
            now: self.shop.clock.now(),
        };
        let confirmation = confirmation::confirm(&mut transaction, &payment).await?;
        if matches!(confirmation, Confirmation::Confirmed(_)) {
            self.reach("payments.before_commit").await?;
            connect::commit(transaction).await?;
            self.reach("payments.after_commit").await?;
        }
        Ok(Some(confirmation))
    }

    /// A fail point that fails as MySQL would.
    async fn reach(&self, point: &'static str) -> Result<(), StoreError> {
        self.shop.config.fail_points.reach(point).await.map_err(|_| StoreError::Silent)
    }

    async fn put_aside(
        &self,
        partition: i32,
        message: LaneMessage<PaymentMessage>,
        reason: String,
    ) {
        let LaneMessage { offset, key, body, .. } = message;
        let payload = body.map_or_else(|payload| payload, |payment| payment.encode());
        let (source, trace_parent) = (self.shop.names.payments(), None);
        let letter = DeadLetter { source, partition, offset, key, payload, trace_parent, reason };
        letter.put_aside(self.shop.producer, self.shop.names).await;
        warn!(
            topic.partition = partition,
            topic.offset = offset,
            reason = letter.reason,
            "a payment confirms nothing: put aside"
        );
    }
}

fn asked(payment: &PaymentMessage) -> RequestedPayment<'_> {
    let PaymentMessage { payment_ref, claim_id: claim, coupons, .. } = payment;
    RequestedPayment {
        payment_ref,
        claim: *claim,
        coupons: coupons.as_deref(),
        actor: confirmation::TOPIC,
    }
}

/// Returns the payments that can share transactions, with their offsets, by merchant and reference. If a claim or a
/// reference comes a second time, the second payment gets a transaction of its own, after the first.
fn plain(
    messages: &[LaneMessage<PaymentMessage>],
) -> BTreeMap<MerchantId, Vec<(i64, &PaymentMessage)>> {
    let (mut names, mut claims) = (HashSet::new(), HashSet::new());
    let mut plain: BTreeMap<MerchantId, Vec<_>> = BTreeMap::new();
    for LaneMessage { offset, body, .. } in messages {
        let Ok(payment) = body else { continue };
        let is_new_name = names.insert((payment.merchant_id, &payment.payment_ref));
        // Note both in any case, so that the payments of one claim stay in order.
        if claims.insert(payment.claim_id) && is_new_name {
            plain.entry(payment.merchant_id).or_default().push((*offset, payment));
        }
    }
    for payments in plain.values_mut() {
        payments.sort_unstable_by(|(_, a), (_, b)| a.payment_ref.cmp(&b.payment_ref));
    }
    plain
}

/// Returns the end of a payment, or `None` if nothing is certain yet.
fn end_of(confirmation: &Confirmation) -> Option<End> {
    let (outcome, refused) = match confirmation {
        Confirmation::Confirmed(_) => ("confirmed", None),
        Confirmation::Replayed { .. } => ("replayed", None),
        Confirmation::ReferenceTaken => {
            ("reference_taken", Some("the reference confirmed something else".to_owned()))
        }
        Confirmation::Lapsed { coupon, lapsed_at } => {
            ("lapsed", Some(format!("the hold of coupon {coupon} lapsed at {lapsed_at}")))
        }
        Confirmation::Ended { valid_until } => {
            ("ended", Some(format!("the coupons would have been valid until {valid_until}")))
        }
        Confirmation::NotHeld { coupon, status } => {
            ("not_held", Some(format!("coupon {coupon} is {}, and not held", status.word())))
        }
        Confirmation::NotFound => ("not_found", Some(NO_SUCH_CLAIM.to_owned())),
        Confirmation::Unsure => return None,
    };
    Some(End { outcome, refused })
}

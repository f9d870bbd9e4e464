//! Confirms one payment, or the plain ones of a batch, in MySQL, and determines how each ends.

use std::collections::{BTreeMap, HashSet};

use coupon::{ClaimId, CouponId, MerchantId};
use mysql_store::{
    MySqlPool, StoreError,
    confirmation::{self, Confirmation, Payment},
    confirmation_batch::{self, RequestedPayment},
    connect,
    late_payment::{self, Late},
    look_up::{self, ClaimFate},
};
use runtime::Clock;
use topic::{LaneMessage, PaymentMessage, Producer, QueueOffsets, TopicNames, decode_payment};
use tracing::warn;

use crate::{Config, dead_letter::DeadLetter};

/// Why a payment is a dead letter if its claim is unknown, or its coupons are not the claim's.
pub(crate) const NO_SUCH_CLAIM: &str = "the merchant has no such claim with these coupons";

/// The configuration and connections with which payments are taken.
pub(crate) struct Shop<'a> {
    /// Its fail points are `payments.before_commit` and `payments.after_commit`, once per transaction,
    /// `payments.before_offset`, once per payment, and `payments.no_claim` after each lookup that found no claim.
    pub(crate) config: &'a Config,
    pub(crate) clock: &'a Clock,
    pub(crate) names: &'a TopicNames,
    pub(crate) pool: &'a MySqlPool,
    pub(crate) producer: &'a Producer,
    /// Of the claims' topic.
    pub(crate) offsets: &'a QueueOffsets,
}

/// How a payment ended: the label of the counter, and why it is a dead letter.
pub(crate) struct End {
    pub(crate) outcome: &'static str,
    pub(crate) refused: Option<String>,
}

/// The outcome of one attempt at a payment.
pub(crate) enum Tried {
    Ended(End),
    /// MySQL does not know its claim.
    NoClaim,
    /// Nothing is certain yet. `was_away`: MySQL gave no answer.
    Unsure {
        was_away: bool,
    },
}

impl Shop<'_> {
    /// Confirms the coupons that the payment names, if it can.
    pub(crate) async fn try_once(&self, payment: &PaymentMessage) -> Tried {
        let once = || connect::within(self.confirm_once(payment));
        match connect::retried(once, StoreError::is_conflict).await {
            Ok(Some(confirmation)) => end_of(&confirmation).map_or_else(
                || {
                    runtime::seldom!("a payment has no definite answer", "clocks differ");
                    Tried::Unsure { was_away: false }
                },
                Tried::Ended,
            ),
            Ok(None) => Tried::NoClaim,
            Err(error) if error.is_unreadable() || error.is_of_row() => {
                let refused = Some(runtime::report(&error));
                Tried::Ended(End { outcome: "failed", refused })
            }
            Err(error) => {
                runtime::seldom!("payments are not confirmed yet", runtime::report(&error));
                Tried::Unsure { was_away: true }
            }
        }
    }

    /// Confirms the payments of a merchant that are plain cases, in one transaction.
    pub(crate) async fn confirm_all(
        &self,
        merchant: MerchantId,
        payments: &[(i64, &PaymentMessage)],
    ) -> Result<Vec<i64>, StoreError> {
        let asked: Vec<RequestedPayment<'_>> =
            payments.iter().map(|(_, payment)| asked(payment)).collect();
        let now = self.clock.now();
        let mut transaction = connect::begin(self.pool).await?;
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

    /// Returns `None` if MySQL does not know the payment's claim.
    async fn confirm_once(
        &self,
        payment: &PaymentMessage,
    ) -> Result<Option<Confirmation>, StoreError> {
        let mut transaction = connect::begin(self.pool).await?;
        let claim = match look_up::claim_fate(&mut transaction, payment.claim_id).await? {
            Some(ClaimFate::Landed(claim)) => claim,
            Some(ClaimFate::Rejected { .. } | ClaimFate::Lost { .. }) => {
                return Ok(Some(Confirmation::NotFound));
            }
            // A fence may be in another template than the claim's; the claim then still lands.
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
            now: self.clock.now(),
        };
        let confirmation = confirmation::confirm(&mut transaction, &payment).await?;
        let late = Late::of(payment, claim.user_id, &confirmation);
        if matches!(confirmation, Confirmation::Confirmed(_)) {
            self.reach("payments.before_commit").await?;
            connect::commit(transaction).await?;
            self.reach("payments.after_commit").await?;
        } else if let Some(late) = late.filter(|_| claim.held_until.is_some()) {
            // The shop is to refund it. Until that is recorded, the payment is tried again.
            drop(transaction);
            let mut connection = connect::acquire(self.pool).await?;
            late_payment::record(&mut connection, &late).await?;
        }
        Ok(Some(confirmation))
    }

    /// Returns those of these claims that have a row in MySQL.
    pub(crate) async fn known(&self, claims: &[ClaimId]) -> Result<HashSet<ClaimId>, StoreError> {
        connect::within(async {
            let mut connection = connect::acquire(self.pool).await?;
            look_up::with_row(&mut connection, claims).await
        })
        .await
    }

    /// A fail point that fails as MySQL would.
    pub(crate) async fn reach(&self, point: &'static str) -> Result<(), StoreError> {
        self.config.fail_points.reach(point).await.map_err(|_| StoreError::Silent)
    }

    pub(crate) async fn put_aside(
        &self,
        partition: i32,
        message: &LaneMessage<PaymentMessage>,
        reason: String,
    ) {
        let payload = match &message.body {
            Ok(payment) => payment.encode(),
            Err(payload) => payload.clone(),
        };
        let source = self.names.payments();
        let trace_parent = None;
        let offset = message.offset;
        let key = message.key.clone();
        let letter = DeadLetter { source, partition, offset, key, payload, trace_parent, reason };
        letter.put_aside(self.producer, self.names).await;
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
/// reference comes a second time, the second payment gets a transaction of its own, after the first. So do those for
/// the claims in `waiting`.
pub(crate) fn plain<'a>(
    messages: &'a [LaneMessage<PaymentMessage>],
    waiting: &HashSet<ClaimId>,
) -> BTreeMap<MerchantId, Vec<(i64, &'a PaymentMessage)>> {
    let mut names = HashSet::new();
    let mut claims = waiting.clone();
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

/// Returns the end of a payload that is no payment.
pub(crate) fn unreadable(payload: &[u8]) -> End {
    let why = decode_payment(payload).err().map(|error| runtime::report(&error));
    End { outcome: "unreadable", refused: Some(why.unwrap_or_default()) }
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

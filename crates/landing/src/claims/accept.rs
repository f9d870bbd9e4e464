//! A queued claim, from the gate to its 202. The template's `accept_after` decides what the 202 waits for.
//!
//! Each step may fail to find out how durably the claim is queued. Then the answer is 503 with a `Location`, since the
//! claim stays queued and may land.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use coupon::{AcceptAfter, Admission, Claim, ClaimId, Epoch, Numbers, QueuedClaim, Template};
use redis_gate::{GateError, Replicated, RequestState, Run, Verdict};
use runtime::Backoff;
use tokio::time::timeout;

use super::{
    Answer, Unavailable,
    walk::{Stop, Walk},
};
use crate::{metric, queue::QueuePosition};

/// Longest wait for the queue's acknowledgement, which takes milliseconds. After it the relay publishes the claim from
/// the outbox.
const PUBLISH_MAX: Duration = Duration::from_secs(5);

/// Interval between two attempts to publish claims of a template whose last publication failed. A recovered partition
/// is noticed at most this much later.
pub(super) const PUBLISH_AGAIN: Duration = Duration::from_millis(500);

/// Most calls of `published.lua` for one claim, and the waits in between. The script takes effect once.
const CONFIRM_TRIES: u32 = 3;
const CONFIRM_AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

/// A claim that the gate has queued.
pub(super) struct InQueue {
    /// The admission, perhaps another one with the same key.
    pub(super) id: ClaimId,
    pub(super) epoch: Epoch,
    pub(super) numbers: Numbers,
    /// When the gate admitted it.
    pub(super) at: DateTime<Utc>,
    /// The gate's stock after the admission, if known.
    pub(super) left_after: Option<i64>,
    /// Its entry in the outbox, if known.
    pub(super) entry: Option<String>,
    /// The run of the gate's Redis.
    pub(super) run: Run,
    /// Whether the key must be looked up in MySQL first.
    pub(super) look: bool,
    /// Whether enough replicas have it; absent if they were not asked.
    pub(super) copied: Option<bool>,
}

impl InQueue {
    /// The message. Api and relay publish the same bytes.
    fn message(&self, claim: &Claim, accept_after: AcceptAfter) -> QueuedClaim {
        let claim = Claim { id: self.id, claimed_at: self.at, ..claim.clone() };
        let admission = Admission { claim, epoch: self.epoch, numbers: self.numbers.clone() };
        let admitted_at = self.at;
        let left_after = self.left_after;
        QueuedClaim { admission, accept_after, admitted_at, left_after }
    }

    fn accepted(&self, position: Option<QueuePosition>) -> Answer {
        count("accepted");
        let id = self.id;
        let epoch = self.epoch;
        let accepted_at = self.at;
        Answer::Accepted { id, epoch, accepted_at, position }
    }

    fn unknown(&self) -> Answer {
        count("unknown");
        let id = self.id;
        let epoch = self.epoch;
        let accepted_at = self.at;
        Answer::Unavailable(Unavailable::Queue { id, epoch, accepted_at })
    }
}

impl Walk {
    /// Answers a claim that is queued. After a rejection the gate admits the same key again, and after a rebuild it
    /// also admits a key that has landed. In both cases the answer is the one in MySQL, not 202.
    pub(super) async fn accept(
        &self,
        template: &Template,
        claim: &Claim,
        queued: InQueue,
    ) -> Result<Answer, Stop> {
        self.points.reach("claims.after_queued").await?;
        if queued.look {
            match self.stored_answer(claim).await {
                Ok(None) => {}
                Ok(Some(stored)) => {
                    count("answered");
                    return Ok(stored);
                }
                Err(error) => {
                    let why = format!("claim {}: {}", claim.id, runtime::report(&error));
                    runtime::seldom!("keys of queued claims are not looked up", why);
                    return Ok(queued.unknown());
                }
            }
        }
        let message = queued.message(claim, template.accept_after);
        let fits = message.admission.has_numbers_of(template.per_user_limit);
        // Without MySQL nobody knows, and 202 is no answer to a doubt.
        if !fits && self.is_contradiction(&message.admission).await.unwrap_or(true) {
            self.gates.report_wrong(template.id, queued.epoch);
            return Ok(queued.unknown());
        }
        match template.accept_after {
            AcceptAfter::Gate => Ok(queued.accepted(None)),
            AcceptAfter::Replica => Ok(self.accept_copied(template, claim, queued).await),
            AcceptAfter::Topic => self.accept_published(template, claim, queued, &message).await,
        }
    }

    /// Answers 202 if enough replicas have the claim. If they were not asked, repeats the gate call and waits for them.
    /// The repeated call writes too, so that its WAIT covers what the first call wrote.
    async fn accept_copied(&self, template: &Template, claim: &Claim, queued: InQueue) -> Answer {
        let copied = match queued.copied {
            Some(copied) => Ok(copied),
            None => self.copy(template, claim, &queued).await,
        };
        match copied {
            Ok(true) => queued.accepted(None),
            Ok(false) => queued.unknown(),
            Err(error) => {
                let why = format!("claim {}: {}", claim.id, runtime::report(&error));
                runtime::seldom!("whether replicas have queued claims is unknown", why);
                queued.unknown()
            }
        }
    }

    async fn copy(
        &self,
        template: &Template,
        claim: &Claim,
        queued: &InQueue,
    ) -> Result<bool, GateError> {
        let gate = self.gates.gate();
        let queue_options = self.queue_options(template);
        let again =
            gate.claim_replicated(claim, queued.epoch, queued.at, queue_options, self.copies);
        // The success is held back as the first call said.
        let Replicated { verdict, confirmed, .. } = again.await?;
        Ok(match verdict {
            Verdict::Replay { id, state: RequestState::Queued, .. } => confirmed && id == queued.id,
            // The claim is in MySQL, so no replica needs it.
            Verdict::Replay { id, state: RequestState::Landed, .. } => id == queued.id,
            _ => false,
        })
    }

    /// Publishes the claim, then asks the gate whether it is still the one that queued the claim. If that gate was lost
    /// in between, its rebuild may have noted the partition's end before this message, so the claim may be too late.
    async fn accept_published(
        &self,
        template: &Template,
        claim: &Claim,
        queued: InQueue,
        message: &QueuedClaim,
    ) -> Result<Answer, Stop> {
        // After a failure one claim at a time finds out whether the partition is back. The relay publishes the others.
        if !self.unanswered.may_try(&template.id, Instant::now()) {
            return Ok(queued.unknown());
        }
        let Ok(_turn) = self.publishing.try_acquire() else { return Ok(queued.unknown()) };
        let why = match timeout(PUBLISH_MAX, self.gates.queue().publish(message)).await {
            Ok(Ok(position)) => {
                self.unanswered.succeeded(&template.id);
                self.points.reach("claims.after_publish").await?;
                return Ok(match self.confirm(template, claim, &queued).await {
                    Ok(true) => queued.accepted(Some(position)),
                    Ok(false) => queued.unknown(),
                    Err(error) => {
                        let why = format!("claim {}: {}", queued.id, runtime::report(&error));
                        runtime::seldom!("published claims are not confirmed by the gate", why);
                        queued.unknown()
                    }
                });
            }
            Ok(Err(error)) => runtime::report(&error),
            Err(_) => format!("no acknowledgement within {PUBLISH_MAX:?}"),
        };
        self.unanswered.failed(template.id, Instant::now());
        let why = format!("claim {}: {why}", queued.id);
        runtime::seldom!("claims are not published by the api; the relay will", why);
        Ok(queued.unknown())
    }

    /// Asks the gate whether it is open under the same epoch and run as when it queued the claim, and still holds it.
    async fn confirm(
        &self,
        template: &Template,
        claim: &Claim,
        queued: &InQueue,
    ) -> Result<bool, GateError> {
        let gate = self.gates.gate();
        let user = claim.user_id;
        let entry = queued.entry.as_deref();
        let mut backoff = Backoff::new(CONFIRM_AGAIN.0, CONFIRM_AGAIN.1);
        let mut tries = 1;
        loop {
            let epoch = queued.epoch;
            let run = &queued.run;
            match gate.published(template.id, epoch, run, user, queued.id, entry).await {
                Err(GateError::Unknown { .. }) if tries < CONFIRM_TRIES => tries += 1,
                confirmed => return confirmed,
            }
            backoff.wait().await;
        }
    }
}

fn count(outcome: &'static str) {
    metrics::counter!(metric::ACCEPTS.name, "outcome" => outcome).increment(1);
}

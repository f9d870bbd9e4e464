//! Takes one claim from the gate to its answer, also after a rollback and other faults: the tables of
//! `docs/failures.md`. A direct claim continues in `direct.rs`, a queued one in `accept.rs`.

use std::{
    io,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use coupon::{AcceptAfter, Claim, ClaimMode, Epoch, Template, TemplateId};
use mysql_store::{MySqlPool, StoreError};
use redis_gate::{GateError, QueueOptions, Refusal, Replicated, RequestState, Verdict};
use runtime::{Backoff, Breakers, FailPoints};
use tokio::sync::Semaphore;

use super::{
    Answer, Unavailable,
    accept::InQueue,
    direct::{Admitted, Next},
    label, spans,
    under_way::Decides,
    window::Window,
};
use crate::{
    gate::gates::Gates,
    lander::{Landers, settler::Settler},
    metric,
};

/// First and longest wait between two gate calls for one claim. Usually only one retry is needed.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Most admissions of one claim at the gate: one, and one more after the gate was rebuilt meanwhile.
const ADMISSIONS_MAX: u32 = 2;

/// Most newer epochs adopted within one claim; rebuilds do not follow each other faster.
const EPOCHS_MAX: u32 = 4;

/// Claims that may wait in a template's partition before mode spill queues further ones instead of landing them
/// directly. The landers of one partition land that many in a fifth of a second. Claims that wait should land before
/// new ones.
const SPILL_BACKLOG_MAX: u64 = 1_000;

/// Age up to which a claim may still be queued. A poll may find an older claim nowhere and fence it; if it were queued
/// after that, its 202 would be broken. Only an outage of MySQL makes a claim wait so long.
pub(super) const QUEUED_WITHIN: Duration = Duration::from_secs(60);

pub(super) struct Walk {
    pub(super) pool: MySqlPool,
    pub(super) gates: Gates,
    pub(super) landers: Landers,
    pub(super) settler: Settler,
    pub(super) clock: Box<dyn Fn() -> DateTime<Utc> + Send + Sync>,
    pub(super) points: FailPoints,
    /// How long to keep calling a gate that may have admitted the claim.
    pub(super) ask_max: Duration,
    /// Replicas of the gate that must have a claim with `accept_after` replica before its 202.
    pub(super) copies: u32,
    /// Permits to publish a claim.
    pub(super) publishing: Semaphore,
    /// Templates whose claims the queue does not take, because their partition has no leader or too few copies. Each
    /// attempt waits for seconds and keeps a permit meanwhile, and other templates need the permits.
    pub(super) unanswered: Breakers<TemplateId>,
}

/// Why a claim has no definite answer.
pub(super) enum Stop {
    Gate(GateError),
    Store(StoreError),
    Unavailable(Unavailable),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<GateError> for Stop {
    fn from(error: GateError) -> Self {
        Self::Gate(error)
    }
}

impl From<io::Error> for Stop {
    /// A failing fail point ends the walk, as a dying process would.
    fn from(_: io::Error) -> Self {
        Self::Unavailable(Unavailable::Stopping)
    }
}

/// The gate's answer.
struct GateAnswer {
    verdict: Verdict,
    /// The time that the call passed to it.
    at: DateTime<Utc>,
    /// Whether enough replicas have what the call wrote; absent if they were not asked.
    copied: Option<bool>,
    /// Until when an api may refuse this user from memory.
    refusing_until: Instant,
    /// Whether an earlier call for the claim under the same epoch had no answer, and so may have admitted it.
    may_be_admitted: bool,
}

/// What is said to the gate with a claim, beside the claim.
#[derive(Clone, Copy)]
struct Call {
    /// The gate's epoch as this process knows it.
    epoch: Epoch,
    /// Whether MySQL has no answer under the key.
    looked: bool,
}

/// The step after the gate's answer.
enum Step {
    Answer(Answer),
    /// Land it, then answer.
    Land(Admitted),
    /// Ask under the epoch learned meanwhile.
    AskAgain,
    /// MySQL has no answer under the key: ask once more.
    AskLooked,
}

impl Walk {
    pub(super) async fn run(&self, template: &Template, claim: Claim, decides: &Decides) -> Answer {
        match self.walk(template, &claim, decides).await {
            Ok(answer) => answer,
            Err(Stop::Gate(error)) => {
                let why = format!("claim {}: {}", claim.id, runtime::report(&error));
                runtime::seldom!("claims fail at the gate", why);
                Answer::Unavailable(Unavailable::Gate)
            }
            Err(Stop::Store(error)) => {
                let why = format!("claim {}: {}", claim.id, runtime::report(&error));
                runtime::seldom!("claims fail at MySQL", why);
                Answer::Unavailable(Unavailable::Store)
            }
            Err(Stop::Unavailable(why)) => Answer::Unavailable(why),
        }
    }

    async fn walk(
        &self,
        template: &Template,
        claim: &Claim,
        decides: &Decides,
    ) -> Result<Answer, Stop> {
        let moved;
        let template = match self.window(template, claim).await? {
            Window::Answered(answer) => return Ok(answer),
            Window::Inside => template,
            Window::Moved(current) => {
                moved = current;
                &*moved
            }
        };
        let mut admissions = 0;
        let mut refusing_until = None;
        // The epoch of the gate after whose answer MySQL was asked for the key. What an older gate queued has landed.
        let mut looked = None;
        for _ in 0..EPOCHS_MAX {
            let age = ((self.clock)() - claim.claimed_at).to_std().unwrap_or_default();
            // In every mode, since the gate may queue a claim that this process takes for a direct one.
            if age > QUEUED_WITHIN {
                break;
            }
            let epoch = self.gates.known(template.id);
            let call = Call { epoch, looked: looked == Some(epoch) };
            let asked = self.ask_gate(template, claim, call).await?;
            refusing_until = refusing_until.max(Some(asked.refusing_until));
            decides.note(claim, &asked.verdict);
            let admitted = match self.follow_verdict(template, claim, epoch, asked).await? {
                Step::Answer(answer) => return Ok(held_back(answer, refusing_until).await),
                Step::AskAgain => continue,
                Step::AskLooked => {
                    looked = Some(epoch);
                    continue;
                }
                Step::Land(admitted) => admitted,
            };
            admissions += 1;
            match self.land(template, claim, epoch, admitted, decides).await? {
                Next::Answer(answer) => return Ok(held_back(answer, refusing_until).await),
                Next::AdmitAgain if admissions < ADMISSIONS_MAX => {}
                Next::AdmitAgain => break,
            }
        }
        Ok(Answer::Unavailable(Unavailable::GateLoading))
    }

    /// One arm for each verdict.
    async fn follow_verdict(
        &self,
        template: &Template,
        claim: &Claim,
        epoch: Epoch,
        GateAnswer { verdict, at, copied, may_be_admitted, .. }: GateAnswer,
    ) -> Result<Step, Stop> {
        let answer = match verdict {
            Verdict::Admitted { numbers, left } => {
                return Ok(Step::Land(Admitted { numbers, at, left_after: Some(left) }));
            }
            Verdict::Queued { numbers, left, entry, look_in_mysql: look, run } => {
                let id = claim.id;
                let left_after = Some(left);
                let entry = Some(entry);
                let queued =
                    InQueue { id, epoch, numbers, at, left_after, entry, run, look, copied };
                Box::pin(self.accept(template, claim, queued)).await?
            }
            // The answer to an earlier call for this claim was lost.
            Verdict::Replay { id, state: RequestState::Pending, numbers, admitted_at, .. }
                if id == claim.id =>
            {
                let at = admitted_at.unwrap_or(at);
                return Ok(Step::Land(Admitted { numbers, at, left_after: None }));
            }
            Verdict::Replay {
                id,
                state: RequestState::Queued,
                numbers,
                look_in_mysql: look,
                admitted_at: Some(at),
                run,
            } => {
                let left_after = None;
                let entry = None;
                let queued =
                    InQueue { id, epoch, numbers, at, left_after, entry, run, look, copied };
                Box::pin(self.accept(template, claim, queued)).await?
            }
            Verdict::Replay { state, .. } => self.replay(claim, epoch, state).await?,
            Verdict::OutboxFull | Verdict::TooManyQueued => {
                Answer::Unavailable(Unavailable::Overloaded)
            }
            Verdict::LookFirst => {
                let Some(stored) = self.stored_answer(claim).await? else {
                    return Ok(Step::AskLooked);
                };
                stored
            }
            Verdict::KeyReused => Answer::KeyReused,
            Verdict::TooOld => {
                let stored = self.stored_answer(claim).await?;
                stored.unwrap_or(Answer::Unavailable(Unavailable::GivenUp))
            }
            // Compare with the epoch that was sent, not with the latest known one: the first claims of a rush all learn
            // the gate's epoch at the same time.
            Verdict::OtherEpoch(newer) if newer > epoch && newer.may_follow(epoch) => {
                self.gates.learn(template.id, newer);
                // Claims that the older gate queued landed before the newer gate opened. It would admit them again.
                let stored = if may_be_admitted { self.stored_answer(claim).await? } else { None };
                let Some(answer) = stored else { return Ok(Step::AskAgain) };
                answer
            }
            // The gate is behind the epoch that this process knows, so it was rewound; or it has an epoch that cannot be
            // one.
            Verdict::NotLoaded | Verdict::OtherEpoch(_) => {
                self.gates.ask_look(template.id);
                Answer::Unavailable(Unavailable::GateLoading)
            }
            Verdict::Refused { refusal: Refusal::Closed, .. } => self.closed_by_gate(claim).await?,
            Verdict::Refused { refusal: Refusal::SoldOut, look_in_mysql: false } => {
                self.gates.sold_out().refused_by_gate(template.id, epoch);
                Answer::Refused(Refusal::SoldOut)
            }
            Verdict::Refused { refusal, look_in_mysql } => {
                self.refused(claim, refusal, look_in_mysql).await?
            }
        };
        Ok(Step::Answer(answer))
    }

    /// Calls the gate until it answers. After a call without an answer the claim may be admitted, and repeating the
    /// call finds out. No other task continues the claim, so this one repeats the call for as long as the resolver
    /// leaves the admission alone.
    async fn ask_gate(
        &self,
        template: &Template,
        claim: &Claim,
        call: Call,
    ) -> Result<GateAnswer, GateError> {
        let mut span = spans::gate(claim);
        let mut unknown_since: Option<Instant> = None;
        let mut backoff = Backoff::new(ASK_AGAIN.0, ASK_AGAIN.1);
        loop {
            match self.call_gate(template, claim, call).await {
                Ok(mut asked) => {
                    asked.may_be_admitted = unknown_since.is_some();
                    let outcome = label::verdict(&asked.verdict);
                    span.set(spans::OUTCOME, outcome);
                    metrics::counter!(metric::GATE_VERDICTS.name, "outcome" => outcome)
                        .increment(1);
                    return Ok(asked);
                }
                Err(error) => {
                    let why = label::gate_error(&error);
                    metrics::counter!(metric::GATE_FAILURES.name, "why" => why).increment(1);
                    if matches!(error, GateError::Unknown { .. }) {
                        unknown_since.get_or_insert_with(Instant::now);
                    }
                    if error.is_of_keys() {
                        self.gates.ask_look(template.id);
                    }
                    // No call reached the gate, so nothing was admitted.
                    let Some(since) = unknown_since else { return Err(error) };
                    if since.elapsed() >= self.ask_max {
                        return Err(error);
                    }
                    backoff.wait().await;
                }
            }
        }
    }

    async fn call_gate(
        &self,
        template: &Template,
        claim: &Claim,
        Call { epoch, looked }: Call,
    ) -> Result<GateAnswer, GateError> {
        // Whole milliseconds, as the gate stores them and this process publishes them.
        let at = (self.clock)();
        let at = DateTime::from_timestamp_millis(at.timestamp_millis()).unwrap_or(at);
        let gate = self.gates.gate();
        let queue_options = QueueOptions { looked, ..self.queue_options(template) };
        let waits = template.claim_mode == ClaimMode::Queued
            && template.accept_after == AcceptAfter::Replica;
        if waits {
            let Replicated { verdict, confirmed, wait } =
                gate.claim_replicated(claim, epoch, at, queue_options, self.copies).await?;
            let refusing_until = Instant::now() + wait;
            let copied = Some(confirmed);
            return Ok(GateAnswer { verdict, at, copied, refusing_until, may_be_admitted: false });
        }
        let (verdict, wait) = gate.claim_to_answer(claim, epoch, at, queue_options).await?;
        let refusing_until = Instant::now() + wait;
        Ok(GateAnswer { verdict, at, copied: None, refusing_until, may_be_admitted: false })
    }

    /// Parameters sent to the gate with the claim. The gate decides by its own mode; `behind` counts only in mode
    /// spill.
    pub(super) fn queue_options(&self, template: &Template) -> QueueOptions {
        let behind = template.claim_mode == ClaimMode::Spill && self.is_behind(template);
        QueueOptions { behind, accept_after: template.accept_after, looked: false }
    }

    fn is_behind(&self, template: &Template) -> bool {
        let backlog = self.gates.queue().backlog(template.id);
        self.landers.is_behind(template.id)
            || backlog.is_some_and(|waiting| waiting > SPILL_BACKLOG_MAX)
    }

    /// Answers a claim whose key the gate remembers under another admission. Settling is asynchronous, so a pending
    /// admission counts as under way only after MySQL was read. Only a landed claim is answered with 201.
    async fn replay(
        &self,
        claim: &Claim,
        epoch: Epoch,
        state: RequestState,
    ) -> Result<Answer, Stop> {
        if let Some(answer) = self.stored_answer(claim).await? {
            return Ok(answer);
        }
        Ok(match state {
            RequestState::Pending => Answer::InProgress,
            // The gate has a landing that MySQL does not have, which only a lost commit can cause; or the request is
            // missing in the set of queued requests, which no script causes. A new epoch repairs both.
            RequestState::Landed | RequestState::Queued => {
                self.gates.report_wrong(claim.template_id, epoch);
                Answer::Unavailable(Unavailable::GateLoading)
            }
        })
    }

    /// A refusal is final only if the key has no answer: a winner who retries after a rebuild gets the coupon, not
    /// `SOLD_OUT`.
    pub(super) async fn refused(
        &self,
        claim: &Claim,
        refusal: Refusal,
        look: bool,
    ) -> Result<Answer, Stop> {
        let stored = if look { self.stored_answer(claim).await? } else { None };
        Ok(stored.unwrap_or(Answer::Refused(refusal)))
    }
}

/// Holds a success back until no api refuses its user from memory any more. The template was sold out a moment ago, and
/// another process may not have seen the change yet.
async fn held_back(answer: Answer, until: Option<Instant>) -> Answer {
    if matches!(answer, Answer::Landed { .. } | Answer::Accepted { .. })
        && let Some(until) = until.filter(|until| *until > Instant::now())
    {
        // Boxed because it is rare, like what follows a rollback.
        Box::pin(tokio::time::sleep_until(until.into())).await;
    }
    answer
}

//! Takes one claim from the gate to its answer; implements the two failure tables of `ARCHITECTURE.md`.

use std::{
    io,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use coupon::{Admission, Claim, Decision, Epoch, LandedClaim, Numbers, Template, TemplateState};
use mysql_store::{MySqlPool, StoreError, claim, connect, template};
use redis_gate::{GateError, Refusal, RequestState, Verdict};
use runtime::{Backoff, FailPoints};
use tracing::warn;

use super::{Answer, Unavailable, fate, label, spans, window::Window};
use crate::{
    gate::gates::Gates,
    lander::{Landers, batch::Outcome, settler::Settler},
    metric,
};

/// First and longest wait between two gate calls for one claim. Usually only one retry is needed.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Most admissions of one claim at the gate: one, and one more after the gate was rebuilt meanwhile.
const ADMISSIONS_MAX: u32 = 2;

/// Most newer epochs adopted within one claim; rebuilds do not follow each other faster.
const EPOCHS_MAX: u32 = 4;

pub(super) struct Walk {
    pub(super) pool: MySqlPool,
    pub(super) gates: Gates,
    pub(super) landers: Landers,
    pub(super) settler: Settler,
    pub(super) clock: Box<dyn Fn() -> DateTime<Utc> + Send + Sync>,
    pub(super) points: FailPoints,
    /// How long to keep calling a gate that may have admitted the claim.
    pub(super) ask_for: Duration,
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
    /// A fail point ends the walk as the end of the process would.
    fn from(_: io::Error) -> Self {
        Self::Unavailable(Unavailable::Stopping)
    }
}

/// The step after a landing's outcome.
enum Next {
    Answer(Answer),
    /// Pass the gate once more, with the same id.
    AdmitAgain,
}

impl Walk {
    pub(super) async fn run(&self, template: &Template, claim: Claim) -> Answer {
        match self.walk(template, &claim).await {
            Ok(answer) => answer,
            Err(Stop::Gate(error)) => {
                warn!(claim.id = %claim.id, error = %error, cause = ?error, "the gate failed");
                Answer::Unavailable(Unavailable::Gate)
            }
            Err(Stop::Store(error)) => {
                warn!(claim.id = %claim.id, error = %error, cause = ?error, "MySQL failed");
                Answer::Unavailable(Unavailable::Store)
            }
            Err(Stop::Unavailable(why)) => Answer::Unavailable(why),
        }
    }

    async fn walk(&self, template: &Template, claim: &Claim) -> Result<Answer, Stop> {
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
        for _ in 0..EPOCHS_MAX {
            let epoch = self.gates.known(template.id);
            let numbers = match self.ask_gate(claim, epoch).await? {
                Verdict::Admitted { numbers, .. } => numbers,
                Verdict::Replay { id, state, numbers } => {
                    if id == claim.id && state == RequestState::Pending {
                        // The answer to an earlier call for this very claim was lost.
                        numbers
                    } else {
                        return self.replay(claim, state).await;
                    }
                }
                Verdict::KeyReused => return Ok(Answer::KeyReused),
                Verdict::TooOld => {
                    let stored = self.stored_answer(claim).await?;
                    return Ok(stored.unwrap_or(Answer::Unavailable(Unavailable::GivenUp)));
                }
                Verdict::NotLoaded => {
                    self.gates.ask_look(template.id);
                    return Ok(Answer::Unavailable(Unavailable::GateLoading));
                }
                // Compare with the epoch that was sent, not with the latest known one: the first claims of a rush all
                // learn the gate's epoch at the same time.
                Verdict::OtherEpoch(newer) if newer > epoch => {
                    self.gates.learn(template.id, newer);
                    continue;
                }
                Verdict::OtherEpoch(_) => {
                    // The gate is behind the epoch that this process knows, so it was rewound.
                    self.gates.ask_look(template.id);
                    return Ok(Answer::Unavailable(Unavailable::GateLoading));
                }
                Verdict::Refused { refusal: Refusal::Closed, .. } => {
                    return self.closed_by_gate(claim).await;
                }
                Verdict::Refused { refusal, look_in_mysql } => {
                    return self.refused(claim, refusal, look_in_mysql).await;
                }
            };
            admissions += 1;
            match self.land(template, claim, epoch, numbers).await? {
                Next::Answer(answer) => return Ok(answer),
                Next::AdmitAgain if admissions < ADMISSIONS_MAX => {}
                Next::AdmitAgain => break,
            }
        }
        Ok(Answer::Unavailable(Unavailable::GateLoading))
    }

    /// Calls the gate until it answers. After a call without an answer the claim may be admitted; repeating the call
    /// finds out. Only this task knows of the claim, so it repeats the call for as long as the resolver leaves the
    /// admission alone.
    async fn ask_gate(&self, claim: &Claim, epoch: Epoch) -> Result<Verdict, GateError> {
        let mut span = spans::gate(claim);
        let mut unknown_since: Option<Instant> = None;
        let mut backoff = Backoff::new(ASK_AGAIN.0, ASK_AGAIN.1);
        loop {
            match self.gates.gate().claim(claim, epoch, (self.clock)()).await {
                Ok(verdict) => {
                    let outcome = label::verdict(&verdict);
                    span.set(spans::OUTCOME, outcome);
                    metrics::counter!(metric::GATE_VERDICTS, "outcome" => outcome).increment(1);
                    return Ok(verdict);
                }
                Err(error) => {
                    if matches!(error, GateError::Unknown { .. }) {
                        unknown_since.get_or_insert_with(Instant::now);
                    }
                    // No call reached the gate, so nothing was admitted.
                    let Some(since) = unknown_since else { return Err(error) };
                    if since.elapsed() >= self.ask_for {
                        return Err(error);
                    }
                    backoff.wait().await;
                }
            }
        }
    }

    /// The gate remembers the key under another admission. Settling is asynchronous, so a pending one counts as under
    /// way only after MySQL was read. Only a landed claim is answered with 201.
    async fn replay(&self, claim: &Claim, state: RequestState) -> Result<Answer, Stop> {
        Ok(match (self.stored_answer(claim).await?, state) {
            (Some(answer), _) => answer,
            (None, RequestState::Pending) => Answer::InProgress,
            // The gate knows a landing that MySQL does not have. Only a lost commit can cause this.
            (None, RequestState::Landed) => Answer::Unavailable(Unavailable::GateLoading),
        })
    }

    /// A refusal is final only if the key has not landed: a winner who retries after a rebuild gets the coupon, not
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

    async fn land(
        &self,
        template: &Template,
        claim: &Claim,
        epoch: Epoch,
        numbers: Numbers,
    ) -> Result<Next, Stop> {
        self.points.reach("claims.after_gate").await?;
        let admission = Admission { claim: claim.clone(), epoch, numbers };
        let mut span = spans::landing(claim);
        let outcome = self.landers.land(template, admission).await;
        span.set(spans::OUTCOME, label::landing(outcome.as_ref().ok().and_then(Option::as_ref)));
        drop(span);
        let Ok(outcome) = outcome else {
            // No coupon id could be made, so nothing was sent to MySQL.
            return Box::pin(self.give_up(claim, epoch)).await.map(Next::Answer);
        };
        let Some(outcome) = outcome else {
            return Err(Stop::Unavailable(Unavailable::Stopping));
        };
        let decision = match outcome {
            Outcome::Landed(landed) => return Ok(Next::Answer(self.landed(claim, epoch, landed))),
            Outcome::Undecided => {
                return Box::pin(self.give_up(claim, epoch)).await.map(Next::Answer);
            }
            Outcome::Decided(decision) => decision,
        };
        // Boxed because it is rare and larger than the code before it; otherwise the task of every claim would reserve
        // the space.
        Box::pin(self.follow(template, claim, epoch, decision)).await
    }

    /// One arm for each row of the decision table.
    async fn follow(
        &self,
        template: &Template,
        claim: &Claim,
        epoch: Epoch,
        decision: Decision,
    ) -> Result<Next, Stop> {
        let word = label::decision(decision);
        metrics::counter!(metric::GUARD_REJECTIONS, "decision" => word).increment(1);
        match decision {
            Decision::Landed => {
                let landed = self.stored_claim(claim).await?;
                let landed = landed.ok_or(Stop::Unavailable(Unavailable::Store))?;
                Ok(Next::Answer(self.landed(claim, epoch, landed)))
            }
            Decision::LandedElsewhere => {
                // The key belongs to another admission for good, so this one can never land and needs no fence.
                self.release(claim, epoch).await;
                let stored = self.stored_answer(claim).await?;
                Ok(Next::Answer(stored.unwrap_or(Answer::Unavailable(Unavailable::GivenUp))))
            }
            Decision::Fenced => {
                self.release(claim, epoch).await;
                Ok(Next::Answer(Answer::Unavailable(Unavailable::GivenUp)))
            }
            Decision::StaleEpoch { now } => {
                self.gates.learn(template.id, now);
                Ok(Next::AdmitAgain)
            }
            Decision::NumberTaken => {
                self.gates.mend(template.id, epoch).await;
                Ok(Next::AdmitAgain)
            }
            Decision::NotOpen => {
                if let Some(landed) = self.fence(claim, epoch).await? {
                    return Ok(Next::Answer(landed));
                }
                self.not_open(template).await.map(Next::Answer)
            }
            Decision::Short { left } => {
                if let Some(landed) = self.fence(claim, epoch).await? {
                    return Ok(Next::Answer(landed));
                }
                // After a cut the gate may promise too much until the movement reaches it. Otherwise the gate is wrong,
                // and the check finds that out.
                self.gates.ask_look(template.id);
                // Answer by the stock that the decision saw; a top-up may have come since.
                Ok(Next::Answer(Answer::Refused(match left {
                    1.. => Refusal::Insufficient { left },
                    _ => Refusal::SoldOut,
                })))
            }
            Decision::Retry => Err(Stop::Unavailable(Unavailable::GivenUp)),
        }
    }

    /// The template was not open when the landing was decided. Ended is final; anything else was a pause.
    async fn not_open(&self, template: &Template) -> Result<Answer, Stop> {
        let current = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            template::get(&mut connection, template.id).await
        });
        let ended = current.await?.is_none_or(|current| current.state == TemplateState::Ended);
        Ok(Answer::Refused(if ended { Refusal::Ended } else { Refusal::Paused }))
    }

    fn landed(&self, claim: &Claim, epoch: Epoch, landed: LandedClaim) -> Answer {
        self.settler.landed(claim.template_id, epoch, claim.user_id, claim.id);
        Answer::Landed { claim: landed, replayed: false }
    }

    /// Gives up an admission with an unknown outcome: fences it, so that it never lands.
    async fn give_up(&self, claim: &Claim, epoch: Epoch) -> Result<Answer, Stop> {
        let landed = self.fence(claim, epoch).await?;
        Ok(landed.unwrap_or(Answer::Unavailable(Unavailable::GivenUp)))
    }

    /// Fences the admission and releases it. If it had landed after all, returns its answer.
    async fn fence(&self, claim: &Claim, epoch: Epoch) -> Result<Option<Answer>, Stop> {
        self.points.reach("claims.before_fence").await?;
        let (template, user) = (claim.template_id, claim.user_id);
        match fate::fence(&self.pool, template, user, claim.id, (self.clock)()).await? {
            claim::Fence::Stands => {
                self.release(claim, epoch).await;
                Ok(None)
            }
            claim::Fence::Landed => {
                let landed = self.stored_claim(claim).await?;
                Ok(landed.map(|landed| self.landed(claim, epoch, landed)))
            }
        }
    }

    /// Releases an admission that is fenced or whose key another admission landed under. If this fails, the resolver
    /// releases it.
    async fn release(&self, claim: &Claim, epoch: Epoch) {
        if self.points.reach("claims.before_release").await.is_err() {
            return;
        }
        let gate = self.gates.gate();
        let released = gate.release(claim.template_id, epoch, claim.user_id, claim.id).await;
        if let Err(error) = released {
            warn!(claim.id = %claim.id, error = %error, "not released; the resolver will");
        }
    }

    async fn stored_claim(&self, claim: &Claim) -> Result<Option<LandedClaim>, StoreError> {
        let (template, user) = (claim.template_id, claim.user_id);
        connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            claim::landed_under_key(&mut connection, template, user, &claim.request_id).await
        })
        .await
    }

    /// Returns the answer of the key's landed claim to this request, if there is one.
    pub(super) async fn stored_answer(&self, claim: &Claim) -> Result<Option<Answer>, StoreError> {
        let stored = self.stored_claim(claim).await?;
        Ok(stored.map(|stored| {
            if stored.payload_hash == claim.payload_hash {
                Answer::Landed { claim: stored, replayed: true }
            } else {
                Answer::KeyReused
            }
        }))
    }
}

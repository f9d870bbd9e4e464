//! A direct claim, from the gate to its answer: lands the admission, and follows the decision after a rollback.

use chrono::{DateTime, Utc};
use coupon::{Admission, Claim, Decision, Epoch, LandedClaim, Numbers, Template, TemplateState};
use mysql_store::{StoreError, connect, fence, template};
use redis_gate::Refusal;

use super::{
    Answer, Unavailable, label, spans,
    under_way::Decides,
    walk::{Stop, Walk},
};
use crate::{batch::Outcome, metric};

/// The gate's facts about an admission.
pub(super) struct Admitted {
    pub(super) numbers: Numbers,
    /// When it was admitted.
    pub(super) at: DateTime<Utc>,
    /// The gate's stock after the admission, if known.
    pub(super) left_after: Option<i64>,
}

/// The step after a landing's outcome.
pub(super) enum Next {
    Answer(Answer),
    /// Pass the gate once more, with the same id.
    AdmitAgain,
}

impl Walk {
    pub(super) async fn land(
        &self,
        template: &Template,
        claim: &Claim,
        epoch: Epoch,
        Admitted { numbers, at, left_after }: Admitted,
        decides: &Decides,
    ) -> Result<Next, Stop> {
        self.points.reach("claims.after_gate").await?;
        let admission = Admission { claim: claim.clone(), epoch, numbers };
        // Landed with these numbers, the user might get more than the limit.
        let fits = admission.has_numbers_of(template.per_user_limit);
        if !fits && Box::pin(self.is_contradiction(&admission)).await? {
            self.gates.mend(template.id, epoch).await;
            return Ok(Next::AdmitAgain);
        }
        let mut span = spans::landing(claim);
        let outcome = self.landers.land(template, admission, at, left_after).await;
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
        Box::pin(self.follow(template, claim, epoch, decision, decides)).await
    }

    /// One arm for each row of the table "After a rollback".
    async fn follow(
        &self,
        template: &Template,
        claim: &Claim,
        epoch: Epoch,
        decision: Decision,
        decides: &Decides,
    ) -> Result<Next, Stop> {
        let word = label::decision(&decision);
        metrics::counter!(metric::GUARD_REJECTIONS.name, "decision" => word).increment(1);
        match decision {
            Decision::Landed => {
                let landed = self.stored_claim(claim).await?;
                let landed = landed.ok_or(Stop::Unavailable(Unavailable::Store))?;
                Ok(Next::Answer(self.landed(claim, epoch, landed)))
            }
            Decision::Elsewhere | Decision::Rejected => {
                // The key has its answer for good, so this admission can never land and needs no fence.
                decides.forget();
                self.release(claim, epoch).await;
                let stored = self.stored_answer(claim).await?;
                Ok(Next::Answer(stored.unwrap_or(Answer::Unavailable(Unavailable::GivenUp))))
            }
            Decision::Fenced => {
                self.release(claim, epoch).await;
                Ok(Next::Answer(Answer::Unavailable(Unavailable::GivenUp)))
            }
            Decision::StaleEpoch { now } => {
                // Only a damaged gate knows a later epoch than MySQL, or one whose MySQL has lost its newest transactions.
                if now < epoch {
                    self.gates.mend(template.id, epoch).await;
                }
                self.gates.learn(template.id, now);
                Ok(Next::AdmitAgain)
            }
            Decision::NumberTaken { .. } => {
                self.gates.mend(template.id, epoch).await;
                Ok(Next::AdmitAgain)
            }
            Decision::NotOpen(_) => {
                if let Some(landed) = self.fence(claim, epoch).await? {
                    return Ok(Next::Answer(landed));
                }
                self.not_open(template).await.map(Next::Answer)
            }
            Decision::Short { left } => {
                if let Some(landed) = self.fence(claim, epoch).await? {
                    return Ok(Next::Answer(landed));
                }
                // After a cut the gate may have too much stock until the movement reaches it. Otherwise the gate is
                // wrong, and the check detects that.
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

    /// Returns whether the gate took numbers that its template does not have by MySQL. This process may have an older
    /// version of a template that was a draft a moment ago.
    pub(super) async fn is_contradiction(&self, admission: &Admission) -> Result<bool, Stop> {
        let current = self.current(&admission.claim).await?;
        Ok(current.is_none_or(|current| !admission.has_numbers_of(current.per_user_limit)))
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
        let template = claim.template_id;
        let user = claim.user_id;
        let fenced = connect::retried(
            || async {
                let mut connection = connect::acquire(&self.pool).await?;
                fence::place_held(&mut connection, template, user, claim.id, (self.clock)()).await
            },
            StoreError::is_conflict,
        );
        match connect::within(fenced).await? {
            fence::Fence::Stands => {
                self.release(claim, epoch).await;
                Ok(None)
            }
            fence::Fence::Landed => {
                let landed = self.stored_claim(claim).await?;
                Ok(landed.map(|landed| self.landed(claim, epoch, landed)))
            }
        }
    }

    /// Releases an admission that is fenced or whose key has an answer. If this fails, the resolver releases it.
    async fn release(&self, claim: &Claim, epoch: Epoch) {
        if self.points.reach("claims.before_release").await.is_err() {
            return;
        }
        let gate = self.gates.gate();
        let released = gate.release(claim.template_id, epoch, claim.user_id, claim.id).await;
        self.gates.sold_out().forget(claim.template_id);
        if let Err(error) = released {
            let why = format!("claim {}: {}", claim.id, runtime::report(&error));
            runtime::seldom!("admissions are not released; the resolver will", why);
        }
    }
}

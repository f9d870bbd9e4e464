//! One turn of a job: some rows are claimed side by side, and what became of them is written in one transaction.

use std::{sync::Arc, time::Duration};

use coupon::{Claim, JobState, PayloadHash, RejectReason, RequestId, RowOutcome, Template, UserId};
use landing::{
    claims::{Answer, Unavailable},
    resolver::GRACE,
};
use mysql_store::{
    Listed, StoreError, connect,
    job::{self, Job, TurnEnd, UnderWay},
    job_row::{self, Done, JobRow},
};
use redis_gate::Refusal;
use tokio::{task::JoinSet, time::timeout};
use tracing::info;

use super::Worker;
use crate::{code::Code, metrics::JOB_ROWS, state::App};

/// Most rows of a turn. The transaction of their outcomes is short, and a merchant who waits for a turn waits for no more
/// than this.
pub(super) const ROWS_MAX: u32 = 256;

/// How long a job is taken for one turn: longer than a turn lasts, even if each row waits for [`ROW_MAX`] and MySQL is
/// slow. A job whose process died waits for it.
const LEASE: Duration = Duration::from_secs(15);

/// How long a turn waits for a row. The claim goes on, and a later turn finds its outcome.
const ROW_MAX: Duration = Duration::from_secs(5);

/// How long a row that a turn did not wait for may still land: the grace after which the resolver ends its admission, and
/// time to do so.
const LANDS_WITHIN: Duration = GRACE.saturating_add(Duration::from_secs(2));

/// Status of a job with claims in progress, and how long its cancellation waits for them.
pub(crate) fn under_way() -> UnderWay<'static> {
    UnderWay { code: Code::ClaimPending.word(), lands_within: LANDS_WITHIN }
}

/// Pause of a job after a turn that decided no row: its template is paused, or its gate is away.
const HELD_UP: Duration = Duration::from_secs(1);

/// A row's outcome, or the code of what it waits for.
type Found = Result<Done, Code>;

impl Worker {
    /// Takes a job and works on some of its rows. Returns whether there was one.
    pub(super) async fn turn(&self) -> anyhow::Result<bool> {
        let taken = connect::within(async {
            let mut connection = connect::acquire(&self.app.pool).await?;
            job::take(&mut connection, &self.owner, LEASE).await
        });
        let Some(job) = taken.await? else { return Ok(false) };
        let rows = self.pending(&job).await?;
        let cancelling = job.state == JobState::Cancelling;
        if rows.is_empty() || (cancelling && !self.may_be_queued(&job).await?) {
            self.end(&job).await?;
            return Ok(true);
        }
        if cancelling {
            let after_row = job.after_row;
            let waits_for = Some(Code::ClaimPending);
            let found = Granted { after_row, done: Vec::new(), waits_for, under_way: true };
            self.write(&job, &found).await?;
            return Ok(true);
        }
        // Rows of this round that no turn waited for are tried again in the next one.
        let still = job.waits_for.as_deref() == Some(under_way().code);
        let same_round = rows.first().is_some_and(|row| row.row_no > job.after_row);
        let mut found = match self.grantable(&job).await {
            Ok(template) => self.grant_all(&job, &template, rows).await?,
            Err(why) => {
                let after_row = job.after_row;
                let done = Vec::new();
                Granted { after_row, done, waits_for: Some(why), under_way: still }
            }
        };
        found.under_way |= still && same_round;
        self.write(&job, &found).await?;
        Ok(true)
    }

    /// Returns the next pending rows: behind the last that was tried or, at the end of the round, from the beginning.
    async fn pending(&self, job: &Job) -> anyhow::Result<Vec<JobRow>> {
        let read = async {
            let mut connection = connect::acquire(&self.app.pool).await?;
            let pending = Some(RowOutcome::Pending);
            let rows =
                job_row::page(&mut connection, job.id, pending, job.after_row, ROWS_MAX).await?;
            if rows.is_empty() && job.after_row > 0 {
                return job_row::page(&mut connection, job.id, pending, 0, ROWS_MAX).await;
            }
            Ok(rows)
        };
        let rows = connect::within(read).await?;
        Ok(rows.into_iter().filter_map(Listed::into_row).collect())
    }

    /// Returns the job's template, whose gate knows of the coupons that were added for the job.
    async fn grantable(&self, job: &Job) -> Result<Arc<Template>, Code> {
        let read = self.app.templates.visible_by_now(job.template_id).await;
        let template = read.map_err(|_| Code::StoreUnavailable)?.ok_or(Code::TemplateNotFound)?;
        if job.added > 0
            && let Err(error) = self.app.gates.catch_up(job.template_id).await
        {
            let why = format!("job {}: {}", job.id, runtime::report(&error));
            runtime::seldom!("jobs wait until the gate knows of their coupons", why);
            return Err(Code::GateUnavailable);
        }
        Ok(template)
    }

    async fn grant_all(
        &self,
        job: &Job,
        template: &Arc<Template>,
        rows: Vec<JobRow>,
    ) -> anyhow::Result<Granted> {
        let after_row = rows.last().map_or(0, |row| row.row_no);
        let mut under_way = JoinSet::new();
        for row in rows {
            let Some(user) = row.user_id.map(UserId) else { continue };
            let claim = Claim {
                id: self.app.ids.claim()?,
                template_id: job.template_id,
                user_id: user,
                request_id: RequestId::grant(job.id, row.row_no),
                payload_hash: PayloadHash::of_quantity(job.quantity),
                quantity: job.quantity,
                claimed_at: self.app.sale_clock.now(),
                trace_parent: None,
            };
            under_way.spawn(grant(self.app.clone(), Arc::clone(template), claim, row.row_no));
        }
        let mut done = Vec::new();
        let mut waits_for = None;
        let mut under_way_too = false;
        while let Some(found) = under_way.join_next().await {
            match found? {
                Ok(one) => done.push(one),
                Err(why) => {
                    under_way_too |= may_land(why);
                    waits_for = Some(why);
                }
            }
        }
        // In the order of the primary key, as every writer locks.
        done.sort_unstable_by_key(|one| one.row_no);
        Ok(Granted { after_row, done, waits_for, under_way: under_way_too })
    }

    /// Writes what became of the rows, if the job is still this worker's.
    async fn write(&self, job: &Job, found: &Granted) -> anyhow::Result<()> {
        let held_up = found.done.is_empty();
        let UnderWay { code, lands_within } = under_way();
        let end = TurnEnd {
            after_row: found.after_row,
            waits_for: if found.under_way {
                Some(code)
            } else {
                found.waits_for.filter(|_| held_up).map(Code::word)
            },
            pause: if held_up { HELD_UP } else { Duration::ZERO },
            pause_if_cancelling: if found.under_way { lands_within } else { Duration::ZERO },
        };
        self.app.points.reach("jobs.before_outcomes").await?;
        let write = || async {
            let mut transaction = connect::begin(&self.app.pool).await?;
            job_row::write(&mut transaction, job.id, &found.done).await?;
            let mine = job::end_turn(&mut transaction, job.id, &self.owner, end).await?;
            if mine {
                connect::commit(transaction).await?;
            }
            Ok::<_, StoreError>(mine)
        };
        if !connect::within(connect::retried(write, StoreError::is_conflict)).await? {
            info!(job.id = %job.id, "a turn lasted longer than its lease; another worker has the job");
            return Ok(());
        }
        for one in &found.done {
            metrics::counter!(JOB_ROWS.name, "outcome" => one.outcome.word()).increment(1);
        }
        Ok(())
    }
}

/// What a turn found.
struct Granted {
    /// The last row that was tried.
    after_row: u32,
    done: Vec<Done>,
    /// Why one of the other rows has to wait.
    waits_for: Option<Code>,
    /// Whether a row of this round may still land without an outcome.
    under_way: bool,
}

/// Returns whether a row without an outcome may still land: its claim is at work, here or elsewhere.
fn may_land(why: Code) -> bool {
    matches!(why, Code::ClaimPending | Code::RequestInProgress)
}

async fn grant(app: App, template: Arc<Template>, claim: Claim, row_no: u32) -> Found {
    match timeout(ROW_MAX, app.claims.claim(template, claim)).await {
        Ok(answer) => found(answer, row_no),
        Err(_) => Err(Code::ClaimPending),
    }
}

/// Returns the outcome that an answer gives its row. A temporary refusal, such as a pause, leaves the row pending.
fn found(answer: Answer, row_no: u32) -> Found {
    let refused = |outcome| Ok(Done { row_no, outcome, claim_id: None });
    match answer {
        Answer::Landed { claim, .. } => {
            Ok(Done { row_no, outcome: RowOutcome::Granted, claim_id: Some(claim.id) })
        }
        Answer::Refused(refusal) => match refusal {
            Refusal::Limit { .. } => refused(RowOutcome::LimitReached),
            Refusal::Banned { .. } => refused(RowOutcome::Banned),
            Refusal::SoldOut => refused(RowOutcome::SoldOut),
            Refusal::Insufficient { .. } => refused(RowOutcome::InsufficientStock),
            Refusal::NotOpen { .. } => refused(RowOutcome::NotOpen),
            Refusal::Closed => refused(RowOutcome::Closed),
            Refusal::Ended => refused(RowOutcome::Ended),
            Refusal::Paused => Err(Code::Paused),
        },
        // It waits in a queue. A later turn finds what became of it.
        Answer::Accepted { .. } => Err(Code::ClaimPending),
        Answer::Rejected { reason, .. } => refused(outcome_of(reason)),
        // Only a row changed by hand could have another payload.
        Answer::KeyReused => Err(Code::IdempotencyKeyReused),
        Answer::InProgress => Err(Code::RequestInProgress),
        Answer::Unavailable(why) => Err(match why {
            Unavailable::Overloaded => Code::Overloaded,
            Unavailable::Gate => Code::GateUnavailable,
            Unavailable::GateLoading => Code::GateLoading,
            Unavailable::Store | Unavailable::Stopping | Unavailable::Queue { .. } => {
                Code::ClaimPending
            }
            Unavailable::GivenUp => Code::ClaimGivenUp,
        }),
    }
}

/// Returns the outcome of a row whose claim was accepted into a queue and then rejected. Its key is refused for good, so no
/// later turn could do better.
fn outcome_of(reason: RejectReason) -> RowOutcome {
    match reason {
        RejectReason::SoldOut => RowOutcome::SoldOut,
        RejectReason::InsufficientStock => RowOutcome::InsufficientStock,
        RejectReason::LimitReached => RowOutcome::LimitReached,
        RejectReason::Paused => RowOutcome::NotOpen,
        RejectReason::Ended => RowOutcome::Ended,
        RejectReason::Failed | RejectReason::Cancelled => RowOutcome::Cancelled,
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use coupon::{ClaimId, Epoch};

    use super::*;

    #[test]
    fn a_row_in_the_queue_is_waited_for_and_a_rejected_one_has_its_outcome() {
        let id = ClaimId(5);
        let epoch = Epoch(1);
        let accepted_at = DateTime::UNIX_EPOCH;
        let accepted = Answer::Accepted { id, epoch, accepted_at, position: None };
        let unknown = Answer::Unavailable(Unavailable::Queue { id, epoch, accepted_at });
        for waits in [accepted, unknown] {
            assert_eq!(found(waits, 7), Err(Code::ClaimPending));
        }
        for (reason, outcome) in [
            (RejectReason::SoldOut, RowOutcome::SoldOut),
            (RejectReason::Paused, RowOutcome::NotOpen),
            (RejectReason::Failed, RowOutcome::Cancelled),
        ] {
            let expected = Done { row_no: 7, outcome, claim_id: None };
            assert_eq!(found(Answer::Rejected { id, reason }, 7), Ok(expected));
        }
    }

    #[test]
    fn what_passes_leaves_a_row_pending_and_what_is_final_is_its_outcome() {
        let final_ones = [
            (Refusal::Limit { taken: 1 }, RowOutcome::LimitReached),
            (Refusal::Banned { lapses: 3 }, RowOutcome::Banned),
            (Refusal::SoldOut, RowOutcome::SoldOut),
            (Refusal::Insufficient { left: 1 }, RowOutcome::InsufficientStock),
            (Refusal::Closed, RowOutcome::Closed),
            (Refusal::Ended, RowOutcome::Ended),
        ];
        for (refusal, outcome) in final_ones {
            let expected = Done { row_no: 7, outcome, claim_id: None };
            assert_eq!(found(Answer::Refused(refusal), 7), Ok(expected));
        }
        assert_eq!(found(Answer::Refused(Refusal::Paused), 7), Err(Code::Paused));
        assert_eq!(found(Answer::InProgress, 7), Err(Code::RequestInProgress));
        let away = Answer::Unavailable(Unavailable::Gate);
        assert_eq!(found(away, 7), Err(Code::GateUnavailable));
        assert!(may_land(Code::ClaimPending) && !may_land(Code::Paused));
    }
}

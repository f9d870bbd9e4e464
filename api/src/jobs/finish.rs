//! The end of a job: the rest of a cancelled job's rows get their outcome, and coupons that were added for rows that
//! got none are taken back, unless the gate has already promised them to a claim.
//!
//! MySQL's stock counts only landed claims. So the gate is asked for the stock it has left. While it does not answer,
//! or claims of the template are queued, the job does not end. After [`WAITS_MAX`] it ends without taking anything
//! back.

use std::time::Duration;

use chrono::{DateTime, Utc};
use coupon::{ApiKeyId, JobState, RequestId, RowOutcome, TemplateState};
use mysql_store::{
    MySqlConnection,
    audit::{self, Entry},
    connect,
    job::{self, Job},
    job_row,
    stock::{self, Moved, NewMovement, Recorded},
};
use serde_json::json;
use tracing::{info, warn};

use super::Worker;
use crate::{code::Code, metrics::JOB_ROWS};

/// Attempts to take back coupons while users claim them. Each finds how many are left; after the last, they stay.
const TRIES_MAX: u32 = 4;

/// How long a job's end waits for a gate that can say what is left, or for an empty queue. After that, what was added
/// for the job stays in the total: users may claim it, or the operator cuts it.
const WAITS_MAX: Duration = Duration::from_secs(600);

/// Pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Reason of the movement that takes coupons back, for people who read the movements.
const REASON: &str = "Left over by a job of grants.";

impl Worker {
    /// Ends a job whose rows all have their outcome, or that is being cancelled.
    pub(super) async fn end(&self, job: &Job) -> anyhow::Result<()> {
        let most = match self.unpromised(job).await {
            Ok(most) => most,
            Err(why) if is_patient(job) => return self.put_end_off(job, why).await,
            Err(why) => {
                let why = why.word();
                let added = job.added;
                warn!(job.id = %job.id, template.id = %job.template_id, why, added, "a job ends without taking coupons back");
                0
            }
        };
        let now = self.app.clock.now();
        let end = || async {
            let mut transaction = connect::begin(&self.app.pool).await?;
            let rest = if job.state == JobState::Cancelling {
                job_row::cancel_rest(&mut transaction, job.id, job.template_id).await?.to_vec()
            } else {
                Vec::new()
            };
            if job.added > 0 {
                self.take_back(&mut transaction, job, most, now).await?;
            }
            let mine = job::end(&mut transaction, job, &self.owner, now).await?;
            if mine {
                connect::commit(transaction).await?;
            }
            Ok::<_, anyhow::Error>(mine.then_some(rest))
        };
        let conflicts = |error: &anyhow::Error| {
            error.downcast_ref().is_some_and(mysql_store::StoreError::is_conflict)
        };
        let ended = connect::within(connect::retried(end, conflicts)).await?;
        let Some(rest) = ended else { return Ok(()) };
        for (outcome, rows) in rest {
            metrics::counter!(JOB_ROWS.name, "outcome" => outcome.word()).increment(rows);
        }
        info!(job.id = %job.id, template.id = %job.template_id, "a job has ended");
        if job.added > 0
            && let Err(error) = self.app.gates.catch_up(job.template_id).await
        {
            let error = runtime::report(&error);
            warn!(template.id = %job.template_id, error, "the gate will hear of a movement later");
        }
        Ok(())
    }

    /// Returns how many coupons the gate has not promised to any claim, or why that is unknown. Without a gate, after
    /// the window, nothing is promised any more once the queue is empty. A claim that is admitted between this look and
    /// the gate's news of the cut, milliseconds later, may still be refused, as with any operator's cut.
    async fn unpromised(&self, job: &Job) -> Result<i64, Code> {
        if job.added == 0 {
            return Ok(0);
        }
        let unknown = |error: anyhow::Error| {
            let why = format!("job {}: {}", job.id, runtime::report(error.as_ref()));
            runtime::seldom!("jobs wait until a gate says what is left", why);
            Code::GateUnavailable
        };
        let gates = &self.app.gates;
        gates.catch_up(job.template_id).await.map_err(|error| unknown(error.into()))?;
        let meta = gates.gate().meta(job.template_id).await;
        let meta = meta.map_err(|error| unknown(error.into()))?;
        let left = meta.as_ref().filter(|meta| meta.is_open()).map(|meta| meta.stock);
        if left.is_some_and(|left| left <= 0) {
            return Ok(0);
        }
        if self.may_be_queued(job).await.map_err(unknown)? {
            return Err(Code::ClaimPending);
        }
        match left {
            Some(left) => Ok(left),
            None if meta.is_none() && self.is_over(job).await? => Ok(i64::MAX),
            None => Err(Code::GateLoading),
        }
    }

    /// Returns whether the job's template gives out nothing any more.
    async fn is_over(&self, job: &Job) -> Result<bool, Code> {
        let read = self.app.templates.visible_by_now(job.template_id).await;
        let template = read.map_err(|_| Code::StoreUnavailable)?;
        let now = self.app.sale_clock.now();
        Ok(template.is_none_or(|template| {
            template.state == TemplateState::Ended || now >= template.window.ends_at
        }))
    }

    async fn put_end_off(&self, job: &Job, why: Code) -> anyhow::Result<()> {
        let put_off = connect::within(async {
            let mut connection = connect::acquire(&self.app.pool).await?;
            job::put_end_off(&mut connection, job.id, &self.owner, why.word(), LOOK_AGAIN).await
        });
        Ok(put_off.await?)
    }

    /// Cuts the total by the coupons that were added for rows that got none, as far as they are left: users may have
    /// claimed some meanwhile. The key of the movement and the job's end are one transaction, so it is made once.
    async fn take_back(
        &self,
        transaction: &mut MySqlConnection,
        job: &Job,
        most: i64,
        now: DateTime<Utc>,
    ) -> anyhow::Result<()> {
        let counts = job::counts(transaction, job.id).await?;
        let granted = counts.iter().find(|(outcome, _)| *outcome == RowOutcome::Granted);
        let granted = granted.map_or(0, |(_, count)| *count) * i64::from(job.quantity);
        let mut rest = (job.added - granted).min(most);
        let request_id = RequestId::job_rest(job.id);
        for _ in 0..TRIES_MAX {
            if rest <= 0 {
                return Ok(());
            }
            let new = NewMovement {
                request_id: &request_id,
                delta: -rest,
                reason: REASON,
                actor: &job.actor,
            };
            match stock::add_movement(transaction, job.template_id, &new, now).await? {
                Moved::Recorded(recorded) => {
                    return self.record(transaction, job, rest, recorded, now).await;
                }
                Moved::TooLittleLeft { stock } => rest = rest.min(stock),
                Moved::Replayed(_)
                | Moved::KeyReused
                | Moved::TooMuch { .. }
                | Moved::NoTemplate => {
                    return Ok(());
                }
            }
        }
        warn!(job.id = %job.id, rest, "coupons that a job left over could not be taken back");
        Ok(())
    }

    /// Writes the line of the audit record, in the name of the operator who created the job.
    async fn record(
        &self,
        transaction: &mut MySqlConnection,
        job: &Job,
        rest: i64,
        recorded: Recorded,
        now: DateTime<Utc>,
    ) -> anyhow::Result<()> {
        let Recorded { seq, total, stock } = recorded;
        let after = json!({
            "seq": seq, "delta": -rest, "reason": REASON, "total": total, "stock": stock,
            "job_id": job.id.to_string(),
        });
        let entry = Entry {
            id: self.app.ids.audit()?,
            merchant_id: job.merchant_id,
            key_id: job.key_id.map(ApiKeyId),
            action: "stock.move".to_owned(),
            target: format!("templates/{}", job.template_id),
            before: Some(json!({ "total": total + rest, "stock": stock + rest }).to_string()),
            after: Some(after.to_string()),
            trace_id: None,
            at: now,
        };
        Ok(audit::record(transaction, &entry).await?)
    }
}

/// Returns whether a job's end may wait longer.
fn is_patient(job: &Job) -> bool {
    job.ending_for.is_none_or(|seconds| seconds < WAITS_MAX.as_secs().cast_signed())
}

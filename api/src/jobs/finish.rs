//! The end of a job: what is left of a cancelled one gets its outcome, and coupons that were added for rows that got none
//! are taken back.

use chrono::{DateTime, Utc};
use coupon::{ApiKeyId, JobState, RequestId, RowOutcome};
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
use crate::metrics::JOB_ROWS;

/// Attempts to take back coupons while users claim them. Each finds how many are left; after the last, they stay.
const TRIES_MAX: u32 = 4;

/// Reason of the movement that takes coupons back, for people who read the movements.
const REASON: &str = "Left over by a job of grants.";

impl Worker {
    /// Ends a job whose rows all have their outcome, or that is being cancelled.
    pub(super) async fn end(&self, job: &Job) -> anyhow::Result<()> {
        let now = self.app.clock.now();
        let ended = connect::within(async {
            let mut transaction = connect::begin(&self.app.pool).await?;
            let rest = if job.state == JobState::Cancelling {
                job_row::cancel_rest(&mut transaction, job.id, job.template_id).await?.to_vec()
            } else {
                Vec::new()
            };
            if job.added > 0 {
                self.take_back(&mut transaction, job, now).await?;
            }
            let mine = job::end(&mut transaction, job, &self.owner, now).await?;
            if mine {
                connect::commit(transaction).await?;
            }
            Ok::<_, anyhow::Error>(mine.then_some(rest))
        });
        let Some(rest) = ended.await? else { return Ok(()) };
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

    /// Cuts the total by the coupons that were added for rows that got none, as far as they are left: users may have
    /// claimed some meanwhile. The key of the movement and the job's end are one transaction, so it is made once.
    async fn take_back(
        &self,
        transaction: &mut MySqlConnection,
        job: &Job,
        now: DateTime<Utc>,
    ) -> anyhow::Result<()> {
        let counts = job::counts(transaction, job.id).await?;
        let granted = counts.iter().find(|(outcome, _)| *outcome == RowOutcome::Granted);
        let granted = granted.map_or(0, |(_, count)| *count) * i64::from(job.quantity);
        let mut rest = job.added - granted;
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
                    return self.record(transaction, job, (rest, recorded), now).await;
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
        (rest, recorded): (i64, Recorded),
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

//! Lands the queued claims of one partition of the topic, in order. It needs MySQL, but no gate.
//!
//! Read in this order: [`QueuedLander`] lands a batch, however long MySQL is away, and says how each claim ended
//! ([`QueuedEnd`]). `batch` says what differs from direct claims in the engine that tries and decides
//! ([`crate::batch`]), `endings` writes rejections and fences, `templates` caches the facts of templates that a claim's
//! rows need. [`GateReports`] reports the ends to the gates.
//!
//! Each report is made once, and no landing waits for it. If it does not reach its gate, the resolver settles the
//! claim.

mod batch;
mod end;
mod endings;
mod gate_reports;
pub mod metric;
mod templates;

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use coupon::{QueuedClaim, RejectReason};
use mysql_store::{MySqlConnection, landing::Landing};
use runtime::FailPoints;
use tokio::time::timeout;

use self::{
    batch::{QueuedBatch, QueuedJob},
    end::Ending,
    templates::Templates,
};
pub use self::{
    end::QueuedEnd,
    gate_reports::{GateReports, Reporter},
};
use crate::{
    batch::{RunError, SILENCE_MAX},
    ids::Ids,
    lander::{self, Link, answer_if_landed, answer_without_hold},
};

/// Interval at which [`QueuedLander::ping`] keeps an idle connection alive.
pub const PING_EVERY: Duration = lander::PING_EVERY;

/// The wall clock of the process.
type Now = Box<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// Lands batches over a connection of its own.
pub struct QueuedLander {
    link: Link,
    connection: MySqlConnection,
    ids: Arc<Ids>,
    templates: Templates,
    reports: GateReports,
    now: Now,
    points: FailPoints,
}

impl QueuedLander {
    /// Connects, however long MySQL is away. The fail points are `queued.before_begin`, those of
    /// `mysql_store::landing::land_by_way_of`, `queued.after_commit`, `queued.locked` (after a wait for a lock),
    /// `queued.before_reread` and `queued.before_end` (before rejections or a fence).
    pub async fn connect(
        database_url: &str,
        ids: &Arc<Ids>,
        reports: GateReports,
        now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static,
        points: FailPoints,
    ) -> Self {
        let mut link = Link::new(database_url, ids, &points);
        let connection = link.connect().await;
        let ids = Arc::clone(ids);
        let templates = Templates::default();
        Self { link, connection, ids, templates, reports, now: Box::new(now), points }
    }

    /// Lands claims of one partition, in order, and returns how each ended. Waits while MySQL is away: nothing is
    /// dropped, and nothing counts as an attempt. The future may be dropped at any point: no claim is left half done,
    /// and the same claims may be landed again.
    pub async fn land(&mut self, claims: &[QueuedClaim]) -> Vec<QueuedEnd> {
        let started = Instant::now();
        let mut ends = vec![QueuedEnd::Duplicate; claims.len()];
        let coupons: u64 = claims.iter().map(|one| u64::from(one.admission.claim.quantity)).sum();
        metrics::histogram!(metric::BATCH_SIZE.name).record(coupons as f64);
        let mut batch = loop {
            match self.prepare(claims).await {
                Ok(batch) => break batch,
                Err(error) => self.connection = self.link.connect_after(&error).await,
            }
        };
        loop {
            let ran = batch.run_to_ends(&mut self.connection, &self.ids, &self.now).await;
            for (index, end) in batch.take_done() {
                ends[index] = end;
                metrics::counter!(metric::CLAIMS.name, "outcome" => end.label()).increment(1);
                self.reports.ended(&claims[index].admission, end);
            }
            for (template, epoch) in batch.take_wrong() {
                metrics::counter!(metric::WRONG_GATES.name).increment(1);
                self.reports.wrong(template, epoch);
            }
            match ran {
                Ok(()) => break,
                Err(error) => self.connection = self.link.connect_after(&error).await,
            }
        }
        self.link.worked();
        batch.take_renewed().into_iter().for_each(|template| self.templates.forget(template));
        metrics::histogram!(metric::BATCH_SECONDS.name).record(started.elapsed().as_secs_f64());
        ends
    }

    /// Keeps the connection alive, or opens another. Call it every [`PING_EVERY`] while there is nothing to land.
    pub async fn ping(&mut self) {
        if !lander::answers(&mut self.connection).await {
            self.connection = self.link.connect().await;
        }
    }

    /// Makes the batch of `claims`: one job for each claim that is not a repetition of an earlier one.
    async fn prepare(&mut self, claims: &[QueuedClaim]) -> Result<QueuedBatch, RunError> {
        let ids = claims.iter().map(|one| one.admission.claim.template_id).collect();
        timeout(SILENCE_MAX, self.templates.learn(&mut self.connection, &ids)).await??;
        let mut batch = QueuedBatch::new(self.points.clone());
        let lands_at = (self.now)();
        let mut seen = HashSet::new();
        let mut jobs = Vec::with_capacity(claims.len());
        for (index, queued) in claims.iter().enumerate() {
            let admission = &queued.admission;
            // A claim that was admitted again after a rebuild has the same id under another epoch.
            if !seen.insert((admission.claim.template_id, admission.claim.id, admission.epoch)) {
                continue;
            }
            let id = admission.claim.template_id;
            let Some(template) = self.templates.get(id) else {
                let is_there = self.templates.is_unreadable(id);
                let end = if is_there { QueuedEnd::Unlandable } else { QueuedEnd::UnknownTemplate };
                batch.end_at_once(index, end);
                continue;
            };
            let is_plausible = templates::fits(admission, template);
            let landed = if is_plausible {
                answer_if_landed(&self.ids, template, admission, lands_at)?
            } else {
                answer_without_hold(template, &admission.claim, Vec::new())
            };
            let landing = Landing {
                admission: admission.clone(),
                merchant_id: template.merchant_id,
                terms: template.version,
                landed,
                admitted_at: Some(queued.admitted_at),
                left_after: queued.left_after,
            };
            let job = QueuedJob::new(index, landing);
            if is_plausible && admission.has_numbers_of(template.per_user_limit) {
                jobs.push(job);
            } else if is_plausible {
                // Only the gate is wrong. Decided under the lock, it gets lower numbers if the user has some left.
                batch.end_later(job, Ending::Reject(RejectReason::LimitReached));
            } else {
                tracing::error!(
                    claim.id = %admission.claim.id,
                    "a queued claim contradicts its template: rejected"
                );
                batch.end_later(job, Ending::Reject(RejectReason::Failed));
            }
        }
        // A repetition of a key publishes its claim again, without `left_after`. Such a claim has usually landed by
        // now, and would roll back the others of its transaction.
        let (repeated, jobs) =
            jobs.into_iter().partition(|job: &QueuedJob| job.landing.left_after.is_none());
        batch.add(repeated);
        batch.add(jobs);
        Ok(batch)
    }
}

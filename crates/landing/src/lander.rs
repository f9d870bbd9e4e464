//! The landers: each owns a share of the templates, one connection, and one queue.
//!
//! While one transaction is in flight the next admissions queue up and go together, so batches grow
//! with the load and add no delay without it. A lander that loses MySQL keeps its batch and tries on;
//! its queue is bounded by the claims that may be under way.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use coupon::{Admission, LandedClaim, LandedCoupon, Template};
use mysql_store::{MySqlConnection, connect, landing::Landing};
use runtime::FailPoints;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    batch::{Batch, Outcome},
    ids::{IdError, Ids},
    metric,
};

/// Lander workers of one process. Two transactions taking turns keep the disk busy (65,000 claims/s
/// against 42,000 for one, measured); templates are shared out among them by id.
pub const LANDERS: usize = 2;

/// Coupons in one transaction: ten times what is needed to be limited by something else than the
/// flush, and far below MySQL's 65,535 placeholders.
const BATCH_COUPONS_MAX: usize = 1000;

/// How often an idle connection is pinged: well within its `wait_timeout`.
const PING_EVERY: Duration = Duration::from_secs(2);

/// How long connecting or a ping may take; the server may be gone without a word.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// First and longest wait before a lander connects again.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The landers of a process, as the claims see them.
#[derive(Clone)]
pub struct Landers {
    queues: Vec<mpsc::Sender<Job>>,
    ids: Arc<Ids>,
}

struct Job {
    landing: Landing,
    answer: oneshot::Sender<Outcome>,
}

/// One lander: [`Lander::run`] is its loop.
pub struct Lander {
    database_url: String,
    ids: Arc<Ids>,
    queue: mpsc::Receiver<Job>,
    points: FailPoints,
}

/// Makes `count` landers whose queues hold `queued_max` admissions each.
pub fn landers(
    count: usize,
    queued_max: usize,
    database_url: &str,
    ids: &Arc<Ids>,
    points: &FailPoints,
) -> (Landers, Vec<Lander>) {
    let (queues, workers) = (0..count)
        .map(|_| {
            let (sender, queue) = mpsc::channel(queued_max);
            let database_url = database_url.to_owned();
            let (ids, points) = (Arc::clone(ids), points.clone());
            (sender, Lander { database_url, ids, queue, points })
        })
        .unzip();
    (Landers { queues, ids: Arc::clone(ids) }, workers)
}

impl Landers {
    /// Lands an admission and answers what became of it. Absent: the landers have stopped, and
    /// whether it landed is unknown; the resolver will find out.
    ///
    /// # Errors
    /// No coupon id can be made: the admission did not begin to land.
    pub async fn land(
        &self,
        template: &Template,
        admission: Admission,
    ) -> Result<Option<Outcome>, IdError> {
        let landed = self.answer_if_landed(template, &admission)?;
        let (merchant_id, terms) = (template.merchant_id, template.version);
        let landing = Landing { admission, merchant_id, terms, landed };
        let share = template.id.0.unsigned_abs() % self.queues.len() as u64;
        let (answer, outcome) = oneshot::channel();
        let queue = &self.queues[usize::try_from(share).unwrap_or(0)];
        if queue.send(Job { landing, answer }).await.is_err() {
            return Ok(None);
        }
        Ok(outcome.await.ok())
    }

    /// Admissions that wait for the next transaction.
    pub(crate) fn queued(&self) -> usize {
        self.queues.iter().map(|queue| queue.max_capacity() - queue.capacity()).sum()
    }

    fn answer_if_landed(
        &self,
        template: &Template,
        admission: &Admission,
    ) -> Result<LandedClaim, IdError> {
        let claim = &admission.claim;
        let (valid_from, valid_until) = template.validity.of_claim(claim.claimed_at);
        let coupons = (0..claim.quantity as usize)
            .map(|index| {
                let id = self.ids.coupon()?;
                let claim_no = admission.numbers.get(index).map_or(id.0, |n| i64::from(*n));
                Ok(LandedCoupon { id, claim_no })
            })
            .collect::<Result<_, IdError>>()?;
        Ok(LandedClaim {
            id: claim.id,
            template_id: claim.template_id,
            user_id: claim.user_id,
            payload_hash: claim.payload_hash,
            claimed_at: claim.claimed_at,
            valid_from,
            valid_until,
            coupons,
        })
    }
}

impl Lander {
    /// Lands what is queued until the queue's senders are gone, or `stop`: then what is left is
    /// abandoned to the resolver.
    pub async fn run(mut self, stop: CancellationToken) {
        let Some(mut connection) = stop.run_until_cancelled(self.connect()).await else { return };
        let mut jobs = Vec::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                received = self.queue.recv_many(&mut jobs, BATCH_COUPONS_MAX) => {
                    if received == 0 { return }
                }
                () = tokio::time::sleep(PING_EVERY) => {
                    if !answers(&mut connection).await {
                        connection = self.connect().await;
                    }
                    continue;
                }
            }
            while !jobs.is_empty() {
                let batch = take_batch(&mut jobs);
                let done = stop.run_until_cancelled(self.land_batch(batch, &mut connection)).await;
                if done.is_none() {
                    return;
                }
            }
        }
    }

    async fn land_batch(&self, jobs: Vec<Job>, connection: &mut MySqlConnection) {
        let started = Instant::now();
        let coupons: usize = jobs.iter().map(|job| job.landing.landed.coupons.len()).sum();
        metrics::histogram!(metric::BATCH_SIZE).record(coupons as f64);
        let jobs = jobs.into_iter().map(|job| (job.answer, job.landing)).collect();
        let mut batch = Batch::new(jobs).with_fail_points(self.points.clone());
        loop {
            let ran = batch.run(connection, &self.ids).await;
            for (answer, outcome) in batch.take_done() {
                // The claim may have stopped waiting: its task was ended at shutdown.
                drop(answer.send(outcome));
            }
            match ran {
                Ok(()) => break,
                Err(error) => {
                    warn!(error = %error, cause = ?error, "a lander lost MySQL; it keeps its batch");
                    *connection = self.connect().await;
                }
            }
        }
        metrics::histogram!(metric::BATCH_SECONDS).record(started.elapsed().as_secs_f64());
    }

    /// Connects, however long it takes.
    async fn connect(&self) -> MySqlConnection {
        let (mut wait, longest) = RECONNECT;
        loop {
            match timeout(CONNECT_MAX, connect::lander(&self.database_url)).await {
                Ok(Ok(connection)) => {
                    info!("a lander connected to MySQL");
                    return connection;
                }
                Ok(Err(error)) => {
                    warn!(error = %error, cause = ?error, "a lander cannot connect");
                }
                Err(_) => warn!("a lander cannot connect: MySQL is silent"),
            }
            tokio::time::sleep(wait.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            wait = (wait * 2).min(longest);
        }
    }
}

async fn answers(connection: &mut MySqlConnection) -> bool {
    matches!(timeout(CONNECT_MAX, connect::ping(connection)).await, Ok(Ok(())))
}

/// Takes jobs from the front as long as their coupons fit one batch; at least one.
fn take_batch(jobs: &mut Vec<Job>) -> Vec<Job> {
    let mut coupons = 0;
    let fitting = jobs
        .iter()
        .take_while(|job| {
            coupons += job.landing.landed.coupons.len();
            coupons <= BATCH_COUPONS_MAX
        })
        .count();
    jobs.drain(..fitting.max(1)).collect()
}

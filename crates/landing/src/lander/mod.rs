//! The landers: each owns a share of the templates, one connection, and one queue.
//!
//! While one transaction is in flight, the next admissions queue up and go together. Batches therefore grow with the
//! load, and cause no delay without it. A lander that loses MySQL keeps its batch and retries; the number of claims
//! under way bounds its queue. A template whose stock row is locked is landed aside, on a separate connection, so that
//! the lander's other templates continue.

pub(crate) mod aside;
pub mod batch;
mod pulse;
pub mod settler;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{Admission, LandedClaim, LandedCoupon, Template, TemplateId};
use mysql_store::{MySqlConnection, connect, landing::Landing};
use runtime::{Backoff, FailPoints};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;
use tracing::info;

use crate::{
    ids::{IdError, Ids},
    lander::{
        aside::Aside,
        batch::{Batch, Outcome, RunError},
        pulse::Pulse,
    },
    metric,
};

/// Lander workers of one process. Two alternating transactions keep the disk busy (measured: 65,000 claims/s, against
/// 42,000 with one). Templates are distributed among the landers by a hash of their ids.
pub const LANDERS: usize = 2;

/// Most coupons in one transaction. A tenth would suffice for the flush not to be the bottleneck; MySQL's limit of
/// 65,535 placeholders is far above.
pub(crate) const BATCH_COUPONS_MAX: usize = 1000;

/// Admissions that may wait for a lander before mode spill queues further claims: two batches, so that each waits for
/// a few transactions at most.
const BEHIND_MAX: usize = 2 * BATCH_COUPONS_MAX;

/// Longest time of one batch, or of a connect, before mode spill treats MySQL as not answering; far above the time of a
/// batch, and far below the deadline of a request.
const ANSWERS_MAX: Duration = Duration::from_secs(1);

/// Interval between pings of an idle connection; well within its `wait_timeout`.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(2);

/// Time limit for connecting and for a ping, since the server may be gone without closing the connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// First and longest wait before a lander reconnects.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// The landers of a process, as claims use them.
#[derive(Clone)]
pub struct Landers {
    queues: Vec<(mpsc::Sender<Job>, Arc<Pulse>)>,
    ids: Arc<Ids>,
}

/// An admission to land, and the channel for its outcome.
pub(crate) struct Job {
    pub(crate) landing: Landing,
    answer: oneshot::Sender<Outcome>,
    /// The time of landing for which the end of its hold was computed.
    held_as_of: Instant,
}

impl Job {
    pub(crate) fn template(&self) -> TemplateId {
        self.landing.landed.template_id
    }

    fn coupons(&self) -> usize {
        self.landing.landed.coupons.len()
    }
}

/// One lander; [`Lander::run`] is its loop.
pub struct Lander {
    queue: mpsc::Receiver<Job>,
    link: Link,
    pulse: Arc<Pulse>,
}

/// A lander's access to MySQL. A clone has its own backoff.
#[derive(Clone)]
pub(crate) struct Link {
    database_url: String,
    ids: Arc<Ids>,
    points: FailPoints,
    /// Between attempts while the server is unreachable or takes no writes.
    backoff: Backoff,
}

/// Creates `count` landers whose queues hold `queued_max` admissions each.
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
            let pulse = Arc::<Pulse>::default();
            let link = Link::new(database_url, ids, points);
            ((sender, Arc::clone(&pulse)), Lander { queue, link, pulse })
        })
        .unzip();
    (Landers { queues, ids: Arc::clone(ids) }, workers)
}

impl Landers {
    /// Lands an admission of `admitted_at` that left `left_after` coupons in the gate, if known, and returns its
    /// outcome. `None`: the landers have stopped, and it is unknown whether the admission landed; the resolver will
    /// find out.
    ///
    /// # Errors
    /// No coupon id can be made; the admission did not begin to land.
    pub async fn land(
        &self,
        template: &Template,
        admission: Admission,
        admitted_at: DateTime<Utc>,
        left_after: Option<i64>,
    ) -> Result<Option<Outcome>, IdError> {
        let held_as_of = Instant::now();
        let landed = answer_if_landed(&self.ids, template, &admission, admitted_at)?;
        let (merchant_id, terms) = (template.merchant_id, template.version);
        let admitted_at = Some(admitted_at);
        let landing = Landing { admission, merchant_id, terms, landed, admitted_at, left_after };
        let (answer, outcome) = oneshot::channel();
        let (queue, _) = &self.queues[share_of(template.id, self.queues.len())];
        if queue.send(Job { landing, answer, held_as_of }).await.is_err() {
            return Ok(None);
        }
        Ok(outcome.await.ok())
    }

    /// Returns the number of admissions that wait to land.
    pub(crate) fn queued(&self) -> usize {
        self.queues.iter().map(|(queue, _)| waiting(queue)).sum::<usize>() + aside::waiting()
    }

    /// Returns whether a template's lander is behind: too many admissions wait for it, or MySQL does not answer it.
    pub(crate) fn is_behind(&self, template: TemplateId) -> bool {
        let (queue, pulse) = &self.queues[share_of(template, self.queues.len())];
        waiting(queue) > BEHIND_MAX || pulse.lasts() > ANSWERS_MAX
    }
}

/// Returns the answer to an admission if it lands at `lands_at` under this version of its template, with new ids for
/// its coupons. A hold runs from the landing.
///
/// # Errors
/// No coupon id can be made.
pub(crate) fn answer_if_landed(
    ids: &Ids,
    template: &Template,
    admission: &Admission,
    lands_at: DateTime<Utc>,
) -> Result<LandedClaim, IdError> {
    let claim = &admission.claim;
    let (valid_from, valid_until) = template.validity.of_claim(claim.claimed_at);
    let coupons = (0..claim.quantity as usize)
        .map(|index| {
            let id = ids.coupon()?;
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
        held_until: template.hold.held_until(lands_at, valid_until),
        coupons,
    })
}

impl Lander {
    /// Lands queued admissions until all senders are dropped and every admission has its outcome. If the lander is cut
    /// off, the resolver ends the rest.
    pub async fn run(mut self) {
        let (aside_queue, aside) = Aside::new(self.link.clone());
        // Ends when the last admission that was set aside has landed.
        let landing_aside = AbortOnDropHandle::new(tokio::spawn(aside.run()));
        let mut connection = connect_noting(&mut self.link, &self.pulse).await;
        let mut jobs = Vec::new();
        loop {
            tokio::select! {
                biased;
                received = self.queue.recv_many(&mut jobs, BATCH_COUPONS_MAX) => {
                    if received == 0 { break }
                }
                () = tokio::time::sleep(PING_EVERY) => {
                    if !answers(&mut connection).await {
                        connection = connect_noting(&mut self.link, &self.pulse).await;
                    }
                    continue;
                }
            }
            jobs = aside_queue.keep_apart(jobs);
            while !jobs.is_empty() {
                let batch = take_batch(&mut jobs);
                let _working = self.pulse.begin();
                let aside = self.link.land(batch, &mut connection).await;
                aside_queue.set_aside(aside);
            }
        }
        drop(aside_queue);
        drop(landing_aside.await);
    }
}

/// Connects, and shows in `pulse` how long that takes.
async fn connect_noting(link: &mut Link, pulse: &Pulse) -> MySqlConnection {
    let _working = pulse.begin();
    link.connect().await
}

impl Link {
    /// Creates the access to MySQL at this address. It is not connected.
    pub(crate) fn new(database_url: &str, ids: &Arc<Ids>, points: &FailPoints) -> Self {
        let (ids, points) = (Arc::clone(ids), points.clone());
        let backoff = Backoff::new(RECONNECT.0, RECONNECT.1);
        Self { database_url: database_url.to_owned(), ids, points, backoff }
    }

    /// Lands a batch, however long MySQL is unreachable. Returns the jobs to be landed aside.
    pub(crate) async fn land(
        &mut self,
        jobs: Vec<Job>,
        connection: &mut MySqlConnection,
    ) -> Vec<Job> {
        let started = Instant::now();
        let coupons: usize = jobs.iter().map(Job::coupons).sum();
        metrics::histogram!(metric::BATCH_SIZE.name).record(coupons as f64);
        let jobs = jobs.into_iter().map(|mut job| {
            job.landing.landed.lands_later(delta(job.held_as_of.elapsed()));
            (job.answer, job.landing)
        });
        let (jobs, mut tried) = (jobs.collect(), Instant::now());
        let mut batch = Batch::new(jobs).with_fail_points(self.points.clone());
        loop {
            let ran = batch.run(connection, &self.ids).await;
            for (answer, outcome) in batch.take_done() {
                // The claim may have stopped waiting, if its task was ended at shutdown.
                drop(answer.send(outcome));
            }
            match ran {
                Ok(()) => break,
                Err(error) => {
                    *connection = self.connect_after(&error).await;
                    batch.lands_later(delta(tried.elapsed()));
                    tried = Instant::now();
                }
            }
        }
        self.worked();
        metrics::histogram!(metric::BATCH_SECONDS.name).record(started.elapsed().as_secs_f64());
        let aside = batch.take_aside().into_iter();
        aside.map(|(answer, landing)| Job { landing, answer, held_as_of: tried }).collect()
    }

    /// Connects again after a run that failed, however long it takes.
    pub(crate) async fn connect_after(&mut self, error: &RunError) -> MySqlConnection {
        runtime::seldom!("a lander lost MySQL; it keeps its batch", runtime::report(error));
        // Wait even if connecting succeeds. Otherwise a server that takes no writes would be called as fast as it
        // answers; also, another server may be the primary by now.
        self.backoff.wait().await;
        self.connect().await
    }

    /// Records that MySQL answered: the next wait is short again.
    pub(crate) fn worked(&mut self) {
        self.backoff.reset();
    }

    /// Connects, however long it takes.
    pub(crate) async fn connect(&mut self) -> MySqlConnection {
        loop {
            match timeout(CONNECT_MAX, connect::lander(&self.database_url)).await {
                Ok(Ok(connection)) => {
                    info!("a lander connected to MySQL");
                    return connection;
                }
                Ok(Err(error)) => {
                    runtime::seldom!("a lander cannot connect", runtime::report(&error));
                }
                Err(_) => runtime::seldom!("a lander cannot connect", "MySQL is silent"),
            }
            self.backoff.wait().await;
        }
    }
}

/// Returns a measured time in whole milliseconds, as times are stored.
pub(crate) fn delta(time: Duration) -> TimeDelta {
    TimeDelta::milliseconds(i64::try_from(time.as_millis()).unwrap_or_default())
}

/// Pings a connection. Returns whether it answers.
pub(crate) async fn answers(connection: &mut MySqlConnection) -> bool {
    matches!(timeout(CONNECT_MAX, connect::ping(connection)).await, Ok(Ok(())))
}

fn waiting(queue: &mpsc::Sender<Job>) -> usize {
    queue.max_capacity() - queue.capacity()
}

/// Returns which of `shares` lands a template. The low bits of an id count within its millisecond and are nearly always
/// 0, so the id is mixed first: multiplying by 2^64 divided by the golden ratio carries every bit upwards.
fn share_of(template: TemplateId, shares: usize) -> usize {
    let mixed = template.0.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    usize::try_from(mixed).unwrap_or(0) % shares
}

/// Takes jobs from the front as long as their coupons fit one batch; at least one.
pub(crate) fn take_batch(jobs: &mut Vec<Job>) -> Vec<Job> {
    let mut coupons = 0;
    let fitting = jobs
        .iter()
        .take_while(|job| {
            coupons += job.coupons();
            coupons <= BATCH_COUPONS_MAX
        })
        .count();
    jobs.drain(..fitting.max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_whose_low_bits_are_all_zero_are_shared_out_evenly() {
        let ids = (0..1_000).map(|ms| TemplateId((2_123_985_067_360_387_072 >> 22 | ms) << 22));
        let mut shares = [0; 4];
        for id in ids {
            shares[share_of(id, 4)] += 1;
        }
        assert!(shares.iter().all(|share| (200..=300).contains(share)), "{shares:?}");
    }
}

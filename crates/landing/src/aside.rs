//! Lands what a lander has set aside: admissions of templates whose stock row somebody holds for long.
//!
//! A template is aside from its first admission here to its last. What queues up meanwhile follows it, else the
//! lander would wait for the held row with every batch. It is a matter of speed alone: whichever connection lands an
//! admission, the transaction decides.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use coupon::TemplateId;
use tokio::sync::mpsc;

use crate::lander::{Job, Link, take_batch};

/// Admissions that all landers of this process have set aside.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// How many admissions of each template are aside.
type Counts = Arc<Mutex<HashMap<TemplateId, usize>>>;

/// The lander's end: what it sets aside goes in here. Its queue is bounded by the claims that may be under way.
pub(crate) struct Parked {
    counts: Counts,
    queue: mpsc::UnboundedSender<Job>,
}

/// The task that lands it.
pub(crate) struct Aside {
    counts: Counts,
    queue: mpsc::UnboundedReceiver<Job>,
    link: Link,
}

/// Admissions that wait aside in this process.
pub(crate) fn waiting() -> usize {
    WAITING.load(Ordering::Relaxed)
}

impl Parked {
    /// Sets aside those of `jobs` whose template is aside; answers the others.
    pub(crate) fn keep_apart(&self, jobs: Vec<Job>) -> Vec<Job> {
        let (aside, rest) = {
            let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            if counts.is_empty() {
                return jobs;
            }
            jobs.into_iter().partition(|job| counts.contains_key(&job.template()))
        };
        self.set_aside(aside);
        rest
    }

    /// Sets jobs aside.
    pub(crate) fn set_aside(&self, jobs: Vec<Job>) {
        for job in jobs {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.entry(job.template()).or_default() += 1;
            drop(counts);
            WAITING.fetch_add(1, Ordering::Relaxed);
            // The task ends after this end; if it was aborted, so is the lander.
            drop(self.queue.send(job));
        }
    }
}

impl Aside {
    /// Both ends.
    pub(crate) fn new(link: Link) -> (Parked, Self) {
        let (sender, queue) = mpsc::unbounded_channel();
        let counts = Counts::default();
        (Parked { counts: Arc::clone(&counts), queue: sender }, Self { counts, queue, link })
    }

    /// Lands until the lander's end is gone and nothing waits. Templates take turns, since a held row costs each
    /// attempt a wait. The connection lives as long as there is work: without a rest it needs no ping.
    pub(crate) async fn run(mut self) {
        while let Some(first) = self.queue.recv().await {
            let mut connection = self.link.connect().await;
            let mut turns = VecDeque::from([vec![first]]);
            loop {
                while let Ok(job) = self.queue.try_recv() {
                    take_turn(&mut turns, job);
                }
                let Some(mut jobs) = turns.pop_front() else { break };
                let batch = take_batch(&mut jobs);
                let (template, count) = (batch[0].template(), batch.len());
                if !jobs.is_empty() {
                    turns.push_back(jobs);
                }
                let again = self.link.land(batch, &mut connection).await;
                self.landed(template, count - again.len());
                for job in again {
                    take_turn(&mut turns, job);
                }
            }
        }
    }

    fn landed(&self, template: TemplateId, count: usize) {
        WAITING.fetch_sub(count, Ordering::Relaxed);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let left = counts.get(&template).copied().unwrap_or_default().saturating_sub(count);
        if left == 0 {
            counts.remove(&template);
        } else {
            counts.insert(template, left);
        }
    }
}

/// Queues a job with those of its template, or last as a template of its own.
fn take_turn(turns: &mut VecDeque<Vec<Job>>, job: Job) {
    match turns.iter_mut().find(|jobs| jobs[0].template() == job.template()) {
        Some(jobs) => jobs.push(job),
        None => turns.push_back(vec![job]),
    }
}

//! Lands the admissions that a lander set aside: those of templates whose stock row another transaction locks for
//! long.
//!
//! A template is aside from its first admission here until its last one has landed. Admissions that arrive meanwhile
//! are set aside too, or the lander would wait for the locked row with every batch. This affects speed only: the
//! transaction decides, no matter which connection lands the admission.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use coupon::TemplateId;
use tokio::sync::mpsc;

use crate::{
    lander::{Job, Link, take_batch},
    sync::{Arc, Mutex, MutexGuard},
};

/// Admissions that all landers of this process have set aside.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Number of admissions of each template that are aside, shared by the lander and the task that lands them.
#[derive(Clone)]
struct Counts(Arc<Mutex<HashMap<TemplateId, usize>>>);

/// The lander's end, which sets admissions aside. `CLAIMS_MAX` bounds its queue.
pub(crate) struct AsideQueue {
    counts: Counts,
    queue: mpsc::UnboundedSender<Job>,
}

/// The task that lands the admissions set aside.
pub(crate) struct Aside {
    counts: Counts,
    queue: mpsc::UnboundedReceiver<Job>,
    link: Link,
}

/// Returns the number of admissions aside in this process.
pub(crate) fn waiting() -> usize {
    WAITING.load(Ordering::Relaxed)
}

impl AsideQueue {
    /// Sets aside those of `jobs` whose template is aside and returns the others.
    pub(crate) fn keep_apart(&self, jobs: Vec<Job>) -> Vec<Job> {
        let (aside, rest) = {
            let counts = self.counts.lock();
            if counts.is_empty() {
                return jobs;
            }
            jobs.into_iter().partition(|job| counts.contains_key(&job.template()))
        };
        self.set_aside(aside);
        rest
    }

    pub(crate) fn set_aside(&self, jobs: Vec<Job>) {
        for job in jobs {
            // The task outlives this sender. If the task was aborted, the lander was too.
            self.counts.count(job.template(), || drop(self.queue.send(job)));
        }
    }
}

impl Aside {
    /// Returns both ends.
    pub(crate) fn new(link: Link) -> (AsideQueue, Self) {
        let (sender, queue) = mpsc::unbounded_channel();
        let counts = Counts::new();
        (AsideQueue { counts: counts.clone(), queue: sender }, Self { counts, queue, link })
    }

    /// Lands until the lander's end is dropped and nothing waits. Templates take turns, since each attempt at a
    /// locked row costs a lock wait. The connection lives as long as there is work; it is never idle, so it needs no
    /// ping.
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
                let template = batch[0].template();
                let count = batch.len();
                if !jobs.is_empty() {
                    turns.push_back(jobs);
                }
                let again = self.link.land(batch, &mut connection).await;
                self.counts.landed(template, count - again.len());
                for job in again {
                    take_turn(&mut turns, job);
                }
            }
        }
    }
}

impl Counts {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(HashMap::new())))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TemplateId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an admission and then sends it. In the other order it might have landed before it was counted, and its
    /// template would stay aside for ever.
    fn count(&self, template: TemplateId, send: impl FnOnce()) {
        *self.lock().entry(template).or_default() += 1;
        WAITING.fetch_add(1, Ordering::Relaxed);
        send();
    }

    fn landed(&self, template: TemplateId, count: usize) {
        WAITING.fetch_sub(count, Ordering::Relaxed);
        let mut counts = self.lock();
        let left = counts.get(&template).copied().unwrap_or_default().saturating_sub(count);
        if left == 0 {
            counts.remove(&template);
        } else {
            counts.insert(template, left);
        }
    }
}

/// Queues a job with the others of its template, or at the end if it is the first of its template.
fn take_turn(turns: &mut VecDeque<Vec<Job>>, job: Job) {
    match turns.iter_mut().find(|jobs| jobs[0].template() == job.template()) {
        Some(jobs) => jobs.push(job),
        None => turns.push_back(vec![job]),
    }
}

#[cfg(test)]
mod tests {
    use loom::{sync::mpsc, thread};

    use super::*;

    const TEMPLATE: TemplateId = TemplateId(1);

    /// A lander sets two admissions aside while the task lands what has come.
    #[test]
    fn a_template_is_aside_until_its_last_admission_has_landed_and_no_longer() {
        loom::model(|| {
            let counts = Counts::new();
            let (sender, queue) = mpsc::channel();
            let landing = {
                let counts = counts.clone();
                thread::spawn(move || {
                    for left in [1, 0] {
                        queue.recv().unwrap();
                        assert!(counts.lock().contains_key(&TEMPLATE), "{left} more come");
                        counts.landed(TEMPLATE, 1);
                    }
                })
            };
            for _ in 0..2 {
                counts.count(TEMPLATE, || sender.send(()).unwrap());
            }
            landing.join().unwrap();
            assert!(counts.lock().is_empty(), "it is landed with the others again");
        });
    }
}

//! [`Lander`]: the loop that takes what has queued up, and lands it as one batch after the other.

use std::{sync::Arc, time::Duration};

use mysql_store::MySqlConnection;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    batch::job::BATCH_COUPONS_MAX,
    lander::{Job, Link, answers, aside::Aside, pulse::Pulse},
};

/// Interval between pings of an idle connection; well within its `wait_timeout`.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(2);

/// One lander; [`Lander::run`] is its loop.
pub struct Lander {
    queue: mpsc::Receiver<Job>,
    link: Link,
    pulse: Arc<Pulse>,
}

impl Lander {
    pub(super) fn new(queue: mpsc::Receiver<Job>, link: Link, pulse: Arc<Pulse>) -> Self {
        Self { queue, link, pulse }
    }

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

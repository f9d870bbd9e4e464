//! Claims of a cancelled job that are queued already. They still land, so they must not be reported as cancelled.

use std::time::Duration;

use mysql_store::{
    connect,
    job::Job,
    stock::{self, QueueFacts},
};
use tokio::time::{Instant, sleep};

use super::Worker;

/// How long a turn waits for queued claims. The next turn asks again.
const DRAIN_MAX: Duration = Duration::from_secs(3);

/// Interval between looks at how far the queue has landed.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

impl Worker {
    /// Returns whether claims of the job's template that were accepted before this call may still be queued.
    pub(super) async fn may_be_queued(&self, job: &Job) -> anyhow::Result<bool> {
        let facts = connect::within(async {
            let mut connection = connect::acquire(&self.app.pool).await?;
            stock::queue_facts(&mut connection, job.template_id).await
        });
        let may = |facts: QueueFacts| facts.ever_queued && !facts.queue_closed;
        if !facts.await?.is_some_and(may) {
            return Ok(false);
        }
        match self.is_drained(job).await {
            Ok(drained) => Ok(!drained),
            Err(error) => {
                let why = format!("job {}: {}", job.id, runtime::report(error.as_ref()));
                runtime::seldom!("cancelled jobs wait until their queues are drained", why);
                Ok(true)
            }
        }
    }

    /// First the outbox, then the end of the partition: a claim that has left the outbox is before that end.
    async fn is_drained(&self, job: &Job) -> anyhow::Result<bool> {
        let gate = self.app.gates.gate();
        let queue = self.app.queue.of_claims();
        if gate.outbox_len(job.template_id).await? > 0 {
            return Ok(false);
        }
        let mut end = queue.end(job.template_id).await?;
        let give_up = Instant::now() + DRAIN_MAX;
        loop {
            if queue.reach(job.template_id).await?.has_passed(&mut end) {
                return Ok(true);
            }
            if Instant::now() >= give_up {
                return Ok(false);
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

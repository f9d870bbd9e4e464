//! Writes the rejected rows and fences of a batch, once all claims that can land have landed. One transaction writes
//! many rejections, because a gate that promised too much causes many.

use chrono::{DateTime, Utc};
use coupon::RejectReason;
use mysql_store::{
    MySqlConnection, StoreError,
    landing::{self, Landing, RejectOutcome},
};
use tokio::time::{sleep, timeout};
use tracing::error;

use crate::{
    batch::{CONFLICT_PAUSE, Ends, RunError, SILENCE_MAX},
    queued::{
        batch::{Queued, QueuedBatch, QueuedJob},
        end::{Ending, Next, QueuedEnd},
    },
};

/// Most rejections in one transaction. It holds the stock rows while it rereads and inserts, and every landing of these
/// templates waits for it.
pub(super) const REJECTED_MAX: usize = 256;

impl QueuedBatch {
    /// Writes the first endings, or finds that they are decided otherwise under the lock. After a lost connection, the
    /// endings that were not written are still queued.
    pub(super) async fn end_some(
        &mut self,
        connection: &mut MySqlConnection,
        now: DateTime<Utc>,
    ) -> Result<(), RunError> {
        self.points.reach("queued.before_end").await?;
        let (landings, reasons) = self.next_rejections();
        if self.ends.singly > 0 || landings.len() < 2 {
            return self.end_first(connection, now).await;
        }
        let rejecting = landing::reject_all(connection, &landings, &reasons, now);
        let rejected = timeout(SILENCE_MAX, rejecting).await.inspect_err(|_| {
            // Fewer at a time, as for landings: the same transaction would take as long every time.
            self.ends.rejected_max = (landings.len() / 2).max(1);
        });
        match rejected? {
            Ok(Some(outcomes)) => {
                for (outcome, reason) in outcomes.into_iter().zip(reasons) {
                    let Some((job, _)) = self.ends.endings.pop_front() else { break };
                    self.follow_locked(job, next(outcome, reason));
                }
            }
            Ok(None) => self.ends.singly = landings.len(),
            Err(error) if error.is_conflict() => {
                Queued::count_retry("conflict");
                sleep(CONFLICT_PAUSE).await;
            }
            // Tried alone, only the claim at fault is not rejected.
            Err(error) if error.is_of_row() || error.is_unreadable() => {
                self.ends.singly = landings.len();
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Returns the rejections at the front.
    fn next_rejections(&self) -> (Vec<Landing>, Vec<RejectReason>) {
        let rejection = |(job, ending): &(QueuedJob, Ending)| match ending {
            Ending::Reject(reason) => Some((job.landing.clone(), *reason)),
            Ending::Fence => None,
        };
        self.ends.endings.iter().map_while(rejection).take(self.ends.rejected_max).unzip()
    }

    async fn end_first(
        &mut self,
        connection: &mut MySqlConnection,
        now: DateTime<Utc>,
    ) -> Result<(), RunError> {
        let Some((job, ending)) = self.ends.endings.front() else { return Ok(()) };
        let id = job.landing.landed.id;
        let ending = *ending;
        let next = match timeout(SILENCE_MAX, write(connection, &job.landing, ending, now)).await? {
            Ok(next) => next,
            Err(error) if error.is_conflict() => {
                Queued::count_retry("conflict");
                sleep(CONFLICT_PAUSE).await;
                Next::Later(ending)
            }
            Err(error)
                if error.is_of_row()
                    || error.is_unreadable()
                    || error.duplicate_key().is_some() =>
            {
                let error = runtime::report(&error);
                error!(claim.id = %id, error, "MySQL takes neither a queued claim nor its rejection");
                Queued::count_retry("error");
                Next::End(QueuedEnd::Unlandable)
            }
            Err(error) => return Err(error.into()),
        };
        self.ends.singly = self.ends.singly.saturating_sub(1);
        if let Some((job, _)) = self.ends.endings.pop_front() {
            self.follow_locked(job, next);
        }
        Ok(())
    }
}

/// Writes the rejected row or the fence, and returns what follows for the claim.
async fn write(
    connection: &mut MySqlConnection,
    landing: &Landing,
    ending: Ending,
    now: DateTime<Utc>,
) -> Result<Next, StoreError> {
    match ending {
        Ending::Reject(reason) => {
            let outcome = landing::reject(connection, landing, reason, now).await?;
            Ok(next(outcome, reason))
        }
        Ending::Fence => {
            let stands = landing::fence_elsewhere(connection, landing, now).await?;
            Ok(Next::End(if stands { QueuedEnd::Elsewhere } else { QueuedEnd::TooLate }))
        }
    }
}

fn next(outcome: RejectOutcome, reason: RejectReason) -> Next {
    match outcome {
        RejectOutcome::Written => Next::End(QueuedEnd::Rejected(reason)),
        RejectOutcome::Otherwise(decision) => decision.into(),
    }
}

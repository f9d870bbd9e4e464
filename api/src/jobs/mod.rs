//! Runs jobs of grants, in turns of some rows.
//!
//! Each process has a few workers. A worker takes the job of the merchant who has waited longest, for one turn
//! (`turn.rs`), by a lease in MySQL; so the jobs of all merchants advance side by side, and a job whose process died
//! goes on elsewhere when its lease is over. A row is claimed like any other claim, through the gate and the lander,
//! under a key that names job and row. So a row that is repeated finds what landed before.

mod finish;
mod queued;
mod turn;
mod watch;

use std::{pin::pin, time::Duration};

use mysql_store::{StoreError, connect, job};
use runtime::Context;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub(crate) use self::turn::under_way;
use crate::state::App;

/// Workers of one process. With [`turn::ROWS_MAX`] rows each, they have a sixteenth of the claims that a process
/// has under way by default, and at most half of those that it may be set to (`CLAIMS_UNDER_WAY_MAX`), so users' own claims
/// hardly wait for them.
const WORKERS: usize = 4;

/// Interval between looks for a job that may have a turn.
const IDLE: Duration = Duration::from_millis(500);

/// Pause after a turn that failed, because MySQL is away or the ids are used up.
const FAILED: Duration = Duration::from_secs(1);

/// Longest wait for the release of a lease, after a failure and at the end.
const RELEASE_MAX: Duration = Duration::from_secs(1);

/// How long a turn under way may last once the process is to stop; without a job it takes milliseconds. A statement that
/// is dropped may leave its connection in the middle of an answer, which the next user of the connection cannot read.
const LAST_TURN_MAX: Duration = Duration::from_secs(2);

/// Starts the workers, which end when the process is to stop: they hold the landers. `holder` is the process's name.
pub(crate) fn start(app: &App, context: &Context, holder: &str) {
    for number in 0..WORKERS {
        let worker = Worker { app: app.clone(), owner: format!("{holder}-{number}") };
        context.spawn("jobs", worker.run(context.stop_token()));
    }
    context.spawn("job watch", watch::watch(app.pool.clone(), context.stop_token()));
}

struct Worker {
    app: App,
    /// Name in the leases of jobs. No other worker has it.
    owner: String,
}

impl Worker {
    async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        loop {
            let mut turn = pin!(self.turn());
            let Some(turn) = stop.run_until_cancelled(&mut turn).await else {
                drop(timeout(LAST_TURN_MAX, turn).await);
                break;
            };
            let pause = match turn {
                Ok(true) => continue,
                Ok(false) => IDLE,
                Err(error) => {
                    runtime::seldom!("jobs' turns fail", runtime::report(error.as_ref()));
                    self.release_soon().await;
                    FAILED
                }
            };
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                break;
            }
        }
        // Another process repeats the rows that were under way. It need not wait for the lease to end.
        self.release_soon().await;
        Ok(())
    }

    /// Releases the lease if MySQL answers soon; otherwise it runs out.
    async fn release_soon(&self) {
        drop(timeout(RELEASE_MAX, connect::within(self.release())).await);
    }

    async fn release(&self) -> Result<(), StoreError> {
        let mut connection = connect::acquire(&self.app.pool).await?;
        job::release(&mut connection, &self.owner, under_way()).await
    }
}

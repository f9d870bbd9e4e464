//! [`Link`]: a lander's connection to MySQL, reopened however long MySQL is away.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mysql_store::{MySqlConnection, connect};
use runtime::{Backoff, FailPoints};
use tokio::time::timeout;
use tracing::info;

use crate::{
    batch::{DirectBatch, RunError},
    ids::Ids,
    lander::Job,
    metric,
};

/// Time limit for connecting and for a ping, since the server may be gone without closing the connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// First and longest wait before a lander reconnects.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// A lander's access to MySQL. A clone has its own backoff.
#[derive(Clone)]
pub(crate) struct Link {
    database_url: String,
    ids: Arc<Ids>,
    points: FailPoints,
    /// Between attempts while the server is unreachable or takes no writes.
    backoff: Backoff,
}

impl Link {
    /// Creates the access to MySQL at this address. It is not connected.
    pub(crate) fn new(database_url: &str, ids: &Arc<Ids>, points: &FailPoints) -> Self {
        let ids = Arc::clone(ids);
        let points = points.clone();
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
        let mut batch = DirectBatch::new(jobs, self.points.clone());
        loop {
            let ran = batch.run(connection, &self.ids).await;
            for (answer, outcome) in batch.take_done() {
                // The claim may have stopped waiting, if its task was ended at shutdown.
                drop(answer.send(outcome));
            }
            match ran {
                Ok(()) => break,
                Err(error) => *connection = self.connect_after(&error).await,
            }
        }
        self.worked();
        metrics::histogram!(metric::BATCH_SECONDS.name).record(started.elapsed().as_secs_f64());
        batch.take_aside()
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

/// Pings a connection. Returns whether it answers.
pub(crate) async fn answers(connection: &mut MySqlConnection) -> bool {
    matches!(timeout(CONNECT_MAX, connect::ping(connection)).await, Ok(Ok(())))
}

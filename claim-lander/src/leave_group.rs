//! Leaves the consumer group while this process cannot reach MySQL, so that other processes, which may reach it, land
//! the claims of its partitions.

use std::time::Duration;

use mysql_store::{MySqlPool, connect};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use topic::LaneReader;
use tracing::{info, warn};

/// Time without an answer from MySQL after which the partitions are given up. It is longer than a restart or a switch
/// of primaries usually takes, because giving partitions up and getting them again costs seconds.
const AWAY_MAX: Duration = Duration::from_secs(10);

/// Interval between pings of MySQL.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The task that pings MySQL and leaves or joins one group.
pub(crate) struct GroupLeave<'a, T> {
    pub(crate) reader: &'a LaneReader<T>,
    pub(crate) pool: &'a MySqlPool,
    /// Whether the process has left the group.
    pub(crate) has_left: watch::Sender<bool>,
}

impl<T> GroupLeave<'_, T> {
    /// Leaves and joins again, for ever.
    pub(crate) async fn run(&self) {
        let mut heard = Instant::now();
        loop {
            sleep(ASK_EVERY).await;
            let has_left = *self.has_left.borrow();
            if self.answers().await {
                heard = Instant::now();
                if has_left {
                    self.come_back();
                }
            } else if !has_left && heard.elapsed() >= AWAY_MAX {
                self.leave().await;
            }
        }
    }

    async fn leave(&self) {
        // Set before leaving, so that the partitions are not reported as lost.
        self.has_left.send_replace(true);
        warn!("MySQL does not answer this lander: its partitions are left to others");
        if let Err(error) = self.reader.leave().await {
            // The landers get the error too, and end the process.
            warn!(error = runtime::report(&error), "the group could not be left in order");
        }
    }

    fn come_back(&self) {
        match self.reader.rejoin() {
            Ok(()) => {
                info!("MySQL answers this lander again: it takes part");
                self.has_left.send_replace(false);
            }
            Err(error) => {
                runtime::seldom!("a lander cannot join its group again", runtime::report(&error));
            }
        }
    }

    async fn answers(&self) -> bool {
        let asked = connect::within(async {
            let mut connection = connect::acquire(self.pool).await?;
            connect::ping(&mut connection).await
        });
        asked.await.is_ok()
    }
}

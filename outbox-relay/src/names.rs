//! The name of a worker, held by a lease in MySQL.
//!
//! A name that comes back has its list of entries in hand at the gate, so few names are used again and again.

use std::{process, time::Duration};

use mysql_store::{MySqlPool, StoreError, connect, lease};
use runtime::{Backoff, Part};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Life of a lease that is not renewed. A worker that died is replaced after it.
pub(crate) const LEASE: Duration = Duration::from_secs(6);

/// Interval between renewals: two may fail.
const RENEW_EVERY: Duration = Duration::from_secs(2);

/// Most workers of all relays together. A worker that begins looks through the names from the first one on.
const NAMES_MAX: u16 = 64;

/// Pauses between attempts to get a name.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The names as one worker sees them.
#[derive(Clone)]
pub(crate) struct Names {
    pool: MySqlPool,
    mysql: Part,
    /// A name that no other worker has ever had; the leases are held under it.
    holder: String,
}

impl Names {
    /// Makes the view of a new worker. `mysql` is told whether MySQL answers.
    pub(crate) fn new(pool: MySqlPool, mysql: Part) -> Self {
        let holder = format!("outbox-relay-{}-{:016x}", process::id(), fastrand::u64(..));
        Self { pool, mysql, holder }
    }

    /// Waits until a name is free and takes it. `None` once stopped.
    pub(crate) async fn hold(&self, stop: &CancellationToken) -> Option<String> {
        let mut backoff = Backoff::new(AGAIN.0, AGAIN.1);
        while !stop.is_cancelled() {
            match self.take_any().await {
                Ok(Some(name)) => {
                    info!(worker = name, "a worker begins");
                    return Some(name);
                }
                Ok(None) => {
                    let all = format!("{NAMES_MAX} workers run already, of all relays together");
                    runtime::seldom!("a worker waits for a name", all);
                }
                Err(error) => {
                    let error = runtime::report(&error);
                    runtime::seldom!("a worker waits for a name", error);
                }
            }
            if stop.run_until_cancelled(backoff.wait()).await.is_none() {
                break;
            }
        }
        None
    }

    /// Renews the lease, and resolves once another worker has the name. A MySQL that does not answer takes no name
    /// away.
    pub(crate) async fn lost(&self, name: &str) {
        loop {
            sleep(RENEW_EVERY).await;
            match self.take(name).await {
                Ok(true) => {}
                Ok(false) => {
                    warn!(worker = name, "another worker has the name now");
                    return;
                }
                Err(error) => {
                    let error = runtime::report(&error);
                    runtime::seldom!("the lease of a worker is not renewed", error);
                }
            }
        }
    }

    /// Gives the name back, so that the next worker need not wait for the lease to end.
    pub(crate) async fn release(&self, name: &str) {
        let released = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            lease::release(&mut connection, &lease_name(name), &self.holder).await
        });
        if let Err(error) = released.await {
            info!(error = runtime::report(&error), "the lease of a worker ends by itself");
        }
    }

    async fn take_any(&self) -> Result<Option<String>, StoreError> {
        for number in 1..=NAMES_MAX {
            let name = format!("relay-{number}");
            if self.take(&name).await? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    async fn take(&self, name: &str) -> Result<bool, StoreError> {
        let taken = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            lease::take(&mut connection, &lease_name(name), &self.holder, LEASE).await
        })
        .await;
        match &taken {
            Ok(_) => self.mysql.ready(),
            Err(error) => self.mysql.not_ready(runtime::report(error)),
        }
        taken
    }
}

fn lease_name(name: &str) -> String {
    format!("outbox-{name}")
}

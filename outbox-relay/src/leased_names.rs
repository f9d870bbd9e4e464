//! Names of workers. A worker holds its name by a lease in MySQL; while MySQL is away, it uses a spare name.
//!
//! The gate keeps a list of pending entries for each name. So a few names are reused, and a new holder of a name
//! finds the list of the last one.

use std::{process, sync::Arc, time::Duration};

use mysql_store::{MySqlPool, StoreError, connect, lease, migrate};
use runtime::{Backoff, Part, Secret};
use tokio::{sync::OnceCell, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Connections to MySQL: leases of names, which take turns.
const MYSQL_CONNECTIONS: u32 = 2;

/// Life of a lease that is not renewed. A worker that died is replaced after it.
pub(crate) const LEASE: Duration = Duration::from_secs(6);

/// Interval between renewals: two may fail.
const RENEW_EVERY: Duration = Duration::from_secs(2);

/// Most workers of all relays together. A new worker tries the names in order.
const NAMES_MAX: u16 = 64;

/// Pauses between attempts to get a name.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The MySQL of the leases. It may be away when the relay starts.
pub(crate) struct Leases {
    url: Secret,
    pool: OnceCell<MySqlPool>,
    health: Part,
}

impl Leases {
    /// Connects to nothing yet. `health` shows whether MySQL answers.
    pub(crate) fn new(url: Secret, health: Part) -> Self {
        Self { url, pool: OnceCell::new(), health }
    }

    /// Connects, unless MySQL is away: then the first lease does.
    ///
    /// # Errors
    /// The address can never be right, MySQL refuses us, or its schema is not this program's.
    pub(crate) async fn begin(&self) -> Result<(), StoreError> {
        connect::database_of(self.url.expose())?;
        match self.pool().await {
            Ok(_) => Ok(()),
            Err(error) if error.is_unavailable() => {
                warn!(error = runtime::report(&error), "started without MySQL");
                self.health.not_ready(runtime::report(&error));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn pool(&self) -> Result<&MySqlPool, StoreError> {
        let connect = || migrate::checked_pool(self.url.expose(), MYSQL_CONNECTIONS);
        self.pool.get_or_try_init(connect).await
    }
}

/// The name of a worker.
pub(crate) enum Name {
    /// Held by a lease.
    Leased(String),
    /// For a worker that cannot have a lease now. Another may have the same one: then both publish the pending
    /// entries of either.
    Spare(String),
}

impl Name {
    fn spare() -> Self {
        Self::Spare(format!("relay-spare-{}", fastrand::u16(1..=NAMES_MAX)))
    }
}

/// The names as one worker sees them.
#[derive(Clone)]
pub(crate) struct Names {
    leases: Arc<Leases>,
    /// A name that no other worker has ever had; the leases are held under it.
    holder: String,
}

impl Names {
    /// Makes the names of a new worker.
    pub(crate) fn new(leases: Arc<Leases>) -> Self {
        let holder = format!("outbox-relay-{}-{:016x}", process::id(), fastrand::u64(..));
        Self { leases, holder }
    }

    /// Waits until a name is free and takes it, or a spare one if MySQL cannot be asked. `None` once stopped.
    pub(crate) async fn hold(&self, stop: &CancellationToken) -> Option<Name> {
        let mut backoff = Backoff::new(AGAIN.0, AGAIN.1);
        while !stop.is_cancelled() {
            match self.take_any().await {
                Ok(Some(name)) => {
                    info!(worker = name, "a worker begins");
                    return Some(Name::Leased(name));
                }
                Ok(None) => {
                    let all = format!("{NAMES_MAX} workers run already, of all relays together");
                    runtime::seldom!("a worker waits for a name", all);
                }
                Err(error) => {
                    let error = runtime::report(&error);
                    runtime::seldom!("a worker works without a lease", error);
                    return Some(Name::spare());
                }
            }
            if stop.run_until_cancelled(backoff.wait()).await.is_none() {
                break;
            }
        }
        None
    }

    /// Resolves once MySQL answers again: with a leased name, if one was free.
    pub(crate) async fn returned(&self) -> Option<Name> {
        loop {
            sleep(RENEW_EVERY).await;
            if let Ok(name) = self.take_any().await {
                return name.map(Name::Leased);
            }
        }
    }

    /// Renews the lease, and resolves once another worker has the name. An unreachable MySQL takes no name away.
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
            let mut connection = connect::acquire(self.leases.pool().await?).await?;
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
            let mut connection = connect::acquire(self.leases.pool().await?).await?;
            lease::take(&mut connection, &lease_name(name), &self.holder, LEASE).await
        })
        .await;
        match &taken {
            Ok(_) => self.leases.health.ready(),
            Err(error) => self.leases.health.not_ready(runtime::report(error)),
        }
        taken
    }
}

fn lease_name(name: &str) -> String {
    format!("outbox-{name}")
}

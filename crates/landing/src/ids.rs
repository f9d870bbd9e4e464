//! Ids: 64-bit snowflakes made under a worker number that is leased in MySQL.
//!
//! Before each id the lease's end is compared with the monotonic clock, so a process that was stopped
//! and continued makes none under a number that another may hold by now.

use std::{
    sync::{PoisonError, RwLock},
    time::{Duration, Instant},
};

use coupon::{ApiKeyId, AuditId, ClaimId, CouponId, MerchantId, TemplateId};
use ferroid::{
    generator::{AtomicSnowflakeGenerator, Poll},
    id::SnowflakeTwitterId,
    time::{MonotonicClock, TWITTER_EPOCH, TimeSource},
};
use mysql_store::{MySqlConnection, MySqlPool, StoreError, connect, worker_lease};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// How long a worker number is leased: several renewals may fail before ids stop.
const LEASE: Duration = Duration::from_secs(30);

/// How often the lease is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(5);

/// By how much a lease counts as shorter here than in MySQL: the two clocks' rates differ by far less.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// How far the ids of a number's earlier holder may lie ahead for this process to wait for its own clock.
/// Half of a lease, so that time is left to use it.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// No id can be made now.
#[derive(Debug, Error)]
pub enum IdError {
    /// All worker numbers are leased, or were used by clocks that are ahead of this one.
    #[error(
        "all {} worker numbers are leased, or were used by a clock ahead of this one: compare `last_ms` \
         in the table worker_lease with this machine's time",
        worker_lease::WORKERS
    )]
    NoWorker,
    /// The lease was lost; another is being asked for.
    #[error("the worker number's lease is lost")]
    LeaseLost,
    /// The lease could not be taken.
    #[error("no worker number could be leased")]
    Store(#[from] StoreError),
}

/// Makes ids while its lease holds.
pub struct Ids {
    pool: MySqlPool,
    holder: String,
    leased: RwLock<Leased>,
}

struct Leased {
    worker: u16,
    until: Instant,
    generator: AtomicSnowflakeGenerator<SnowflakeTwitterId, MonotonicClock<1>>,
}

impl Ids {
    /// Leases a worker number for `holder`, a name that no other process has.
    ///
    /// # Errors
    /// MySQL cannot be reached, or all numbers are taken: then the process must not start.
    pub async fn lease(pool: MySqlPool, holder: &str) -> Result<Self, IdError> {
        let leased = take(&pool, holder).await?;
        info!(ids.worker = leased.worker, "leased a worker number");
        Ok(Self { pool, holder: holder.to_owned(), leased: RwLock::new(leased) })
    }

    /// A claim's id.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn claim(&self) -> Result<ClaimId, IdError> {
        self.next().map(ClaimId)
    }

    /// A coupon's id.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn coupon(&self) -> Result<CouponId, IdError> {
        self.next().map(CouponId)
    }

    /// A template's id.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn template(&self) -> Result<TemplateId, IdError> {
        self.next().map(TemplateId)
    }

    /// A merchant's id.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn merchant(&self) -> Result<MerchantId, IdError> {
        self.next().map(MerchantId)
    }

    /// An operator key's id.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn api_key(&self) -> Result<ApiKeyId, IdError> {
        self.next().map(ApiKeyId)
    }

    /// The id of a line in the record of what operators did.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn audit(&self) -> Result<AuditId, IdError> {
        self.next().map(AuditId)
    }

    fn next(&self) -> Result<i64, IdError> {
        let leased = self.leased.read().unwrap_or_else(PoisonError::into_inner);
        loop {
            if Instant::now() >= leased.until {
                return Err(IdError::LeaseLost);
            }
            match leased.generator.poll_id() {
                // The layout's top bit is never set before the year 2080.
                Poll::Ready { id } => return Ok(id.to_raw().cast_signed()),
                // 4,096 ids of this millisecond are made: the next one is near.
                Poll::Pending { .. } => std::thread::yield_now(),
            }
        }
    }

    /// Renews the lease until `stop`, then gives it back; takes another number when it is lost.
    pub async fn keep(&self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(RENEW_EVERY)).await.is_some() {
            if let Err(error) = self.renew().await {
                warn!(error = %error, "the worker number could not be renewed");
            }
        }
        let (worker, _) = self.held();
        self.leased.write().unwrap_or_else(PoisonError::into_inner).until = Instant::now();
        if let Ok(mut connection) = connect::acquire(&self.pool).await {
            let last = id_clock_ms();
            let released = worker_lease::release(&mut connection, worker, &self.holder, last);
            drop(connect::within(released).await);
        }
    }

    async fn renew(&self) -> Result<(), IdError> {
        let (worker, until) = self.held();
        let asked = Instant::now();
        if asked < until {
            let mut connection = connect::acquire(&self.pool).await?;
            if record(&mut connection, worker, &self.holder).await? {
                let mut leased = self.leased.write().unwrap_or_else(PoisonError::into_inner);
                leased.until = asked + LEASE - LEASE_MARGIN;
                return Ok(());
            }
        }
        error!(ids.worker = worker, "lost the worker number");
        let fresh = take(&self.pool, &self.holder).await?;
        info!(ids.worker = fresh.worker, "leased another worker number");
        *self.leased.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    fn held(&self) -> (u16, Instant) {
        let leased = self.leased.read().unwrap_or_else(PoisonError::into_inner);
        (leased.worker, leased.until)
    }
}

async fn take(pool: &MySqlPool, holder: &str) -> Result<Leased, IdError> {
    let mut connection = connect::acquire(pool).await?;
    let asked = Instant::now();
    let reach_ms = id_clock_ms() + millis(WAIT_MAX);
    let lease = connect::within(worker_lease::take(&mut connection, holder, LEASE, reach_ms));
    let lease = lease.await?.ok_or(IdError::NoWorker)?;
    // An earlier holder that crashed may have made ids up to the end of its lease; one that ended in
    // order, up to its end. A clock behind that waits.
    while id_clock_ms() <= lease.last_ms {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if asked.elapsed() >= LEASE - LEASE_MARGIN {
            return Err(IdError::LeaseLost);
        }
    }
    // Before the first id: this process may end before it ever renews.
    if !record(&mut connection, lease.worker, holder).await? {
        return Err(IdError::LeaseLost);
    }
    let clock = MonotonicClock::<1>::with_epoch(TWITTER_EPOCH);
    Ok(Leased {
        worker: lease.worker,
        until: asked + LEASE - LEASE_MARGIN,
        generator: AtomicSnowflakeGenerator::new(u64::from(lease.worker), clock),
    })
}

/// Renews the lease, and records that ids of its whole time may be made. Answers whether `holder` has
/// it still.
async fn record(
    connection: &mut MySqlConnection,
    worker: u16,
    holder: &str,
) -> Result<bool, StoreError> {
    let last_ms = id_clock_ms() + millis(LEASE);
    connect::within(worker_lease::renew(connection, worker, holder, LEASE, last_ms)).await
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// The clock that ids are made by, in milliseconds since 1970: the wall clock at the process's start,
/// and monotonic from then on.
fn id_clock_ms() -> i64 {
    let ms: u64 = MonotonicClock::<1>::default().current_millis();
    ms.cast_signed()
}

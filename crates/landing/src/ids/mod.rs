//! Ids: 64-bit snowflakes made under a worker number that is leased in MySQL.
//!
//! Before each id the end of the lease is compared with the monotonic clock. A process that was stopped and continued
//! therefore makes no ids under a number that another process may hold by now. If the clock at the start was wrong and
//! is corrected later, ids continue from the corrected time.

pub(crate) mod id_clock;

use std::{
    sync::{PoisonError, RwLock},
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use coupon::{ApiKeyId, AuditId, ClaimId, CouponId, JobId, MerchantId, RedemptionId, TemplateId};
use ferroid::{
    generator::{AtomicSnowflakeGenerator, Poll},
    id::SnowflakeTwitterId,
    time::TWITTER_EPOCH,
};
use mysql_store::{MySqlConnection, MySqlPool, StoreError, connect, settings, worker_lease};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::ids::id_clock::IdClock;

/// Duration of a worker number's lease. Several renewals may fail before id generation stops.
const LEASE: Duration = Duration::from_secs(30);

/// Interval between renewals of the lease.
const RENEW_EVERY: Duration = Duration::from_secs(5);

/// How much earlier a lease ends here than in MySQL. The rates of the two clocks differ by far less.
const LEASE_MARGIN: Duration = Duration::from_secs(5);

/// If the last ids of a number's previous holder are ahead by no more than this, the process waits until its own clock
/// catches up. Half of a lease, so that time is left to use it.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// How far the id clock may be behind before it is corrected. NTP keeps clocks within milliseconds.
const BEHIND_MAX: Duration = Duration::from_secs(1);

/// No id can be made now.
#[derive(Debug, Error)]
pub enum IdError {
    /// All worker numbers are leased, or their last ids are ahead of this process's clock.
    #[error(
        "all {} worker numbers are leased, or were used by a clock ahead of this one: compare `last_ms` \
         in the table worker_lease with this machine's time",
        worker_lease::WORKERS
    )]
    NoWorker,
    /// The lease was lost; the process tries to take another.
    #[error("the worker number's lease is lost")]
    LeaseLost,
    #[error("no worker number could be leased")]
    Store(#[from] StoreError),
}

/// Makes ids while its lease is valid.
pub struct Ids {
    pool: MySqlPool,
    holder: String,
    clock: IdClock,
    leased: RwLock<Leased>,
}

struct Leased {
    worker: u16,
    until: Instant,
    generator: AtomicSnowflakeGenerator<SnowflakeTwitterId, IdClock>,
}

impl Ids {
    /// Leases a worker number for `holder`, a name that no other process has.
    ///
    /// # Errors
    /// MySQL cannot be reached, or all numbers are taken. The process must not start then.
    pub async fn lease(pool: MySqlPool, holder: &str) -> Result<Self, IdError> {
        let clock = IdClock::new();
        let leased = take(&pool, holder, &clock).await?;
        info!(ids.worker = leased.worker, "leased a worker number");
        Ok(Self { pool, holder: holder.to_owned(), clock, leased: RwLock::new(leased) })
    }

    /// Makes a claim id.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn claim(&self) -> Result<ClaimId, IdError> {
        self.next().map(ClaimId)
    }

    /// Makes a coupon id.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn coupon(&self) -> Result<CouponId, IdError> {
        self.next().map(CouponId)
    }

    /// Makes a template id.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn template(&self) -> Result<TemplateId, IdError> {
        self.next().map(TemplateId)
    }

    /// Makes a merchant id.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn merchant(&self) -> Result<MerchantId, IdError> {
        self.next().map(MerchantId)
    }

    /// Makes an API key id.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn api_key(&self) -> Result<ApiKeyId, IdError> {
        self.next().map(ApiKeyId)
    }

    /// Makes an id for a record of a redemption.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn redemption(&self) -> Result<RedemptionId, IdError> {
        self.next().map(RedemptionId)
    }

    /// Makes an id for an audit record.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn audit(&self) -> Result<AuditId, IdError> {
        self.next().map(AuditId)
    }

    /// Makes a job id.
    ///
    /// # Errors
    /// The lease is lost.
    pub fn job(&self) -> Result<JobId, IdError> {
        self.next().map(JobId)
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
                // All 4,096 ids of this millisecond are used, and the next millisecond is near.
                Poll::Pending { .. } => std::thread::yield_now(),
            }
        }
    }

    /// Renews the lease until `stop`, then releases it. Takes another number if the lease is lost. `now` is the
    /// process's wall clock, which may be corrected while it runs.
    pub async fn keep(&self, now: impl Fn() -> DateTime<Utc>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(RENEW_EVERY)).await.is_some() {
            if let Err(error) = self.renew(now()).await {
                let error = runtime::report(&error);
                runtime::seldom!("the worker number could not be renewed", error);
            }
        }
        let (worker, _) = self.held();
        self.leased.write().unwrap_or_else(PoisonError::into_inner).until = Instant::now();
        if let Ok(mut connection) = connect::acquire(&self.pool).await {
            let last = self.clock.ms();
            let released = worker_lease::release(&mut connection, worker, &self.holder, last);
            drop(connect::within(released).await);
        }
    }

    /// Renews the lease, and corrects the id clock if it is behind `now`.
    ///
    /// # Errors
    /// MySQL failed, or no worker number is free.
    pub async fn renew(&self, now: DateTime<Utc>) -> Result<(), IdError> {
        let (worker, until) = self.held();
        let asked = Instant::now();
        if asked < until {
            let mut connection = connect::acquire(&self.pool).await?;
            let behind = self.behind(&mut connection, now).await?;
            let from = self.clock.ms() + millis(behind);
            if record(&mut connection, worker, &self.holder, from).await? {
                if !behind.is_zero() {
                    warn!(behind_s = behind.as_secs(), "the ids' clock follows a corrected clock");
                    self.clock.go_on_from(from);
                }
                let mut leased = self.leased.write().unwrap_or_else(PoisonError::into_inner);
                leased.until = asked + LEASE - LEASE_MARGIN;
                return Ok(());
            }
        }
        error!(ids.worker = worker, "lost the worker number");
        let fresh = take(&self.pool, &self.holder, &self.clock).await?;
        info!(ids.worker = fresh.worker, "leased another worker number");
        *self.leased.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Returns how far ids are behind the time on which this machine and MySQL agree; zero if no correction is due. If
    /// only one of the two clocks is ahead, nothing changes, because an id from the future could not be taken back.
    async fn behind(
        &self,
        connection: &mut MySqlConnection,
        now: DateTime<Utc>,
    ) -> Result<Duration, StoreError> {
        let ids = self.clock.ms();
        if now.timestamp_millis() - ids <= millis(BEHIND_MAX) {
            return Ok(Duration::ZERO);
        }
        let servers = connect::within(settings::server_time(connection)).await?;
        let agreed = now.min(servers).timestamp_millis();
        let behind = Duration::from_millis((agreed - ids).max(0).unsigned_abs());
        Ok(if behind > BEHIND_MAX { behind } else { Duration::ZERO })
    }

    fn held(&self) -> (u16, Instant) {
        let leased = self.leased.read().unwrap_or_else(PoisonError::into_inner);
        (leased.worker, leased.until)
    }
}

async fn take(pool: &MySqlPool, holder: &str, clock: &IdClock) -> Result<Leased, IdError> {
    let mut connection = connect::acquire(pool).await?;
    let asked = Instant::now();
    let reach_ms = clock.ms() + millis(WAIT_MAX);
    let lease = connect::within(worker_lease::take(&mut connection, holder, LEASE, reach_ms));
    let lease = lease.await?.ok_or(IdError::NoWorker)?;
    // A previous holder that crashed may have made ids up to the end of its lease; one that stopped cleanly, up to its
    // stop. If this clock is behind that, wait.
    while clock.ms() <= lease.last_ms {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if asked.elapsed() >= LEASE - LEASE_MARGIN {
            return Err(IdError::LeaseLost);
        }
    }
    // Record before the first id, because this process may end before its first renewal.
    if !record(&mut connection, lease.worker, holder, clock.ms()).await? {
        return Err(IdError::LeaseLost);
    }
    Ok(Leased {
        worker: lease.worker,
        until: asked + LEASE - LEASE_MARGIN,
        generator: AtomicSnowflakeGenerator::new(u64::from(lease.worker), clock.clone()),
    })
}

/// Renews the lease, and records that ids may be made from `from_ms` until its end. Returns whether `holder` still has
/// the lease.
async fn record(
    connection: &mut MySqlConnection,
    worker: u16,
    holder: &str,
    from_ms: i64,
) -> Result<bool, StoreError> {
    let last_ms = from_ms + millis(LEASE);
    connect::within(worker_lease::renew(connection, worker, holder, LEASE, last_ms)).await
}

/// Returns when an id was made, by the clock of the process that made it.
pub fn made_at(id: i64) -> DateTime<Utc> {
    // The layout: 41 bits of milliseconds above 22 bits of worker and sequence.
    let ms = (id.cast_unsigned() >> 22) + u64::try_from(TWITTER_EPOCH.as_millis()).unwrap_or(0);
    DateTime::from_timestamp_millis(ms.cast_signed()).unwrap_or_default()
}

/// Returns the lowest id that is made at a time or later.
pub fn first_at(time: DateTime<Utc>) -> i64 {
    let epoch = i64::try_from(TWITTER_EPOCH.as_millis()).unwrap_or(0);
    let ms = time.timestamp_millis().saturating_sub(epoch).max(0);
    ms.saturating_mul(1 << 22)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::made_at;

    /// Views order coupons by the digits of their ids, MySQL by their numeric values. Both orders agree if all ids have
    /// the same length.
    #[test]
    fn every_id_that_is_made_has_nineteen_digits() {
        let first_of_nineteen = made_at(1_000_000_000_000_000_000);
        assert!(first_of_nineteen.timestamp() < 1_600_000_000, "{first_of_nineteen}");
        assert_eq!(i64::MAX.to_string().len(), 19);
    }
}

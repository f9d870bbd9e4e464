//! Ids: 64-bit snowflakes made under a worker number that is leased in MySQL.
//!
//! MySQL's row of the number says for which times its holder may make ids, minutes ahead, so ids are made while MySQL
//! is away. The next holder begins behind these times. A process that was stopped and continued therefore makes no ids
//! that another process may make, whatever its wall clock says, because the clock for ids is monotonic. If the clock at
//! the start was wrong and is corrected later, ids continue from the corrected time.
//!
//! `docs/decisions/0090` says why the times are what they are; the model is `crates/model/src/worker`.

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
use mysql_store::{
    MySqlConnection, MySqlPool, StoreError, connect, settings,
    worker_lease::{self, Taking},
};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::ids::id_clock::IdClock;

/// Duration of a worker number's lease, and how far its range of ids reaches, from a renewal on. MySQL may be away for
/// that long less twice [`LOSS`] and queued claims still get ids; they are promised ten minutes.
const LEASE: Duration = Duration::from_secs(20 * 60);

/// Duration of a lease that has not been renewed yet, and its range of ids. The promised ten minutes hold from the first
/// moment on: MySQL may go away at any time until the first renewal counts, which is [`LOSS`] and two renewals after the
/// start. A process that dies before costs the number for this time: 1,024 numbers allow 78 such starts a minute.
const FIRST_LEASE: Duration = Duration::from_secs(13 * 60);

/// Interval between renewals of the lease.
const RENEW_EVERY: Duration = Duration::from_secs(5);

/// A failover of MySQL may lose its newest changes, a minute in the worst case that is planned for. A renewed range is
/// used only after twice that.
const LOSS: Duration = Duration::from_secs(2 * 60);

/// If the last ids of a number's previous holder are ahead by no more than this, the process waits until its own clock
/// catches up. Far less than the first lease, so that time is left to use it.
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

/// Makes ids for as long as MySQL has recorded.
pub struct Ids {
    pool: MySqlPool,
    holder: String,
    clock: IdClock,
    leased: RwLock<Leased>,
}

struct Leased {
    worker: u16,
    /// The last time for which ids are made, in milliseconds since 1970.
    last_ms: i64,
    /// A renewal that a failover may still lose.
    young: Option<Renewed>,
    generator: AtomicSnowflakeGenerator<SnowflakeTwitterId, IdClock>,
}

#[derive(Debug, Clone, Copy)]
struct Renewed {
    at: Instant,
    last_ms: i64,
}

impl Ids {
    /// Leases a worker number for `holder`, a name that no other process has.
    ///
    /// # Errors
    /// MySQL cannot be reached, or all numbers are taken. The process must not start then.
    pub async fn lease(pool: MySqlPool, holder: &str) -> Result<Self, IdError> {
        let clock = IdClock::new();
        let leased = take(&pool, holder, &clock, Duration::ZERO).await?;
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
            match leased.generator.poll_id() {
                Poll::Ready { id } => {
                    // The layout's top bit is never set before the year 2080.
                    let id = id.to_raw().cast_signed();
                    let is_recorded = made_at(id).timestamp_millis() <= leased.last_ms;
                    return if is_recorded { Ok(id) } else { Err(IdError::LeaseLost) };
                }
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
        let worker = {
            let mut leased = self.leased.write().unwrap_or_else(PoisonError::into_inner);
            leased.last_ms = i64::MIN;
            leased.worker
        };
        self.give_back(worker, self.clock.ms()).await;
    }

    /// Gives a number back under which no ids are made any more. If MySQL does not answer, its lease ends by itself.
    async fn give_back(&self, worker: u16, last_ms: i64) {
        if let Ok(mut connection) = connect::acquire(&self.pool).await {
            let released = worker_lease::release(&mut connection, worker, &self.holder, last_ms);
            drop(connect::within(released).await);
        }
    }

    /// Renews the lease, and corrects the id clock if it is behind `now`.
    ///
    /// # Errors
    /// MySQL failed, or no worker number is free.
    pub async fn renew(&self, now: DateTime<Utc>) -> Result<(), IdError> {
        let (worker, last_ms) = self.held();
        let asked = Instant::now();
        if self.clock.ms() <= last_ms {
            let mut connection = connect::acquire(&self.pool).await?;
            let behind = self.behind(&mut connection, now).await?;
            let from = self.clock.ms() + millis(behind);
            if from > last_ms {
                drop(connection);
                return self.go_on_under_another_number(behind).await;
            }
            let last_ms = from + millis(LEASE);
            let renewed =
                worker_lease::renew(&mut connection, worker, &self.holder, LEASE, last_ms);
            if let Some(recorded_ms) = connect::within(renewed).await? {
                let mut leased = self.leased.write().unwrap_or_else(PoisonError::into_inner);
                leased.renewed(recorded_ms, Renewed { at: asked, last_ms });
                self.correct(behind);
                return Ok(());
            }
        }
        error!(ids.worker = worker, "lost the worker number");
        let fresh = take(&self.pool, &self.holder, &self.clock, Duration::ZERO).await?;
        info!(ids.worker = fresh.worker, "leased another worker number");
        *self.leased.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Corrects a clock that is behind by more than the range of its number reaches. The new number's range begins at
    /// the corrected time.
    async fn go_on_under_another_number(&self, behind: Duration) -> Result<(), IdError> {
        let fresh = take(&self.pool, &self.holder, &self.clock, behind).await?;
        info!(ids.worker = fresh.worker, "leased another worker number");
        let (worker, last_ms) = {
            let mut leased = self.leased.write().unwrap_or_else(PoisonError::into_inner);
            let last_ms = self.clock.ms();
            self.correct(behind);
            (std::mem::replace(&mut *leased, fresh).worker, last_ms)
        };
        self.give_back(worker, last_ms).await;
        Ok(())
    }

    fn correct(&self, behind: Duration) {
        if !behind.is_zero() {
            warn!(behind_s = behind.as_secs(), "the ids' clock follows a corrected clock");
            self.clock.go_on_from(self.clock.ms() + millis(behind));
        }
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

    /// Returns the worker number and the last time for which ids are made.
    fn held(&self) -> (u16, i64) {
        let leased = self.leased.read().unwrap_or_else(PoisonError::into_inner);
        (leased.worker, leased.last_ms)
    }
}

impl Leased {
    /// A renewal was written over the range that ends at `recorded_ms`. An earlier renewal counts from now on if that
    /// range has it, and if it is so old that no failover loses it.
    fn renewed(&mut self, recorded_ms: i64, renewed: Renewed) {
        match self.young {
            Some(young) if recorded_ms < young.last_ms => self.young = Some(renewed),
            Some(young) if renewed.at.duration_since(young.at) > LOSS => {
                self.last_ms = young.last_ms;
                self.young = Some(renewed);
            }
            Some(_) => {}
            None => self.young = Some(renewed),
        }
    }
}

/// Takes a number for ids from `behind` later than `clock` shows.
async fn take(
    pool: &MySqlPool,
    holder: &str,
    clock: &IdClock,
    behind: Duration,
) -> Result<Leased, IdError> {
    let now_ms = || clock.ms() + millis(behind);
    let first = fastrand::u16(0..worker_lease::WORKERS);
    let taking = Taking { holder, time: FIRST_LEASE, now_ms: now_ms(), wait_max: WAIT_MAX, first };
    let mut connection = connect::acquire(pool).await?;
    let lease = connect::within(worker_lease::take(&mut connection, &taking));
    let lease = lease.await?.ok_or(IdError::NoWorker)?;
    drop(connection);
    // A previous holder that crashed may have made ids up to the end of its lease; one that stopped cleanly, up to its
    // stop. If this clock is behind that, wait; it is by no more than `WAIT_MAX`.
    while now_ms() <= lease.before_ms {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(Leased {
        worker: lease.worker,
        last_ms: lease.last_ms,
        young: None,
        generator: AtomicSnowflakeGenerator::new(u64::from(lease.worker), clock.clone()),
    })
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
    use std::time::{Duration, Instant};

    use ferroid::generator::AtomicSnowflakeGenerator;

    use super::{
        FIRST_LEASE, LEASE, LOSS, Leased, RENEW_EVERY, Renewed, id_clock::IdClock, made_at, millis,
    };

    /// Views order coupons by the digits of their ids, MySQL by their numeric values. Both orders agree if all ids have
    /// the same length.
    #[test]
    fn every_id_that_is_made_has_nineteen_digits() {
        let first_of_nineteen = made_at(1_000_000_000_000_000_000);
        assert!(first_of_nineteen.timestamp() < 1_600_000_000, "{first_of_nineteen}");
        assert_eq!(i64::MAX.to_string().len(), 19);
    }

    /// Renews at `seconds` after the start. MySQL shows the range that was written `seen` seconds after the start.
    fn renew(leased: &mut Leased, start: Instant, seen: u64, seconds: u64) {
        let end = |seconds| millis(Duration::from_secs(seconds) + LEASE);
        let at = start + Duration::from_secs(seconds);
        leased.renewed(end(seen), Renewed { at, last_ms: end(seconds) });
    }

    /// MySQL may go away at any second of a process's first hour.
    #[test]
    fn ids_outlast_mysql_by_ten_minutes_from_the_start_on() {
        let start = Instant::now();
        let generator = AtomicSnowflakeGenerator::new(0, IdClock::new());
        let last_ms = millis(FIRST_LEASE);
        let mut leased = Leased { worker: 0, last_ms, young: None, generator };
        let mut seen = 0;
        for second in 0..3_600 {
            if second % RENEW_EVERY.as_secs() == 0 {
                renew(&mut leased, start, seen, second);
                seen = second;
            }
            let left = leased.last_ms - millis(Duration::from_secs(second));
            assert!(left >= millis(Duration::from_secs(600)), "{left} ms after {second} s");
        }
    }

    #[test]
    fn a_renewal_counts_only_when_no_failover_can_lose_it_any_more() {
        let start = Instant::now();
        let generator = AtomicSnowflakeGenerator::new(0, IdClock::new());
        let mut leased = Leased { worker: 0, last_ms: 0, young: None, generator };
        let old = LOSS.as_secs() + 1;
        renew(&mut leased, start, 0, 5);
        renew(&mut leased, start, 5, 10);
        renew(&mut leased, start, 10, LOSS.as_secs());
        assert_eq!(leased.last_ms, 0, "still young");
        renew(&mut leased, start, LOSS.as_secs(), 5 + old);
        let counts = millis(Duration::from_secs(5) + LEASE);
        assert_eq!(leased.last_ms, counts);
        // A failover loses the renewal that would count next.
        renew(&mut leased, start, 5, 5 + 2 * old);
        assert_eq!(leased.last_ms, counts);
        renew(&mut leased, start, 5 + 2 * old, 5 + 3 * old);
        assert_eq!(leased.last_ms, millis(Duration::from_secs(5 + 2 * old) + LEASE));
    }
}

//! The clock of sales: MySQL's, which all apis share.
//!
//! If each api went by its own clock, one that is ahead would refuse a key as `CLOSED` that another one lands a moment
//! later, and one that is behind would sell past the end. So whether a sale has begun or is over is judged by MySQL's
//! clock. Between two looks, and while MySQL is away, the machine's monotonic clock carries it on; that one does not
//! jump when somebody sets the machine's time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

use chrono::{DateTime, TimeDelta, Utc};
use mysql_store::{MySqlPool, StoreError, settings};
use runtime::Clock;

/// MySQL's clock is not followed when it jumps by more than this, away from a machine's clock that agreed with it. NTP
/// corrects clocks in steps of seconds; a jump of hours is a mistake, of which one server's clock must not close all
/// sales.
const JUMP_MAX: TimeDelta = TimeDelta::minutes(10);

/// MySQL's clock as this process knows it. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct SaleClock {
    own: Clock,
    started: Instant,
    /// MySQL's time at the start, in milliseconds since 1970, as the latest look has it.
    started_ms: Arc<AtomicI64>,
}

impl SaleClock {
    /// Returns MySQL's clock, as far as one look shows it.
    ///
    /// # Errors
    /// MySQL does not answer.
    pub(crate) async fn of(pool: &MySqlPool, own: Clock) -> Result<Self, StoreError> {
        let ahead = settings::pool_skew(pool, || own.now()).await?;
        let theirs = own.now() - ahead;
        Ok(Self::showing(theirs, own))
    }

    fn showing(now: DateTime<Utc>, own: Clock) -> Self {
        let started_ms = Arc::new(AtomicI64::new(now.timestamp_millis()));
        Self { own, started: Instant::now(), started_ms }
    }

    /// Returns MySQL's time, in whole milliseconds.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        let since_start = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let ms = self.started_ms.load(Ordering::Relaxed).saturating_add(since_start);
        DateTime::from_timestamp_millis(ms).unwrap_or_default()
    }

    /// Compares the clock with MySQL's, and corrects it if the round trip does not explain the difference. Returns how
    /// far the machine's own clock is ahead of MySQL's.
    ///
    /// # Errors
    /// MySQL does not answer. The clock goes on as before.
    pub(crate) async fn compare(&self, pool: &MySqlPool) -> Result<TimeDelta, StoreError> {
        let ahead = settings::pool_skew(pool, || self.now()).await?;
        let own_is_ahead = self.own.now() - self.now() + ahead;
        self.correct(ahead);
        Ok(own_is_ahead)
    }

    /// Puts the clock back by what it is ahead of MySQL's, unless MySQL's alone has jumped.
    fn correct(&self, ahead: TimeDelta) {
        let agrees = (self.own.now() - self.now()).abs() <= JUMP_MAX;
        if ahead.abs() > JUMP_MAX && agrees {
            let jump = format!("by {} s", -ahead.num_seconds());
            runtime::seldom!("MySQL's clock has jumped: sales go on by the one before", jump);
            return;
        }
        self.started_ms.fetch_sub(ahead.num_milliseconds(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOURS: TimeDelta = TimeDelta::hours(5);

    /// A clock that shows the time of the machine's, which the test sets.
    fn clock() -> (SaleClock, Clock) {
        let own = Clock::manual(DateTime::from_timestamp_millis(1_800_000_000_000).unwrap());
        (SaleClock::showing(own.now(), own.clone()), own)
    }

    fn is_near(clock: &SaleClock, time: DateTime<Utc>) -> bool {
        (clock.now() - time).abs() < TimeDelta::minutes(1)
    }

    #[test]
    fn a_correction_reaches_all_clones_and_the_machines_clock_moves_nothing() {
        let (clock, own) = clock();
        let clone = clock.clone();
        let start = own.now();
        own.set(start + HOURS);
        assert!(is_near(&clone, start));
        clock.correct(TimeDelta::minutes(3));
        assert!(is_near(&clone, start - TimeDelta::minutes(3)));
    }

    #[test]
    fn a_jump_of_mysqls_clock_is_followed_only_where_the_machines_disagrees_with_the_one_before() {
        let (clock, own) = clock();
        let start = own.now();
        for jump in [HOURS, -HOURS] {
            clock.correct(jump);
            assert!(is_near(&clock, start), "MySQL's clock is wrong, not that of everybody else");
        }
        own.set(start - HOURS);
        clock.correct(HOURS);
        assert!(is_near(&clock, start - HOURS));
    }
}

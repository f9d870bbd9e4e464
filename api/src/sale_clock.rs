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

/// MySQL's clock as this process knows it. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct SaleClock {
    started: Instant,
    /// MySQL's time at the start, in milliseconds since 1970, as the latest look has it.
    started_ms: Arc<AtomicI64>,
}

impl SaleClock {
    /// Returns a clock that shows `now` until it is compared.
    pub(crate) fn starting_at(now: DateTime<Utc>) -> Self {
        let started_ms = Arc::new(AtomicI64::new(now.timestamp_millis()));
        Self { started: Instant::now(), started_ms }
    }

    /// Returns MySQL's time, in whole milliseconds.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        let since_start = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let ms = self.started_ms.load(Ordering::Relaxed).saturating_add(since_start);
        DateTime::from_timestamp_millis(ms).unwrap_or_default()
    }

    /// Compares the clock with MySQL's, and corrects it if the round trip does not explain the difference.
    ///
    /// # Errors
    /// MySQL does not answer. The clock goes on as before.
    pub(crate) async fn compare(&self, pool: &MySqlPool) -> Result<(), StoreError> {
        let ahead = settings::pool_skew(pool, || self.now()).await?;
        self.put_back(ahead);
        Ok(())
    }

    fn put_back(&self, ahead: TimeDelta) {
        self.started_ms.fetch_sub(ahead.num_milliseconds(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correction_reaches_all_clones_and_time_goes_on() {
        let start = DateTime::from_timestamp_millis(1_800_000_000_000).unwrap();
        let clock = SaleClock::starting_at(start);
        let clone = clock.clone();
        assert!(clone.now() >= start);
        clock.put_back(TimeDelta::minutes(10));
        let late = clone.now() - (start - TimeDelta::minutes(10));
        assert!(late >= TimeDelta::zero() && late < TimeDelta::minutes(5), "{late}");
        clock.put_back(TimeDelta::minutes(-20));
        assert!(clone.now() >= start + TimeDelta::minutes(10));
    }
}

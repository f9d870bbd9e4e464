//! Stock rows that another transaction keeps locked. A return waits for its template's row for seconds, and so would
//! every other return of the template.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use coupon::TemplateId;
use mysql_store::{MySqlPool, StoreError, connect, landing};
use runtime::Breakers;

/// Time after a failed wait before another return waits.
const WAIT_AGAIN: Duration = Duration::from_secs(5);

/// Templates whose stock row was found locked, with the time of the last attempt.
#[derive(Debug)]
pub(crate) struct StockLocks(Breakers<TemplateId>);

impl Default for StockLocks {
    fn default() -> Self {
        Self(Breakers::new(WAIT_AGAIN))
    }
}

impl StockLocks {
    /// Returns whether a return of the template may wait for its stock row. After a failed wait, one at a time may:
    /// a row that many landings take in turn is rarely free at the first try, but each of them gets it soon.
    pub(crate) fn may_wait(&self, template: TemplateId, now: Instant) -> bool {
        self.0.may_try(&template, now)
    }

    /// Returns whether another transaction has locked the stock row at this moment, and remembers it.
    ///
    /// # Errors
    /// MySQL failed.
    pub(crate) async fn is_locked(
        &self,
        pool: &MySqlPool,
        template: TemplateId,
    ) -> Result<bool, StoreError> {
        let locked = connect::within(async {
            let mut connection = connect::acquire(pool).await?;
            landing::locked(&mut connection, &BTreeSet::from([template])).await
        });
        let is_locked = !locked.await?.is_empty();
        if is_locked {
            self.0.failed(template, Instant::now());
        }
        Ok(is_locked)
    }

    /// Records that a return of the template got the row.
    pub(crate) fn passed(&self, template: TemplateId) {
        self.0.succeeded(&template);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_wait_in_vain_one_return_at_a_time_waits_again() {
        let locks = StockLocks::default();
        let template = TemplateId(1);
        let now = Instant::now();
        assert!(locks.may_wait(template, now));
        locks.0.failed(template, now);
        assert!(!locks.may_wait(template, now) && locks.may_wait(TemplateId(2), now));
        let later = now + WAIT_AGAIN;
        assert!(locks.may_wait(template, later) && !locks.may_wait(template, later));
        locks.passed(template);
        assert!(locks.may_wait(template, later) && locks.may_wait(template, later));
    }
}

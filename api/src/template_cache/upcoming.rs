//! Templates of a merchant's list: every upcoming or open one, even if it was never requested.
//!
//! They are read from MySQL at the start, and every few seconds those of them that have changed. So a list is complete
//! whatever the topic does, and no request reads MySQL for it.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{MerchantId, Template};
use mysql_store::{StoreError, connect, template};
use runtime::Outage;

use super::{Position, TemplateCache};
use crate::problem::Problem;

/// Interval between reads of what is upcoming and open. A template's change comes by the topic much sooner.
const LISTED_EVERY: Duration = Duration::from_secs(5);

/// How far a read reaches back before the one before it: longer than any transaction is under way, and than clocks of
/// processes differ.
const OVERLAP: TimeDelta = TimeDelta::minutes(1);

impl TemplateCache {
    /// Returns up to `most` of a merchant's templates that are upcoming or open, behind `position`, in the order of
    /// their windows.
    ///
    /// # Errors
    /// They were not read yet: the process has just started, and MySQL has not answered.
    pub(crate) fn listed(
        &self,
        merchant: MerchantId,
        position: Option<Position>,
        most: usize,
        now: DateTime<Utc>,
    ) -> Result<Vec<Arc<Template>>, Problem> {
        if !self.is_complete.load(Ordering::Acquire) {
            return Err(Problem::no_store());
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        Ok(known.listed.behind(merchant, position, most, now))
    }

    /// Keeps lists complete, whatever the topic does. Never returns.
    pub(crate) async fn keep_listed(&self) {
        let outage = Outage::new("what is upcoming and open cannot be read from MySQL");
        let mut since = None;
        loop {
            let now = self.clock.now();
            match self.read_listed(since, now).await {
                Ok(()) => {
                    since = Some(now - OVERLAP);
                    self.is_complete.store(true, Ordering::Release);
                    outage.over();
                }
                Err(error) => outage.failed(&runtime::report(&error)),
            }
            tokio::time::sleep(LISTED_EVERY).await;
        }
    }

    /// Reads what is upcoming and open and has changed since. `None`: all of it.
    async fn read_listed(
        &self,
        since: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        // A window that was shortened since may be over by now, and must be read too.
        let ending_after = since.unwrap_or(now);
        let changed_after = since.unwrap_or(DateTime::UNIX_EPOCH);
        let read = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            template::changed(&mut connection, ending_after, changed_after).await
        });
        let read = read.await?;
        for template in read.rows {
            self.apply(template);
        }
        for id in read.unreadable {
            let why = format!("the row of template {id} cannot be read by this version");
            runtime::seldom!("a template is not listed", why);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.listed.forget_over(now);
        known.current.forget_over(now);
        Ok(())
    }
}

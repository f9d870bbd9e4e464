//! After a failover of MySQL, looks in the topic for claims that MySQL has lost.
//!
//! A gate knows only the claims since its last rebuild. The topic has every row that the tailer published of the lost
//! history, so its last minutes are compared with MySQL. One api does this for all; if it ends, another one does it anew.

use std::{collections::HashMap, ops::ControlFlow, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimId, TemplateId, UserId};
use landing::lost_claims::record_missing;
use mysql_store::{MySqlPool, StoreError, connect, lease, lost_claim::LostClaim, primary_server};
use runtime::Clock;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use topic::{Event, HistorySpan, Reached, TopicError, UserCouponRow, partitions, read_history};
use tracing::info;

/// Interval between checks whether there was a failover.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long the tailer may go on publishing what it had read of the old primary.
const PUBLISHED_WITHIN: TimeDelta = TimeDelta::seconds(15);

/// How much of the time before the failover is compared: as many commits as a failover may lose by
/// [`primary_server::RAISE`].
const LOST_MAX: TimeDelta = TimeDelta::minutes(16);

/// Part of the time that is read at once.
const SLICE: TimeDelta = TimeDelta::minutes(1);

/// Messages of a partition that are read at once, some tens of megabytes.
const MESSAGES_MAX: u64 = 200_000;

/// Time limit for one read.
const READ_MAX: Duration = Duration::from_secs(30);

/// Claims that are looked up in one statement.
const LOOKED_UP: usize = 1_000;

/// Name and duration of the lease of the api that searches. It is renewed after each read.
const LEASE: (&str, Duration) = ("lost_claims", Duration::from_mins(1));

#[derive(Debug, Error)]
enum SearchError {
    #[error("MySQL failed")]
    Store(#[from] StoreError),
    #[error("the topic of coupons cannot be read")]
    Topic(#[from] TopicError),
}

/// Searches after each failover.
pub(crate) struct LostClaims {
    pub(crate) pool: MySqlPool,
    pub(crate) brokers: String,
    /// Topic of coupons.
    pub(crate) topic: String,
    /// Names this process.
    pub(crate) holder: String,
    pub(crate) clock: Clock,
}

impl LostClaims {
    /// Watches until `stop`.
    pub(crate) async fn watch(self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            let searched = stop.run_until_cancelled(self.search_if_due()).await;
            if let Some(Err(error)) = searched {
                runtime::seldom!("the search for lost claims failed", runtime::report(&error));
            }
        }
    }

    async fn search_if_due(&self) -> Result<(), SearchError> {
        let mut connection = connect::within(connect::acquire(&self.pool)).await?;
        let due = connect::within(primary_server::unsearched(&mut connection)).await?;
        let now = self.clock.now();
        let Some(since) = due.filter(|since| now >= *since + PUBLISHED_WITHIN) else {
            return Ok(());
        };
        let (name, duration) = LEASE;
        let taken = lease::take(&mut connection, name, &self.holder, duration);
        if !connect::within(taken).await? {
            return Ok(());
        }
        drop(connection);
        let found = self.search(since - LOST_MAX, now).await?;
        info!(failover.at = %since, found, "compared the topic with MySQL behind a failover");
        let mut connection = connect::within(connect::acquire(&self.pool)).await?;
        connect::within(primary_server::searched(&mut connection, since)).await?;
        Ok(connect::within(lease::release(&mut connection, name, &self.holder)).await?)
    }

    /// Records the claims of messages of this time that have no row, and returns how many there are.
    async fn search(&self, from: DateTime<Utc>, to: DateTime<Utc>) -> Result<usize, SearchError> {
        let mut found = 0;
        for partition in 0..partitions(&self.brokers, &self.topic).await? {
            let mut at = from;
            while at < to {
                let until = to.min(at + SLICE);
                let (claims, reached) = self.read(partition, at, until).await?;
                found += self.record_missing(claims.into_values().collect()).await?;
                at = match reached {
                    Reached::Limit(Some(ms)) => {
                        DateTime::from_timestamp_millis(ms + 1).unwrap_or(until)
                    }
                    Reached::End | Reached::Limit(None) => until,
                };
            }
        }
        Ok(found)
    }

    async fn read(
        &self,
        partition: i32,
        from: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<(HashMap<ClaimId, LostClaim>, Reached), SearchError> {
        let span = HistorySpan {
            from_ms: from.timestamp_millis(),
            until_ms: until.timestamp_millis(),
            within: READ_MAX,
            messages_max: MESSAGES_MAX,
        };
        let take = |claims: &mut HashMap<ClaimId, LostClaim>, _: &[u8], payload: &[u8]| {
            if let Some(claim) = claim_of(payload) {
                claims.insert(claim.id, claim);
            }
            ControlFlow::Continue(())
        };
        let read = read_history(
            &self.brokers,
            &self.topic,
            move |_| partition,
            span,
            HashMap::new(),
            take,
        );
        Ok(read.await?)
    }

    async fn record_missing(&self, claims: Vec<LostClaim>) -> Result<usize, SearchError> {
        let mut connection = connect::within(connect::acquire(&self.pool)).await?;
        let mut found = 0;
        for some in claims.chunks(LOOKED_UP) {
            found += record_missing(&mut connection, some).await?;
        }
        let (name, duration) = LEASE;
        connect::within(lease::take(&mut connection, name, &self.holder, duration)).await?;
        Ok(found)
    }
}

/// Returns the claim whose coupon a message shows. A tombstone or a message that cannot be read shows none. A coupon that
/// support gave out in place of another one has no claim.
fn claim_of(payload: &[u8]) -> Option<LostClaim> {
    let event: Event<UserCouponRow> = topic::decode(payload).ok()?;
    let row = event.after.filter(|row| row.claim_id != 0)?;
    Some(LostClaim {
        id: ClaimId(row.claim_id),
        template: TemplateId(row.template_id),
        user: UserId(row.user_id),
    })
}

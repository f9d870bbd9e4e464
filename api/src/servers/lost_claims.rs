//! After a failover of MySQL, looks in the topic for what MySQL has lost: claims, and changes of coupons.
//!
//! A gate knows only the claims since its last rebuild. The topic has every row that the tailer published of the lost
//! history, so what was published since MySQL was last seen whole is compared with it. The views of the users are then
//! dropped: they may show coupons that do not exist. One api does this for all; if it ends, another one does it anew.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimId, CouponId, TemplateId, UserId};
use landing::lost_claims::record_missing;
use metrics::counter;
use mysql_store::{
    MySqlConnection, MySqlPool, StoreError, connect, lease,
    lost_claim::LostClaim,
    primary_server::{self, Unsearched},
    user_coupon,
};
use redis_view::{ViewError, ViewStore};
use runtime::Clock;
use thiserror::Error;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use topic::{
    Event, HistorySpan, OffsetReader, Reached, TopicError, TopicNames, UserCouponRow, partitions,
    read_history,
};
use tracing::{error, info, warn};

use crate::metrics::LOST_CHANGES;

/// Interval between checks whether there was a failover.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long the tailer may go on publishing what it had read of the old primary.
const PUBLISHED_WITHIN: TimeDelta = TimeDelta::seconds(15);

/// How far the clocks of the brokers, which stamp messages, and of MySQL may be apart.
const CLOCKS_APART: TimeDelta = TimeDelta::minutes(1);

/// Part of the time that is read at once.
const SLICE: TimeDelta = TimeDelta::minutes(1);

/// Messages of a partition that are read at once, some tens of megabytes.
const MESSAGES_MAX: u64 = 200_000;

/// Time limit for one read.
const READ_MAX: Duration = Duration::from_secs(30);

/// Rows that are looked up in one statement.
const LOOKED_UP: usize = 1_000;

/// Name and duration of the lease of the api that searches. It is renewed after each read.
const LEASE: (&str, Duration) = ("lost_claims", Duration::from_mins(1));

/// Longest wait for the consumer of the views. A message that it applies after a view was dropped and read anew shows
/// again what is lost.
const CONSUMED_MAX: Duration = Duration::from_secs(45);

/// Interval between looks at how far it is.
const CONSUMED_LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Error)]
enum SearchError {
    #[error("MySQL failed")]
    Store(#[from] StoreError),
    #[error("the topic of coupons cannot be read")]
    Topic(#[from] TopicError),
    #[error("partition {partition} of the topic of coupons sent no message within {READ_MAX:?}")]
    Silent { partition: i32 },
    #[error("the views cannot be dropped")]
    View(#[from] ViewError),
}

/// A coupon, as the latest of some messages shows it.
#[derive(Clone, Copy)]
struct Published {
    version: i64,
    user: UserId,
    /// The claim that created it. A coupon that support gave out in place of another one has none.
    claim: Option<LostClaim>,
}

/// What searches behind one failover have found.
#[derive(Default)]
pub(crate) struct Found {
    claims: usize,
    /// Coupons that MySQL has in an earlier version, or not at all. Each is counted once, though a search that failed is
    /// repeated.
    coupons: HashSet<CouponId>,
    users: HashSet<UserId>,
}

/// Searches after each failover.
pub(crate) struct LostClaims {
    pub(crate) pool: MySqlPool,
    pub(crate) brokers: String,
    pub(crate) names: TopicNames,
    pub(crate) views: ViewStore,
    /// Names this process.
    pub(crate) holder: String,
    pub(crate) clock: Clock,
    pub(crate) found: Found,
}

impl LostClaims {
    /// Watches until `stop`.
    pub(crate) async fn watch(mut self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            let searched = stop.run_until_cancelled(self.search_if_due()).await;
            if let Some(Err(error)) = searched {
                runtime::seldom!("the search for lost claims failed", runtime::report(&error));
            }
        }
    }

    async fn search_if_due(&mut self) -> Result<(), SearchError> {
        let mut connection = connect::within(connect::acquire(&self.pool)).await?;
        let due = connect::within(primary_server::unsearched(&mut connection)).await?;
        let now = self.clock.now();
        let due = due.filter(|failover| now >= failover.since + PUBLISHED_WITHIN);
        let Some(Unsearched { since, seen }) = due else { return Ok(()) };
        let (name, duration) = LEASE;
        let taken = lease::take(&mut connection, name, &self.holder, duration);
        if !connect::within(taken).await? {
            return Ok(());
        }
        drop(connection);
        let mut found = Found { claims: 0, ..std::mem::take(&mut self.found) };
        let searched = self.search(seen - CLOCKS_APART, now + CLOCKS_APART, &mut found).await;
        let dropped = match searched {
            Ok(()) => self.drop_views(&found.users).await,
            failed => failed,
        };
        if dropped.is_err() {
            self.found = found;
            return dropped;
        }
        let Found { claims, coupons, .. } = found;
        let changes = coupons.len();
        info!(failover.at = %since, claims, changes, "compared the topic with MySQL behind a failover");
        let mut connection = connect::within(connect::acquire(&self.pool)).await?;
        connect::within(primary_server::searched(&mut connection, since)).await?;
        Ok(connect::within(lease::release(&mut connection, name, &self.holder)).await?)
    }

    /// Compares the messages of this time with MySQL. A partition that cannot be read keeps none of the others from it.
    async fn search(
        &self,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
        found: &mut Found,
    ) -> Result<(), SearchError> {
        let mut failed = None;
        for partition in 0..partitions(&self.brokers, &self.names.user_coupon()).await? {
            if let Err(error) = self.search_partition(partition, from, to, found).await {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn search_partition(
        &self,
        partition: i32,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
        found: &mut Found,
    ) -> Result<(), SearchError> {
        let mut at = from;
        while at < to {
            let until = to.min(at + SLICE);
            let (coupons, reached) = self.read(partition, at, until).await?;
            self.compare(coupons, found).await?;
            at = match reached {
                Reached::End => until,
                Reached::Limit(None) => return Err(SearchError::Silent { partition }),
                // Others of that millisecond may be left.
                Reached::Limit(Some(ms)) => {
                    let next = if ms > at.timestamp_millis() { ms } else { ms + 1 };
                    DateTime::from_timestamp_millis(next).unwrap_or(until)
                }
            };
        }
        Ok(())
    }

    async fn read(
        &self,
        partition: i32,
        from: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<(HashMap<CouponId, Published>, Reached), SearchError> {
        let span = HistorySpan {
            from_ms: from.timestamp_millis(),
            until_ms: until.timestamp_millis(),
            within: READ_MAX,
            messages_max: MESSAGES_MAX,
        };
        let take = |coupons: &mut HashMap<CouponId, Published>, _: &[u8], payload: &[u8]| {
            if let Some((id, published)) = published(payload) {
                let latest = coupons.entry(id).or_insert(published);
                if published.version > latest.version {
                    *latest = published;
                }
            }
            ControlFlow::Continue(())
        };
        let topic = self.names.user_coupon();
        let none = HashMap::new();
        Ok(read_history(&self.brokers, &topic, move |_| partition, span, none, take).await?)
    }

    async fn compare(
        &self,
        coupons: HashMap<CouponId, Published>,
        found: &mut Found,
    ) -> Result<(), SearchError> {
        let mut connection = connect::within(connect::acquire(&self.pool)).await?;
        let coupons: Vec<(CouponId, Published)> = coupons.into_iter().collect();
        for some in coupons.chunks(LOOKED_UP) {
            let claims: HashMap<ClaimId, LostClaim> =
                some.iter().filter_map(|(_, one)| Some((one.claim?.id, one.claim?))).collect();
            let claims: Vec<LostClaim> = claims.into_values().collect();
            found.claims += record_missing(&mut connection, &claims).await?;
            note_lost_changes(&mut connection, some, found).await?;
        }
        let (name, duration) = LEASE;
        connect::within(lease::take(&mut connection, name, &self.holder, duration)).await?;
        Ok(())
    }

    /// Drops these users' views, once the consumer has applied what was published of the lost history.
    async fn drop_views(&self, users: &HashSet<UserId>) -> Result<(), SearchError> {
        if users.is_empty() {
            return Ok(());
        }
        let topic = self.names.user_coupon();
        let group = self.names.views_group();
        let offsets = OffsetReader::new(&self.brokers);
        let ends = offsets.topic_offsets(&topic).await?;
        let give_up = Instant::now() + CONSUMED_MAX;
        while offsets.committed_lag_before(&group, &topic, &ends).await? > 0 {
            if Instant::now() >= give_up {
                let users = users.len();
                warn!(
                    users,
                    "the consumer of the views is behind: they may show again what is lost"
                );
                break;
            }
            sleep(CONSUMED_LOOK).await;
        }
        for user in users {
            self.views.drop_view(*user).await?;
        }
        Ok(())
    }
}

/// Notes the coupons whose published version MySQL does not have. A coupon's version rises with each change, and MySQL
/// is read after the messages.
async fn note_lost_changes(
    connection: &mut MySqlConnection,
    published: &[(CouponId, Published)],
    found: &mut Found,
) -> Result<(), StoreError> {
    let ids: Vec<CouponId> = published.iter().map(|(id, _)| *id).collect();
    let versions = connect::within(user_coupon::versions(connection, &ids)).await?;
    for (id, Published { version, user, .. }) in published {
        let stored = versions.get(id).copied();
        if stored.is_some_and(|stored| stored >= *version) {
            continue;
        }
        found.users.insert(*user);
        if found.coupons.insert(*id) {
            counter!(LOST_CHANGES.name).increment(1);
            error!(coupon.id = %id, user.id = %user, published = version, stored, "a change of a coupon is lost");
        }
    }
    Ok(())
}

/// Returns the coupon that a message shows. A tombstone or a message that cannot be read shows none.
fn published(payload: &[u8]) -> Option<(CouponId, Published)> {
    let event: Event<UserCouponRow> = topic::decode(payload).ok()?;
    let row = event.after?;
    let user = UserId(row.user_id);
    let claim =
        LostClaim { id: ClaimId(row.claim_id), template: TemplateId(row.template_id), user };
    let claim = (row.claim_id > 0).then_some(claim);
    Some((CouponId(row.id), Published { version: row.version, user, claim }))
}

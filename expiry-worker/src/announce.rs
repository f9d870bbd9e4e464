//! Announces coupons that end soon: each unused coupon at least once per lead time, when at most that much of its
//! validity is left.
//!
//! A cursor over the deadline index, stored in MySQL, records the progress. After a restart the announcer resumes
//! there; only messages sent just before a crash are repeated. It uses its own connection, so a million announcements
//! do not delay the flips.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use coupon::CouponId;
use futures::future::try_join_all;
use metrics::counter;
use mysql_store::{
    MySqlConnection, MySqlPool, StoreError, connect,
    expiring::{self, Cursor, Expiring},
};
use runtime::Clock;
use tokio::{sync::watch, time::MissedTickBehavior};
use topic::{Assignment, ExpiringSoon, Producer};

use crate::{deadlines::shards_of, metrics::ANNOUNCED};

/// Polling interval. Lead times are minutes to days.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Coupons announced between two updates of a cursor. A crash repeats at most this many.
const CHUNK: u32 = 500;

/// Coupons whose total validity is at most the lead time plus this are not announced: they end soon from the moment of
/// the claim, and their owners know. The minute also keeps a coupon that lands up to a minute after its claim ahead of
/// the cursor.
const NEWS_AFTER: TimeDelta = TimeDelta::minutes(1);

pub(crate) struct Announcer {
    pub(crate) pool: MySqlPool,
    pub(crate) producer: Producer,
    pub(crate) topic: String,
    pub(crate) clock: Clock,
    /// Lead times in seconds.
    pub(crate) leads: BTreeSet<u32>,
    /// The wake-up topic, whose partitions determine the shards, and its partition count as the worker sees it.
    pub(crate) dealt_by: (String, watch::Receiver<i32>),
}

impl Announcer {
    /// Announces until dropped.
    pub(crate) async fn run(&self, mut assignment: watch::Receiver<Assignment>) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (topic, partitions) = &self.dealt_by;
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                Ok(()) = assignment.changed() => {}
            }
            let owned = assignment.borrow_and_update().of(topic);
            let partitions = *partitions.borrow();
            for shard in shards_of(&owned, partitions) {
                if let Err(error) = self.announce(shard).await {
                    // A row that cannot be read keeps no other shard's coupons unannounced.
                    let of_rows = error
                        .downcast_ref()
                        .is_some_and(|error: &StoreError| !error.is_unavailable());
                    let is_of_all = !of_rows;
                    let text = runtime::report(error.as_ref());
                    runtime::seldom!(
                        "coupons that end soon not announced, it is tried again",
                        text
                    );
                    if is_of_all {
                        break;
                    }
                }
            }
        }
    }

    /// Announces the coupons of a shard that are due.
    async fn announce(&self, shard: u8) -> anyhow::Result<()> {
        for lead in &self.leads {
            let mut connection = connect::acquire(&self.pool).await?;
            let known = connect::within(expiring::cursor(&mut connection, shard, *lead)).await?;
            let now = self.clock.now();
            // On the first run, skip coupons that have already ended.
            let mut at = known.unwrap_or(Cursor { valid_until: now, id: CouponId(0) });
            let until = now + TimeDelta::seconds(i64::from(*lead));
            while let Some(to) = self.chunk(&mut connection, shard, *lead, at, until).await? {
                let moved = expiring::advance(&mut connection, shard, *lead, to);
                connect::within(moved).await?;
                at = to;
            }
        }
        Ok(())
    }

    /// Announces the next chunk of coupons after `after`. Returns the position of the last one, or `None` if there were
    /// none.
    async fn chunk(
        &self,
        connection: &mut MySqlConnection,
        shard: u8,
        lead: u32,
        after: Cursor,
        until: DateTime<Utc>,
    ) -> anyhow::Result<Option<Cursor>> {
        let behind = expiring::behind(connection, shard, after, until, CHUNK);
        let coupons = connect::within(behind).await?;
        let Some(last) = coupons.last() else { return Ok(None) };
        let life = TimeDelta::seconds(i64::from(lead)) + NEWS_AFTER;
        let now = self.clock.now();
        let is_news = |coupon: &&Expiring| {
            coupon.valid_until > now && coupon.valid_until - coupon.claimed_at > life
        };
        let news: Vec<_> = coupons.iter().filter(is_news).collect();
        try_join_all(news.iter().map(|coupon| self.send(coupon, lead))).await?;
        counter!(ANNOUNCED.name).increment(news.len() as u64);
        Ok(Some(Cursor { valid_until: last.valid_until, id: last.id }))
    }

    async fn send(&self, coupon: &Expiring, lead_seconds: u32) -> anyhow::Result<()> {
        let message = ExpiringSoon {
            coupon_id: coupon.id.0,
            user_id: coupon.user_id.0,
            template_id: coupon.template_id.0,
            valid_until_ms: coupon.valid_until.timestamp_millis(),
            lead_seconds,
        };
        let payload = serde_json::to_vec(&message).context("an announcement")?;
        let key = coupon.user_id.to_string();
        self.producer.send(&self.topic, None, key.as_bytes(), &payload, &[]).await?;
        Ok(())
    }
}

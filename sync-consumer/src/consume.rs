//! The one loop: a batch, its effects, its offsets.

use std::{collections::HashMap, time::Duration};

use anyhow::Context as _;
use coupon::UserId;
use futures::{StreamExt, TryStreamExt, stream};
use metrics::{counter, gauge, histogram};
use redis_view::{Applied, Change, UserChanges, ViewError, ViewStore};
use runtime::{Clock, Part};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topic::{Consumer, ExpiryWakeUp, Message, Producer, TopicNames};
use tracing::{error, warn};

use crate::{
    apply::{Undecodable, Work},
    dead_letter,
    gap::{Gap, Positions},
    metrics::{BATCH, CHANGES, DEAD_LETTERS, DELAY, DROPPED_VIEWS, GAPS, LAG, REPAIRS, WAKE_UPS},
    retry::Retry,
    spans,
    wake_up::{self, Held},
};

/// Messages of one batch: enough for full pipelines, little to repeat after an outage.
const BATCH_MAX: usize = 1000;

/// Users of one round trip to the view: a few hundred microseconds of the server, in which readers wait.
const USERS_PER_CALL: usize = 64;

/// Round trips under way at once: while the server answers one, the next is written.
const CALLS_AT_ONCE: usize = 4;

/// After how long without any message it is looked, again and again, whether the topic has forgotten some unread. While
/// they come they tell it themselves, and nobody has to wait for that look.
const WHOLE_EVERY: Duration = Duration::from_secs(60);

/// How long nothing has to come until there is no lag.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// How long views wait for a broker that does not take their wake-ups.
const WAKE_EARLY_MAX: Duration = Duration::from_secs(1);

/// Messages to Kafka under way at once.
const SENDS_AT_ONCE: usize = 128;

/// What the loop works with.
pub(crate) struct Consume {
    pub(crate) view: ViewStore,
    pub(crate) producer: Producer,
    pub(crate) brokers: String,
    pub(crate) names: TopicNames,
    pub(crate) expiry_partitions: i32,
    pub(crate) clock: Clock,
    /// Ready once the group has dealt its partitions out.
    pub(crate) partitions: Part,
    /// Ready while the last attempt at a batch succeeded.
    pub(crate) stores: Part,
}

/// How far it has come.
#[derive(Debug, Default)]
struct Progress {
    positions: Positions,
    held: Held,
    /// Since when what is not done waits: changes, dead letters or wake-ups. Milliseconds since 1970.
    oldest_ms: Option<i64>,
}

impl Consume {
    /// Works batch by batch until `stop`.
    pub(crate) async fn run(
        &self,
        consumer: &Consumer,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let mut rebalances = consumer.rebalances();
        let mut at = Progress::default();
        let (mut lags, mut look_at) = (false, Instant::now() + WHOLE_EVERY);
        loop {
            let batch = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                // Partitions arrive while the next batch is waited for, so this has its own branch.
                Ok(()) = rebalances.changed() => {
                    self.partitions.ready();
                    look_at = Instant::now();
                    continue;
                }
                () = tokio::time::sleep_until(look_at) => {
                    look_at = Instant::now() + WHOLE_EVERY;
                    let owned = rebalances.borrow().of(&self.names.user_coupon());
                    if self.until_whole(&mut at.positions, &owned, stop).await.is_none() {
                        break;
                    }
                    continue;
                }
                () = at.held.due() => Vec::new(),
                () = tokio::time::sleep(IDLE_AFTER), if lags => {
                    gauge!(LAG).set(0.0);
                    lags = false;
                    continue;
                }
                batch = consumer.next_batch(BATCH_MAX) => batch.context("consuming failed")?,
            };
            if !batch.is_empty() {
                look_at = Instant::now() + WHOLE_EVERY;
                lags = true;
                if self.until_applied(&mut at, batch, stop).await.is_none() {
                    break;
                }
            }
            if at.held.is_due() {
                let attempt = || {
                    self.measure_lag(at.oldest_ms);
                    self.wake(&at.held)
                };
                if self.until_done(stop, attempt).await.is_none() {
                    break;
                }
                at.oldest_ms = None;
                at.held.take().iter().for_each(|message| consumer.store(message));
            }
        }
        // What is not sent now comes again with its changes, after the next start.
        if self.wake(&at.held).await.is_ok() {
            at.held.take().iter().for_each(|message| consumer.store(message));
        }
        Ok(())
    }

    /// Does a batch but for the wake-ups that can wait; absent: stopped before.
    async fn until_applied(
        &self,
        at: &mut Progress,
        batch: Vec<Message>,
        stop: &CancellationToken,
    ) -> Option<()> {
        let work = Work::of(&batch);
        histogram!(BATCH).record(count(batch.len()));
        let gaps = self.until_placed(&mut at.positions, &batch, stop).await?;
        let spans = spans::of(&batch);
        at.oldest_ms = at.oldest_ms.or(work.handled_ms.map(|(oldest, _)| oldest));
        at.held.add(&work.wake_ups, self.clock.now());
        // A deadline does not wait for the view.
        if at.held.is_due() {
            self.wake_early(&mut at.held).await;
        }
        let attempt = || {
            self.measure_lag(at.oldest_ms);
            self.step(&work, &gaps)
        };
        if let Err(failure) = attempt().await {
            if !Retry::new(&self.stores, stop).after(&failure, "batch not done").await {
                return None;
            }
            self.wake_early(&mut at.held).await;
            self.until_done(stop, attempt).await?;
        }
        drop(spans);
        at.positions.pass(&batch);
        self.measure_delay(&work);
        at.held.add_done(batch);
        Some(())
    }

    /// Finds what is missing before and within the batch; absent: stopped before the broker said what
    /// is committed.
    async fn until_placed(
        &self,
        positions: &mut Positions,
        batch: &[Message],
        stop: &CancellationToken,
    ) -> Option<Vec<Gap>> {
        if positions.gaps(batch).is_empty() {
            return Some(Vec::new());
        }
        // A partition that came from another consumer goes on where that one stopped.
        positions.learn(&self.until_done(stop, || self.committed()).await?);
        Some(positions.gaps(batch))
    }

    /// Drops every view if the topic has forgotten messages unread; absent: stopped before that was known.
    async fn until_whole(
        &self,
        positions: &mut Positions,
        owned: &[i32],
        stop: &CancellationToken,
    ) -> Option<()> {
        if owned.is_empty() {
            return Some(());
        }
        let topic = self.names.user_coupon();
        // In this order: what is committed in between makes gaps fewer.
        let look = || async {
            let held = topic::topic_offsets(&self.brokers, &topic).await.context("offsets")?;
            anyhow::Ok((held, self.committed().await?))
        };
        let (held, committed) = self.until_done(stop, look).await?;
        positions.learn(&committed);
        let gaps = positions.forgotten(owned, &held);
        if !gaps.is_empty() {
            let drop_all = || async { self.drop_all(&gaps).await.context("view") };
            self.until_done(stop, drop_all).await?;
            positions.skip(&gaps);
        }
        Some(())
    }

    /// One attempt at what this group has committed of the changes.
    async fn committed(&self) -> anyhow::Result<HashMap<i32, i64>> {
        let (group, topic) = (crate::group(&self.names), self.names.user_coupon());
        let committed = topic::committed_offsets(&self.brokers, &group, &topic).await;
        committed.context("committed offsets")
    }

    /// Repeats an attempt until it succeeds, however long a server is down; absent: stopped before.
    async fn until_done<T, F>(
        &self,
        stop: &CancellationToken,
        mut attempt: impl FnMut() -> F,
    ) -> Option<T>
    where
        F: Future<Output = anyhow::Result<T>>,
    {
        let mut retry = Retry::new(&self.stores, stop);
        loop {
            match attempt().await {
                Ok(done) => {
                    retry.done();
                    return Some(done);
                }
                Err(failure) => {
                    if !retry.after(&failure, "batch not done").await {
                        return None;
                    }
                }
            }
        }
    }

    /// One attempt at a batch but for its wake-ups. All of it may be repeated.
    ///
    /// Views that lack a change go before any later one is applied: who asks for the list `after` that
    /// later one must not be answered by them.
    async fn step(&self, work: &Work<'_>, gaps: &[Gap]) -> anyhow::Result<()> {
        if !gaps.is_empty() {
            self.drop_all(gaps).await.context("view")?;
        }
        for user in work.undecodable.iter().filter_map(|undecodable| undecodable.user) {
            self.view.drop_view(user).await.context("view")?;
            counter!(DROPPED_VIEWS, "reason" => "undecodable").increment(1);
        }
        for user in &work.unversioned {
            error!(user.id = %user, "a coupon was changed and kept its version: view dropped");
            self.view.drop_view(*user).await.context("view")?;
            counter!(DROPPED_VIEWS, "reason" => "unversioned").increment(1);
        }
        stream::iter(work.users.chunks(USERS_PER_CALL))
            .map(Ok)
            .try_for_each_concurrent(CALLS_AT_ONCE, |users| self.apply(users))
            .await
            .context("view")?;
        for undecodable in &work.undecodable {
            self.put_aside(undecodable).await?;
        }
        Ok(())
    }

    /// Nobody can tell what the missing messages changed, so all views go; each user's next reader
    /// rebuilds it from the truth.
    async fn drop_all(&self, gaps: &[Gap]) -> Result<(), ViewError> {
        for Gap { partition, from, to } in gaps {
            error!(
                topic.partition = partition,
                topic.offset = to,
                missing = to - from,
                "the topic forgot messages before they were read: all views are dropped"
            );
        }
        let dropped = self.view.drop_all().await?;
        counter!(GAPS).increment(gaps.len() as u64);
        counter!(DROPPED_VIEWS, "reason" => "gap").increment(dropped as u64);
        Ok(())
    }

    /// One short attempt at the wake-ups held back, while the view is still to be written. What it does not send
    /// is sent before the offsets are stored.
    async fn wake_early(&self, held: &mut Held) {
        match tokio::time::timeout(WAKE_EARLY_MAX, self.wake(held)).await {
            Ok(Ok(())) => held.sent(),
            Ok(Err(failure)) => warn!(error = format!("{failure:#}"), "not woken yet"),
            Err(_) => warn!("not woken yet: no broker answers"),
        }
    }

    /// One attempt at the wake-ups held back. All of them may be repeated.
    async fn wake(&self, held: &Held) -> anyhow::Result<()> {
        stream::iter(held.messages())
            .map(Ok)
            .try_for_each_concurrent(SENDS_AT_ONCE, |wake_up| self.send(wake_up))
            .await
            .context("expiry topic")
    }

    /// Writes users' changes, then reads them back.
    async fn apply(&self, users: &[(UserId, Vec<Change>)]) -> Result<(), ViewError> {
        // Each view may have to go once; one that is damaged again is left to the next attempt.
        for _ in users {
            let Err(failure) = self.apply_and_read_back(users).await else { return Ok(()) };
            let Some((user, reason)) = failure.damage() else { return Err(failure) };
            error!(user.id = %user, error = %failure, "the user's view cannot be read: view dropped");
            self.view.drop_view(user).await?;
            counter!(DROPPED_VIEWS, "reason" => reason).increment(1);
        }
        self.apply_and_read_back(users).await
    }

    async fn apply_and_read_back(&self, users: &[(UserId, Vec<Change>)]) -> Result<(), ViewError> {
        let all: Vec<UserChanges<'_>> =
            users.iter().map(|(user, changes)| (*user, changes.as_slice())).collect();
        let applied = self.view.apply_all(&all).await?;
        for outcome in applied.iter().flatten() {
            let word = match outcome {
                Applied::Applied => "applied",
                Applied::NotNewer => "not_newer",
                Applied::Cold => "cold",
            };
            counter!(CHANGES, "outcome" => word).increment(1);
        }
        // A change that is not newer is read back too: its first write may have been this consumer's,
        // killed before the read. A view that became warm between two calls of a user is read back
        // whole: nothing is written again that the view does not know.
        let is_warm = |some: &Vec<Applied>| some.iter().any(|outcome| *outcome != Applied::Cold);
        let warm = all.iter().zip(&applied).filter(|(_, some)| is_warm(some));
        let warm: Vec<UserChanges<'_>> = warm.map(|(changes, _)| *changes).collect();
        let repaired = self.view.read_back_all(&warm).await?;
        if repaired > 0 {
            warn!(repaired, "members missing after their write, written again");
            counter!(REPAIRS).increment(repaired);
        }
        Ok(())
    }

    async fn send(&self, wake_up: ExpiryWakeUp) -> anyhow::Result<()> {
        let partition = wake_up::partition(wake_up.shard, self.expiry_partitions);
        let key = wake_up.shard.to_string();
        let payload = serde_json::to_vec(&wake_up)?;
        self.producer
            .send(&self.names.expiry(), Some(partition), key.as_bytes(), &payload, &[])
            .await?;
        counter!(WAKE_UPS).increment(1);
        Ok(())
    }

    /// Nobody can tell what an undecodable message changed; its user's view has gone already.
    async fn put_aside(&self, undecodable: &Undecodable<'_>) -> anyhow::Result<()> {
        let message = undecodable.message;
        dead_letter::send(&self.producer, &self.names.dead_letter(), undecodable)
            .await
            .context("dead letter topic")?;
        counter!(DEAD_LETTERS).increment(1);
        error!(
            topic = message.topic,
            topic.partition = message.partition,
            topic.offset = message.offset,
            error = format!("{:#}", undecodable.reason),
            "message cannot be read: put aside"
        );
        Ok(())
    }

    /// At each attempt: while a store is down the lag is seen to grow.
    fn measure_lag(&self, oldest_ms: Option<i64>) {
        let Some(oldest_ms) = oldest_ms else { return };
        gauge!(LAG).set(seconds(self.clock.now().timestamp_millis() - oldest_ms));
    }

    fn measure_delay(&self, work: &Work<'_>) {
        let Some((_, newest_ms)) = work.handled_ms else { return };
        histogram!(DELAY).record(seconds(self.clock.now().timestamp_millis() - newest_ms));
    }
}

fn seconds(ms: i64) -> f64 {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0)).as_secs_f64()
}

fn count(messages: usize) -> f64 {
    f64::from(u32::try_from(messages).unwrap_or(u32::MAX))
}

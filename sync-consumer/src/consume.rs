//! The main loop: takes a batch, applies its effects, stores its offsets.

use std::{collections::HashMap, time::Duration};

use anyhow::Context as _;
use coupon::UserId;
use futures::{StreamExt, TryStreamExt, stream};
use metrics::{counter, histogram};
use redis_view::{Applied, Change, UserChanges, ViewError, ViewStore};
use runtime::{Clock, Part};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topic::{Assignment, Consumer, HeldUp, Message, Producer, TopicNames};
use tracing::{error, warn};

use crate::{
    dead_letter,
    gap::{Gap, Positions},
    lag,
    metrics::{BATCH, CHANGES, DEAD_LETTERS, DELAY, DROPPED_VIEWS, GAPS, REPAIRS},
    retry::Retry,
    show_partitions, spans,
    work::{Undecodable, Work},
};

/// Messages per batch: enough to fill the pipelines, and little to repeat after an outage.
const BATCH_MAX: usize = 1000;

/// Users per round trip to the view. It occupies the server for a few hundred microseconds, in which readers wait.
const USERS_PER_CALL: usize = 64;

/// Concurrent round trips: the next one is written while the server answers.
const CALLS_AT_ONCE: usize = 4;

/// Idle interval between checks for messages that retention deleted before we read them. While messages arrive, their
/// offsets show gaps, and no batch has to wait for this check.
const GAP_CHECK_EVERY: Duration = Duration::from_secs(60);

/// Idle time after which the lag is reported as 0, or as unknown if it cannot be known.
const IDLE_AFTER: Duration = Duration::from_secs(1);

pub(crate) struct Consume {
    pub(crate) view: ViewStore,
    pub(crate) producer: Producer,
    pub(crate) brokers: String,
    pub(crate) names: TopicNames,
    pub(crate) clock: Clock,
    /// Ready while an assignment of the group stands and each partition is read on.
    pub(crate) partitions: Part,
    /// Ready while the last attempt at a batch succeeded.
    pub(crate) stores: Part,
    /// Ready while the brokers answer. Without them, the topic's backlog is unknown.
    pub(crate) kafka: Part,
}

impl Consume {
    /// Processes batches until `stop`.
    pub(crate) async fn run(
        &self,
        consumer: &Consumer,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let mut rebalances = consumer.rebalances();
        let mut held_up = consumer.held_up();
        let mut positions = Positions::default();
        let mut gap_check_at = Instant::now() + GAP_CHECK_EVERY;
        loop {
            let batch = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                // Partitions are assigned while the loop waits for the next batch, hence a branch of its own.
                Ok(()) = rebalances.changed() => {
                    self.rebalanced(&rebalances.borrow_and_update(), &held_up.borrow());
                    gap_check_at = Instant::now();
                    continue;
                }
                Ok(()) = held_up.changed() => {
                    self.rebalanced(&rebalances.borrow(), &held_up.borrow_and_update());
                    continue;
                }
                () = tokio::time::sleep_until(gap_check_at) => {
                    gap_check_at = Instant::now() + GAP_CHECK_EVERY;
                    let owned = rebalances.borrow().of(&self.names.user_coupon());
                    if self.until_gaps_handled(&mut positions, &owned, stop).await.is_none() {
                        break;
                    }
                    continue;
                }
                () = tokio::time::sleep(IDLE_AFTER) => {
                    self.measure_idle(&rebalances.borrow());
                    continue;
                }
                batch = consumer.next_batch(BATCH_MAX) => batch.context("consuming failed")?,
            };
            gap_check_at = Instant::now() + GAP_CHECK_EVERY;
            if self.until_applied(&mut positions, &batch, stop).await.is_none() {
                break;
            }
            last_of_each_partition(&batch).for_each(|message| consumer.store(message));
        }
        Ok(())
    }

    fn rebalanced(&self, assignment: &Assignment, held_up: &[HeldUp]) {
        show_partitions(&self.partitions, assignment, held_up);
        if !assignment.stands() {
            self.measure_idle(assignment);
        }
    }

    /// Processes a batch. `None` if stopped before.
    async fn until_applied(
        &self,
        positions: &mut Positions,
        batch: &[Message],
        stop: &CancellationToken,
    ) -> Option<()> {
        let work = Work::of(batch);
        histogram!(BATCH.name).record(count(batch.len()));
        let gaps = self.until_gaps_known(positions, batch, stop).await?;
        let spans = spans::of(batch);
        if !gaps.is_empty() {
            // Once, not at each attempt at the batch: views that readers rebuild afterwards lack nothing.
            let attempt = || {
                self.measure_lag(&work);
                self.drop_all(&gaps)
            };
            self.until_done(stop, attempt).await?;
        }
        let attempt = || {
            self.measure_lag(&work);
            self.step(&work)
        };
        self.until_done(stop, attempt).await?;
        drop(spans);
        positions.pass(batch);
        self.measure_delay(&work);
        Some(())
    }

    /// Finds gaps before and within the batch. `None` if stopped before the broker returned the committed offsets.
    async fn until_gaps_known(
        &self,
        positions: &mut Positions,
        batch: &[Message],
        stop: &CancellationToken,
    ) -> Option<Vec<Gap>> {
        if positions.gaps(batch).is_empty() {
            return Some(Vec::new());
        }
        // A partition taken over from another consumer resumes where that one stopped.
        positions.learn(&self.until_done(stop, || self.committed()).await?);
        Some(positions.gaps(batch))
    }

    /// Drops every view if the topic deleted unread messages. A partition without a leader is left to a later check.
    /// `None` if stopped before this is known.
    async fn until_gaps_handled(
        &self,
        positions: &mut Positions,
        owned: &[i32],
        stop: &CancellationToken,
    ) -> Option<()> {
        if owned.is_empty() {
            return Some(());
        }
        let topic = self.names.user_coupon();
        // In this order, commits in between can only shrink the gaps.
        let look = || async {
            let offsets = topic::led_offsets(&self.brokers, &topic).await.context("offsets")?;
            anyhow::Ok((offsets, self.committed().await?))
        };
        let (offsets, committed) = self.until_done(stop, look).await?;
        positions.learn(&committed);
        let gaps = positions.forgotten(owned, &offsets);
        if !gaps.is_empty() {
            self.until_done(stop, || self.drop_all(&gaps)).await?;
            positions.skip(&gaps);
        }
        Some(())
    }

    /// Reads this group's committed offsets of the changes, in one attempt.
    async fn committed(&self) -> anyhow::Result<HashMap<i32, i64>> {
        let group = crate::group(&self.names);
        let topic = self.names.user_coupon();
        let committed = topic::committed_offsets(&self.brokers, &group, &topic).await;
        committed.context("committed offsets")
    }

    /// Repeats an attempt until it succeeds, however long a server is down. `None` if stopped before.
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

    /// Makes one attempt at a batch whose gaps are handled. All of it may be repeated.
    ///
    /// Views that lack a change are dropped before any later change is applied: otherwise they would answer a reader
    /// that requests the list `after` the later one.
    async fn step(&self, work: &Work<'_>) -> anyhow::Result<()> {
        for user in work.undecodable.iter().filter_map(|undecodable| undecodable.user) {
            self.view.drop_view(user).await.context("view")?;
            counter!(DROPPED_VIEWS.name, "reason" => "undecodable").increment(1);
        }
        for user in &work.unversioned {
            error!(user.id = %user, "a coupon was changed and kept its version: view dropped");
            self.view.drop_view(*user).await.context("view")?;
            counter!(DROPPED_VIEWS.name, "reason" => "unversioned").increment(1);
        }
        stream::iter(work.users.chunks(USERS_PER_CALL))
            .map(Ok)
            .try_for_each_concurrent(CALLS_AT_ONCE, |users| self.apply(users))
            .await
            .context("view")?;
        for undecodable in &work.undecodable {
            self.send_dead_letter(undecodable).await?;
        }
        Ok(())
    }

    /// Drops all views, because the effect of the missing messages is unknown. Each user's next reader rebuilds that
    /// view from MySQL.
    async fn drop_all(&self, gaps: &[Gap]) -> anyhow::Result<()> {
        for Gap { partition, from, to } in gaps {
            error!(
                topic.partition = partition,
                topic.offset = to,
                missing = to - from,
                "the topic forgot messages before they were read: all views are dropped"
            );
        }
        let dropped = self.view.drop_all().await.context("view")?;
        counter!(GAPS.name).increment(gaps.len() as u64);
        counter!(DROPPED_VIEWS.name, "reason" => "gap").increment(dropped as u64);
        Ok(())
    }

    /// Writes users' changes, then reads them back.
    async fn apply(&self, users: &[(UserId, Vec<Change>)]) -> Result<(), ViewError> {
        // Each view may need to be dropped once; the next attempt handles one that is damaged again.
        for _ in users {
            let Err(failure) = self.apply_and_read_back(users).await else { return Ok(()) };
            let Some((user, reason)) = failure.damage() else { return Err(failure) };
            error!(user.id = %user, error = runtime::report(&failure), "the user's view cannot be read: view dropped");
            self.view.drop_view(user).await?;
            counter!(DROPPED_VIEWS.name, "reason" => reason).increment(1);
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
            counter!(CHANGES.name, "outcome" => word).increment(1);
        }
        // Read back changes that are not newer too: this consumer may have written them and been killed before the
        // read. A view that became warm between two changes of a user is read back whole: the read-back rewrites
        // nothing that the view does not know.
        let is_warm = |some: &Vec<Applied>| some.iter().any(|outcome| *outcome != Applied::Cold);
        let warm = all.iter().zip(&applied).filter(|(_, some)| is_warm(some));
        let warm: Vec<UserChanges<'_>> = warm.map(|(changes, _)| *changes).collect();
        let repaired = self.view.read_back_all(&warm).await?;
        if repaired > 0 {
            warn!(repaired, "members missing after their write, written again");
            counter!(REPAIRS.name).increment(repaired);
        }
        Ok(())
    }

    /// Sends an undecodable message to the dead letter topic. Its effect is unknown, so its user's view was dropped
    /// before.
    async fn send_dead_letter(&self, undecodable: &Undecodable<'_>) -> anyhow::Result<()> {
        let message = undecodable.message;
        dead_letter::send(&self.producer, &self.names.dead_letter(), undecodable)
            .await
            .context("dead letter topic")?;
        counter!(DEAD_LETTERS.name).increment(1);
        error!(
            topic = message.topic,
            topic.partition = message.partition,
            topic.offset = message.offset,
            error = runtime::report(undecodable.reason.as_ref()),
            "message cannot be read: put aside"
        );
        Ok(())
    }

    /// Reports lag 0 while no message waits, and an unknown lag while no broker answers or no assignment stands.
    fn measure_idle(&self, assignment: &Assignment) {
        lag::show(lag::idle(self.kafka.is_ready(), assignment), &self.partitions);
    }

    /// Called at each attempt, so that the lag grows while a store is down.
    fn measure_lag(&self, work: &Work<'_>) {
        if let Some(lag) = work.lag_seconds(self.clock.now()) {
            lag::show(Some(lag), &self.partitions);
        }
    }

    fn measure_delay(&self, work: &Work<'_>) {
        if let Some(delay) = work.delay_seconds(self.clock.now()) {
            histogram!(DELAY.name).record(delay);
        }
    }
}

/// The last message of each partition: storing its offset stores those before it.
fn last_of_each_partition(batch: &[Message]) -> impl Iterator<Item = &Message> {
    let last: HashMap<i32, &Message> =
        batch.iter().map(|message| (message.partition, message)).collect();
    last.into_values()
}

fn count(messages: usize) -> f64 {
    f64::from(u32::try_from(messages).unwrap_or(u32::MAX))
}

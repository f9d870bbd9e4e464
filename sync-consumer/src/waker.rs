//! The loop that wakes the expiry worker. It reads the changes in its own consumer group, so an unavailable view or
//! dead letter topic does not delay wake-ups.
//!
//! A wake-up is sent before the offsets of its messages are stored, so it may be repeated but is never lost.

use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt, TryStreamExt, stream};
use metrics::counter;
use runtime::{Clock, Part};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use topic::{Consumer, ConsumerOptions, ExpiryWakeUp, FetchAhead, Producer, TopicNames};

use crate::{
    metrics::WAKE_UPS,
    retry::Retry,
    show_partitions,
    wake_up::{self, PendingWakeUps, WakeUps},
};

/// Messages per batch. Reading one takes a microsecond, so a batch delays nothing.
const BATCH_MAX: usize = 1000;

/// Concurrent sends to Kafka.
const SENDS_AT_ONCE: usize = 128;

/// Interval between requests, on an open connection, for the number of partitions of the wake-ups' topic. Workers
/// receive a wake-up on any partition, so a new number is not urgent.
const COUNT_EVERY: Duration = Duration::from_secs(10);

/// An eighth of the views' consumer's buffer: a message costs this loop far less than the view. Wake-ups are sent four
/// times a second, so the broker may gather messages for a tenth of a second.
const FETCH_AHEAD: FetchAhead =
    FetchAhead { kbytes: 2 * 1024, partition_bytes: 256 * 1024, least_bytes: 64 * 1024 };

/// Returns the name of the wake-ups' consumer group under a topic prefix.
pub fn wake_up_group(names: &TopicNames) -> String {
    format!("{}.sync-consumer.wake-ups", names.prefix())
}

pub(crate) struct Waker {
    producer: Producer,
    names: TopicNames,
    clock: Clock,
    /// Partitions of the wake-ups' topic.
    partitions: i32,
    /// Ready while an assignment of the group stands, each partition is read on and the last attempt to send succeeded.
    health: Part,
}

impl Waker {
    /// Creates the loop.
    ///
    /// # Errors
    /// No broker answers, or the wake-ups' topic is missing.
    pub(crate) async fn new(
        brokers: &str,
        producer: Producer,
        names: TopicNames,
        clock: Clock,
        health: Part,
    ) -> anyhow::Result<Self> {
        // On a new platform cdc-tailer may be about to create the topic.
        let partitions = topic::partitions(brokers, &names.expiry()).await?;
        Ok(Self { producer, names, clock, partitions, health })
    }

    /// Sends the wake-ups of all changes until `stop`.
    pub(crate) async fn run(
        mut self,
        brokers: &str,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let group = wake_up_group(&self.names);
        let topics = [self.names.user_coupon()];
        let options = ConsumerOptions { fetch_ahead: FETCH_AHEAD, ..ConsumerOptions::default() };
        let consumer = Consumer::join(brokers, &group, &topics, options).await?;
        let mut rebalances = consumer.rebalances();
        let mut held_up = consumer.held_up();
        let mut pending = PendingWakeUps::default();
        let mut counts = tokio::time::interval_at(Instant::now() + COUNT_EVERY, COUNT_EVERY);
        counts.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let batch = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Ok(()) = rebalances.changed() => {
                    show_partitions(&self.health, &rebalances.borrow_and_update(), &held_up.borrow());
                    continue;
                }
                Ok(()) = held_up.changed() => {
                    show_partitions(&self.health, &rebalances.borrow(), &held_up.borrow_and_update());
                    continue;
                }
                _ = counts.tick() => {
                    self.count_partitions().await;
                    continue;
                }
                () = pending.due() => Vec::new(),
                batch = consumer.next_batch(BATCH_MAX) => batch.context("consuming failed")?,
            };
            if !batch.is_empty() {
                pending.add(&WakeUps::of(&batch), batch, self.clock.now());
            }
            if pending.is_due() {
                if !self.until_sent(&pending, stop).await {
                    break;
                }
                show_partitions(&self.health, &rebalances.borrow(), &held_up.borrow());
                pending.take().iter().for_each(|message| consumer.store(message));
            }
        }
        // Wake-ups that are not sent now are repeated after the next start.
        if self.send_all(&pending).await.is_ok() {
            pending.take().iter().for_each(|message| consumer.store(message));
        }
        consumer.close().await.context("the last offsets were not committed; they will repeat")
    }

    /// Reads the number of partitions, which may have risen. While no broker answers, the last number is kept.
    async fn count_partitions(&mut self) {
        match self.producer.partitions(&self.names.expiry()).await {
            Ok(partitions) => self.partitions = partitions,
            Err(error) => runtime::seldom!("partitions are not counted", runtime::report(&error)),
        }
    }

    /// Repeats sending until it succeeds, however long the brokers are away. Returns false if stopped before.
    async fn until_sent(&self, pending: &PendingWakeUps, stop: &CancellationToken) -> bool {
        let mut retry = Retry::new(&self.health, stop);
        while let Err(failure) = self.send_all(pending).await {
            if !retry.after(&failure, "wake-ups not sent").await {
                return false;
            }
        }
        true
    }

    /// Makes one attempt to send the buffered wake-ups. All of them may be repeated.
    async fn send_all(&self, pending: &PendingWakeUps) -> anyhow::Result<()> {
        stream::iter(pending.messages())
            .map(Ok)
            .try_for_each_concurrent(SENDS_AT_ONCE, |wake_up| self.send(wake_up))
            .await
            .context("expiry topic")
    }

    async fn send(&self, wake_up: ExpiryWakeUp) -> anyhow::Result<()> {
        let partition = wake_up::partition(wake_up.shard, self.partitions);
        let key = wake_up.shard.to_string();
        let payload = serde_json::to_vec(&wake_up)?;
        self.producer
            .send(&self.names.expiry(), Some(partition), key.as_bytes(), &payload, &[])
            .await?;
        counter!(WAKE_UPS.name).increment(1);
        Ok(())
    }
}

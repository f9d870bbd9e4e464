//! The one loop: it sleeps until the earliest next deadline, or until somebody says something.

use std::time::Duration;

use anyhow::Context as _;
use chrono::TimeDelta;
use futures::FutureExt;
use metrics::{counter, gauge};
use mysql_store::{MySqlConnection, MySqlPool, StoreError};
use runtime::{Backoff, Clock, Part};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use topic::{Consumer, ExpiryWakeUp, Message};
use tracing::{error, info, warn};

use crate::{
    drain::{self, Drained},
    metrics::{RETRIES, SHARDS, SKEW, WAKE_UPS},
    skew::{self, Verdict},
    sweep,
    wake_ups::Deadlines,
};

/// Wake-ups taken at once; folding one costs nothing.
const BATCH_MAX: usize = 1000;

/// How often clocks are compared and the overdue counted.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The wait where MySQL's clock is behind ours: a fraction of the lateness that goes unnoticed.
const TOO_EARLY_WAIT: TimeDelta = TimeDelta::milliseconds(10);

/// The longest sleep; an earlier look never harms. It keeps weeks out of timers and limits what a
/// clock that was set meanwhile can do.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The first wait after a failure; it doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(50);

/// The longest wait: how late a server that is back is noticed.
const RETRY_MAX: Duration = Duration::from_secs(1);

/// What the loop works with.
pub(crate) struct Worker {
    pub(crate) pool: MySqlPool,
    pub(crate) clock: Clock,
    pub(crate) deadlines: Deadlines,
    /// Whether the clocks agree well enough; nothing is flipped before the first comparison.
    pub(crate) may_flip: bool,
    pub(crate) sweep_every: Duration,
    /// Ready once the group has dealt its partitions out.
    pub(crate) partitions: Part,
    /// Ready while MySQL answers.
    pub(crate) mysql: Part,
    /// Ready while our clock and MySQL's agree.
    pub(crate) clock_part: Part,
}

impl Worker {
    /// Works until `stop`.
    pub(crate) async fn run(
        &mut self,
        consumer: &Consumer,
        topic: &str,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let mut rebalances = consumer.rebalances();
        let mut looks = every(LOOK_EVERY);
        let mut sweeps = every(self.sweep_every);
        // A start looks at every shard anyway.
        sweeps.reset();
        let mut backoff = Backoff::new(RETRY_MIN, RETRY_MAX);
        let mut not_before = Instant::now();
        loop {
            let done = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                // Before messages: a shard is looked at after its coupons were committed.
                Ok(()) = rebalances.changed() => {
                    let owned = rebalances.borrow_and_update().of(topic);
                    self.assign(&owned);
                    Ok(())
                }
                // Rare, so they never hold a drain up.
                _ = looks.tick() => self.look().await,
                _ = sweeps.tick() => self.sweep().await,
                () = tokio::time::sleep_until(not_before.max(self.next_look())) => {
                    let drained = self.drain().await;
                    // A long drain must not keep the group waiting.
                    if let Some(batch) = consumer.next_batch(BATCH_MAX).now_or_never() {
                        self.fold(consumer, &batch.context("consuming failed")?);
                    }
                    drained
                }
                batch = consumer.next_batch(BATCH_MAX) => {
                    self.fold(consumer, &batch.context("consuming failed")?);
                    Ok(())
                }
            };
            match done {
                Ok(()) => backoff.reset(),
                Err(failure) => {
                    not_before = Instant::now() + backoff.next_wait();
                    self.failed(&failure);
                }
            }
        }
    }

    fn assign(&mut self, owned: &[i32]) {
        self.deadlines.assign(owned);
        gauge!(SHARDS).set(f64::from(u32::try_from(self.deadlines.shards().len()).unwrap_or(0)));
        self.partitions.ready();
    }

    /// A wake-up's effect is in memory only, and it is acknowledged all the same: the index knows
    /// whatever a successor needs.
    fn fold(&mut self, consumer: &Consumer, batch: &[Message]) {
        for message in batch {
            match topic::decode::<ExpiryWakeUp>(message.payload.as_deref().unwrap_or_default()) {
                Ok(wake_up) => self.deadlines.fold(wake_up),
                Err(error) => error!(
                    topic.partition = message.partition,
                    topic.offset = message.offset,
                    error = runtime::report(&error),
                    "wake-up cannot be read: passed over, a sweep would find its coupons"
                ),
            }
            consumer.store(message);
        }
        counter!(WAKE_UPS).increment(batch.len() as u64);
    }

    /// When the next shard has to be looked at.
    fn next_look(&self) -> Instant {
        let earliest = self.deadlines.earliest().filter(|_| self.may_flip);
        let wait = earliest.map_or(SLEEP_MAX, |(_, deadline)| {
            (deadline - self.clock.now()).to_std().unwrap_or(Duration::ZERO).min(SLEEP_MAX)
        });
        Instant::now() + wait
    }

    /// One chunk of the shard with the earliest deadline.
    async fn drain(&mut self) -> anyhow::Result<()> {
        let earliest = self.deadlines.earliest().filter(|_| self.may_flip);
        let Some((shard, deadline)) = earliest else { return Ok(()) };
        if deadline > self.clock.now() {
            return Ok(());
        }
        let mut connection = self.pool.acquire().await.context("MySQL")?;
        match drain::step(&mut connection, shard, &self.clock).await {
            Ok(Drained::More) => {}
            Ok(Drained::Until(next)) => self.deadlines.set(shard, next),
            Ok(Drained::TooEarly(next)) => {
                let again = next.max(self.clock.now()) + TOO_EARLY_WAIT;
                self.deadlines.set(shard, Some(again));
            }
            // A use of one of the coupons was in the way; the same chunk again.
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
        self.mysql.ready();
        Ok(())
    }

    async fn sweep(&mut self) -> anyhow::Result<()> {
        if !self.may_flip {
            return Ok(());
        }
        let now = self.clock.now();
        let mut connection = self.pool.acquire().await.context("MySQL")?;
        sweep::sweep(&mut connection, &mut self.deadlines, now).await?;
        Ok(())
    }

    /// Compares the clocks and counts the overdue.
    async fn look(&mut self) -> anyhow::Result<()> {
        let mut connection = self.pool.acquire().await.context("MySQL")?;
        self.compare_clocks(&mut connection).await?;
        let now = self.clock.now();
        sweep::count_overdue(&mut connection, &self.deadlines, now).await?;
        self.mysql.ready();
        Ok(())
    }

    async fn compare_clocks(&mut self, connection: &mut MySqlConnection) -> Result<(), StoreError> {
        let skew = skew::measure(connection, &self.clock).await?;
        gauge!(SKEW).set(skew.as_seconds_f64());
        let ms = skew.num_milliseconds();
        let could_flip = std::mem::replace(&mut self.may_flip, true);
        match Verdict::of(skew) {
            Verdict::Fine => self.clock_part.ready(),
            Verdict::Unready => {
                self.clock_part.not_ready(format!("our clock is {ms} ms ahead of MySQL's"));
            }
            Verdict::Stop => {
                self.may_flip = false;
                let why = format!("our clock is {ms} ms ahead of MySQL's: nothing is flipped");
                error!(clock.skew_ms = ms, "{why}; set the clocks right");
                self.clock_part.not_ready(why);
            }
        }
        if self.may_flip && !could_flip {
            info!(clock.skew_ms = ms, "the clocks agree: flipping");
        }
        Ok(())
    }

    fn failed(&self, failure: &anyhow::Error) {
        counter!(RETRIES).increment(1);
        let why = format!("{failure:#}");
        warn!(error = why, "MySQL not used, it is tried again");
        self.mysql.not_ready(why);
    }
}

/// A tick now and then every `period`; missed ticks are not made up for.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

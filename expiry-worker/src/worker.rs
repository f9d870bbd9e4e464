//! The main loop: sleeps until the earliest deadline or the next event.

use std::{collections::HashMap, time::Duration};

use anyhow::Context as _;
use chrono::TimeDelta;
use futures::{
    FutureExt,
    future::{BoxFuture, join_all, pending},
};
use metrics::{counter, gauge};
use mysql_store::{MySqlPool, connect, settings};
use runtime::{Backoff, Clock, Part};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;
use topic::{Assignment, Consumer, ExpiryWakeUp, HeldUp, Message, Producer, TopicError};
use tracing::{error, info};

use crate::{
    deadlines::Deadlines,
    drain::{Drain, Drained, Flip, Step},
    lapse::{Lapser, RETURNS_AT_ONCE, Returned},
    metrics::{HELD, OLDEST_OVERDUE, RETRIES, SHARDS, UNREADABLE, WAKE_UPS},
    pace::Pace,
    skew::ClockCheck,
    standing::Standing,
    sweep,
    unowned_shards::UnownedShards,
};

/// Wake-ups taken at once; folding one is nearly free.
const BATCH_MAX: usize = 1000;

/// Interval for comparing the clocks and counting the server's writes. It bounds how long flips continue (late, never
/// early) after a clock went wrong, and how long they stay off after it was fixed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Interval for counting overdue coupons, which reads as many index entries.
const COUNT_EVERY: Duration = Duration::from_secs(10);

/// Far longer than a commit takes from the binlog to the tables; see [`Deadlines::look_twice`].
const SECOND_LOOK_EVERY: Duration = Duration::from_secs(5);

/// Wait while MySQL's clock is behind ours: a fraction of the lateness that goes unnoticed.
const TOO_EARLY_WAIT: TimeDelta = TimeDelta::milliseconds(10);

/// The longest sleep; waking early never harms. It avoids timers of weeks and limits the effect of a clock that is
/// changed meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The first wait after a failure; it doubles up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(50);

/// The longest wait: how late a recovered server is noticed.
const RETRY_MAX: Duration = Duration::from_secs(1);

/// Shards drained in parallel while no other process writes. Their flips share a flush, and the server keeps its share of
/// the machine while tailer, broker and consumer follow. More shards would only make a use of one of the coupons wait
/// longer.
pub(crate) const SHARDS_AT_ONCE: usize = 2;

/// Wait before a shard is tried again whose drain failed.
const FAILED_WAIT: TimeDelta = TimeDelta::seconds(1);

/// Longest rest after returns: some of them may only have waited for a locked coupon.
const RETURN_REST_MAX: Duration = Duration::from_millis(100);

/// Time after which the group assigns by a new partition count: twice the interval at which its members' clients
/// refresh it.
const DEALT_ANEW_AFTER: Duration = Duration::from_secs(600);

pub(crate) struct Worker {
    pub(crate) pool: MySqlPool,
    pub(crate) clock: Clock,
    pub(crate) deadlines: Deadlines,
    pub(crate) neglect: UnownedShards,
    /// Nothing is flipped before the first comparison of the clocks.
    pub(crate) clock_check: ClockCheck,
    /// Shards being drained; of the others only the deadline is known.
    pub(crate) drains: HashMap<u8, Drain>,
    pub(crate) pace: Pace,
    pub(crate) lapser: Lapser,
    pub(crate) sweep_every: Duration,
    pub(crate) lost_after: Duration,
    /// Asks for the number of partitions.
    pub(crate) producer: Producer,
    /// Partition count of the wake-up topic.
    pub(crate) partition_count: watch::Sender<i32>,
    /// Whether an assignment of the group stands, and what is wrong with its partitions.
    pub(crate) standing: Standing,
    /// When the number of partitions was last seen to change.
    pub(crate) recounted: Option<Instant>,
    /// Ready while MySQL answers.
    pub(crate) mysql: Part,
    /// Ready while each partition of the wake-up topic has a leader that answers.
    pub(crate) kafka: Part,
}

impl Worker {
    /// Runs until `stop`.
    pub(crate) async fn run(
        &mut self,
        consumer: &Consumer,
        topic: &str,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let mut sweep_signal = signal(SignalKind::user_defined1()).context("SIGUSR1 handler")?;
        let mut rebalances = consumer.rebalances();
        let mut held_up = consumer.held_up();
        // The pending request for the topic's partition count.
        let mut counting: BoxFuture<'_, Result<i32, TopicError>> = pending().boxed();
        let mut looks = every(LOOK_EVERY);
        let mut counts = every(COUNT_EVERY);
        let mut second_looks = every(SECOND_LOOK_EVERY);
        let mut sweeps = every(self.sweep_every);
        // The start reads every shard anyway.
        sweeps.reset();
        let mut backoff = Backoff::new(RETRY_MIN, RETRY_MAX);
        let mut not_before = Instant::now();
        loop {
            let done = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                // Before messages: a shard's index is read after its coupons were committed.
                Ok(()) = rebalances.changed() => {
                    let assignment = rebalances.borrow_and_update().clone();
                    self.rebalanced(&assignment, topic);
                    counting = self.count_partitions(topic);
                    Ok(())
                }
                Ok(()) = held_up.changed() => {
                    self.standing.held_up(HeldUp::sentence(&held_up.borrow_and_update()));
                    Ok(())
                }
                counted = &mut counting => {
                    counting = pending().boxed();
                    self.counted(counted, &rebalances.borrow().of(topic));
                    Ok(())
                }
                // Rare, so they do not delay a drain.
                _ = looks.tick() => self.watch_server(consumer).await,
                _ = counts.tick() => {
                    counting = self.count_partitions(topic);
                    self.count_overdue().await
                }
                _ = second_looks.tick() => {
                    self.deadlines.look_twice();
                    Ok(())
                }
                _ = sweeps.tick() => self.sweep().await,
                // An operator requests a sweep now.
                Some(()) = sweep_signal.recv() => self.sweep().await,
                () = tokio::time::sleep_until(not_before.max(self.next_due())) => {
                    let drained = self.drain().await;
                    // A long drain must not keep the group waiting.
                    if let Some(batch) = consumer.next_batch(BATCH_MAX).now_or_never() {
                        self.fold(consumer, &batch.context("consuming failed")?);
                    }
                    drained.map(|rest| not_before = Instant::now() + rest)
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

    /// After losing its partitions, the worker keeps its shards: while no broker answers, no other worker can get them.
    /// If another has them anyway, two workers that flip do no harm.
    fn rebalanced(&mut self, assignment: &Assignment, topic: &str) {
        self.standing.assigned(assignment.stands());
        if self.standing.stands() {
            self.deadlines.assign(&assignment.of(topic));
            // Shards of lost partitions are dropped; those that stay are due again at once.
            self.drains.clear();
            self.neglect = UnownedShards::default();
        }
        self.measure_shards();
    }

    /// Asks for the topic's number of partitions: they may be added at any time.
    fn count_partitions(&self, topic: &str) -> BoxFuture<'static, Result<i32, TopicError>> {
        let producer = self.producer.clone();
        let topic = topic.to_owned();
        async move { producer.partitions(&topic).await }.boxed()
    }

    fn counted(&mut self, counted: Result<i32, TopicError>, owned: &[i32]) {
        match counted {
            Ok(_) if !self.standing.stands() => {}
            Ok(partitions) => {
                self.partition_count.send_replace(partitions);
                if self.deadlines.count_partitions(partitions, owned) {
                    info!(partitions, "the wake-up topic has another number of partitions");
                    self.recounted = Some(Instant::now());
                } else if self.recounted.is_none_or(|at| at.elapsed() > DEALT_ANEW_AFTER) {
                    self.deadlines.settle(owned);
                }
            }
            // Asked again soon; the part `kafka` reports an outage.
            Err(error) => runtime::seldom!("partitions not counted", runtime::report(&error)),
        }
        self.measure_shards();
    }

    fn measure_shards(&self) {
        gauge!(SHARDS.name).set(f64::from(u32::try_from(self.deadlines.owned()).unwrap_or(0)));
    }

    /// Folds wake-ups into the deadlines. Their effect is in memory only, but they can be acknowledged: a successor
    /// learns everything from the index.
    fn fold(&mut self, consumer: &Consumer, batch: &[Message]) {
        for message in batch {
            match topic::decode::<ExpiryWakeUp>(message.payload.as_deref().unwrap_or_default()) {
                Ok(wake_up) => self.deadlines.fold(wake_up),
                Err(error) => {
                    counter!(UNREADABLE.name).increment(1);
                    error!(
                        topic.partition = message.partition,
                        topic.offset = message.offset,
                        error = runtime::report(&error),
                        "wake-up cannot be read: passed over, a sweep would find its coupons"
                    );
                }
            }
            consumer.store(message);
        }
        counter!(WAKE_UPS.name).increment(batch.len() as u64);
    }

    /// When the next shard is due.
    fn next_due(&self) -> Instant {
        let wait = self.deadlines.wait(self.clock.now()).filter(|_| self.clock_check.may_flip());
        Instant::now() + wait.map_or(SLEEP_MAX, |wait| wait.min(SLEEP_MAX))
    }

    /// Drains one chunk of each of the due shards whose turn it is. Returns how long to rest.
    async fn drain(&mut self) -> anyhow::Result<Duration> {
        if !self.clock_check.may_flip() {
            return Ok(Duration::ZERO);
        }
        let is_alone = self.pace.is_alone();
        let (shards, returns) = if is_alone { (SHARDS_AT_ONCE, RETURNS_AT_ONCE) } else { (1, 1) };
        let due = self.deadlines.take_turns(self.clock.now(), shards);
        let mut drains = std::mem::take(&mut self.drains);
        let steps = due.into_iter().map(|shard| {
            let is_wary = self.deadlines.is_put_off(shard);
            let drain = drains.remove(&shard).unwrap_or_else(|| Drain::new(is_wary));
            self.step(shard, drain, returns)
        });
        let mut rest = Duration::ZERO;
        let mut failure = None;
        for (shard, drain, done) in join_all(steps).await {
            match done {
                Ok(step) => {
                    rest = rest.max(self.rest_after(&step));
                    if self.deadlines.is_adopted(shard) && step.has_ended_any() {
                        self.neglect.swept(shard);
                    }
                    self.drained(shard, drain, step.drained);
                }
                Err(error) => {
                    self.drains.insert(shard, drain);
                    // The others have their turn first: the failure may be this shard's alone.
                    self.deadlines.put_off(shard, self.clock.now() + FAILED_WAIT);
                    failure = Some(error);
                }
            }
        }
        failure.map_or(Ok(rest), Err)
    }

    async fn step(
        &self,
        shard: u8,
        mut drain: Drain,
        returns: usize,
    ) -> (u8, Drain, anyhow::Result<Step>) {
        let step = async {
            let mut connection = connect::acquire(&self.pool).await.context("MySQL")?;
            drain.step(&mut connection, shard, returns, &self.lapser).await
        };
        let done = step.await;
        (shard, drain, done)
    }

    /// How long to rest after a step.
    fn rest_after(&mut self, step: &Step) -> Duration {
        let mut rest = Duration::ZERO;
        if let Some(Returned { coupons, writes, took }) = step.returned {
            self.pace.wrote(writes);
            rest = self.pace.rest_after_return(coupons, took).min(RETURN_REST_MAX);
        }
        if let Some(Flip { coupons, took, .. }) = step.flip {
            self.pace.wrote(1);
            rest = rest.max(self.pace.rest_after(coupons, took));
        }
        rest
    }

    fn drained(&mut self, shard: u8, drain: Drain, drained: Drained) {
        self.mysql.ready();
        match drained {
            Drained::More => {
                self.drains.insert(shard, drain);
                return;
            }
            Drained::Until(next) => self.deadlines.set(shard, next),
            Drained::TooEarly(next) => {
                let again = next.max(self.clock.now()) + TOO_EARLY_WAIT;
                self.deadlines.set(shard, Some(again));
            }
            Drained::PutOff(again) => self.deadlines.put_off(shard, again),
        }
        self.deadlines.give_back(shard);
    }

    async fn sweep(&mut self) -> anyhow::Result<()> {
        // With a wrong clock, recent changes would look old.
        if !self.clock_check.may_flip() {
            return Ok(());
        }
        let now = self.clock.now();
        let mut connection = connect::acquire(&self.pool).await.context("MySQL")?;
        let swept = sweep::sweep(&mut connection, &mut self.deadlines, now, self.lost_after);
        connect::within(swept).await?;
        Ok(())
    }

    /// Compares the clocks and counts the server's writes.
    async fn watch_server(&mut self, consumer: &Consumer) -> anyhow::Result<()> {
        let mut connection = connect::acquire(&self.pool).await.context("MySQL")?;
        if connect::within(self.clock_check.compare(&mut connection, &self.clock)).await? {
            // The Kafka client sleeps by wall-clock time: after a clock was set back, it sleeps until that time comes
            // again, unless it receives a request. The response does not matter.
            drop(tokio::time::timeout(LOOK_EVERY, consumer.commit()).await);
        }
        let writes = connect::within(settings::writes(&mut connection)).await?;
        self.pace.count_writes(writes, Instant::now());
        // No wake-up can arrive, or not all of them.
        if !self.standing.stands() || !self.kafka.is_ready() || self.deadlines.is_unsettled() {
            self.deadlines.look_at_all();
        }
        self.mysql.ready();
        Ok(())
    }

    async fn count_overdue(&mut self) -> anyhow::Result<()> {
        let mut connection = connect::acquire(&self.pool).await.context("MySQL")?;
        let now = self.clock.now();
        let counted = sweep::count_overdue(&mut connection, &self.deadlines, now);
        connect::within(counted).await?;
        connect::within(sweep::count_held(&mut connection, &self.deadlines)).await?;
        // With a wrong clock, all shards would look neglected.
        if self.clock_check.may_flip() {
            let looked =
                sweep::overdue_elsewhere(&mut connection, &self.deadlines, now, self.lost_after);
            let neglected = self.neglect.look(connect::within(looked).await?);
            neglected.into_iter().for_each(|shard| self.deadlines.adopt(shard));
            if self.standing.stands() {
                self.standing.neglected(self.neglect.report());
            }
        }
        Ok(())
    }

    fn failed(&self, failure: &anyhow::Error) {
        counter!(RETRIES.name).increment(1);
        // The part logs it, once a minute.
        self.mysql.not_ready(runtime::report(failure.as_ref()));
        // Counted again when MySQL answers: earlier counts say nothing about now.
        gauge!(OLDEST_OVERDUE.name).set(f64::NAN);
        gauge!(HELD.name).set(f64::NAN);
    }
}

/// Ticks at once, then every `period`; a missed tick delays the next one.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

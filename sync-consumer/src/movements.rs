//! Applies stock movements from the topic to the gate. After an operator's movement the api updates the gate itself;
//! this covers an api that died before. expiry-worker has no gate, so movements of lapsed holds reach the gate here.
//!
//! Each movement takes effect once, so repeated or late ones do nothing. If the gate lacks earlier movements, they are
//! read from MySQL. An absent or loading gate is skipped: it reads its stock from MySQL, and its keeper checks for
//! movements made meanwhile.

use anyhow::Context as _;
use coupon::{Epoch, Returned, TemplateId, limit, read_returned};
use metrics::counter;
use mysql_store::{MySqlPool, StoreError, connect, stock::MovementPages};
use redis_gate::{Gate, GateError, GateRedis, Moved};
use runtime::{Backoff, Part};
use tokio_util::sync::CancellationToken;
use topic::{Consumer, ConsumerOptions, Event, HeldUp, Message, Op, StockMovementRow, TopicNames};
use tracing::error;

use crate::{
    config::Config,
    metrics::MOVEMENTS,
    retry::{RETRY_MAX, RETRY_MIN, Retry},
};

/// Messages per batch. A movement of lapsed holds returns up to 255 coupons, so even many lapses make few messages.
const BATCH_MAX: usize = 100;

/// Immediate attempts at a gate whose epoch keeps changing.
const EPOCHS_MAX: u32 = 4;

/// Returns the name of the movements' consumer group under a topic prefix.
pub fn movement_group(names: &TopicNames) -> String {
    format!("{}.sync-consumer.movements", names.prefix())
}

pub(crate) struct Movements {
    pool: MySqlPool,
    gate: Gate,
    /// Ready while the last attempt at a movement succeeded and each partition is read on.
    health: Part,
}

impl Movements {
    /// Connects to the gate, retrying for as long as it is unreachable; the users' views do not wait for it. `None` if
    /// stopped before.
    pub(crate) async fn connect(
        config: &Config,
        pool: MySqlPool,
        health: Part,
        stop: &CancellationToken,
    ) -> anyhow::Result<Option<Self>> {
        let mut backoff = Backoff::new(RETRY_MIN, RETRY_MAX);
        loop {
            let redis = match GateRedis::connect(config.gate_redis_url.expose()).await {
                Ok(redis) => redis,
                Err(failure @ GateError::Unfit(_)) => {
                    return Err(failure)
                        .context("the gate's Redis cannot be used (GATE_REDIS_URL)");
                }
                Err(failure) => {
                    // The server `gate` of `/readyz` reports it too.
                    health.not_ready(runtime::report(&failure));
                    tokio::select! {
                        () = stop.cancelled() => return Ok(None),
                        () = backoff.wait() => continue,
                    }
                }
            };
            health.ready();
            let gate = Gate::new(redis, &config.key_prefix);
            return Ok(Some(Self { pool, gate, health }));
        }
    }

    /// Applies movements one by one until `stop`.
    pub(crate) async fn run(
        &self,
        brokers: &str,
        names: &TopicNames,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let group = movement_group(names);
        let topics = [names.stock_movement()];
        let consumer = Consumer::join(brokers, &group, &topics, ConsumerOptions::default()).await?;
        let mut held_up = consumer.held_up();
        'stopped: loop {
            let batch = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Ok(()) = held_up.changed() => {
                    self.show(&held_up.borrow_and_update());
                    continue;
                }
                batch = consumer.next_batch(BATCH_MAX) => batch.context("consuming failed")?,
            };
            for message in &batch {
                if !self.until_applied(message, stop).await {
                    break 'stopped;
                }
                consumer.store(message);
            }
            self.show(&held_up.borrow());
        }
        consumer.close().await.context("the last offsets were not committed; they will repeat")
    }

    /// Reports which partitions cannot be read on. Call it after a success.
    fn show(&self, held_up: &[HeldUp]) {
        match HeldUp::sentence(held_up) {
            Some(why) => self.health.not_ready(why),
            None => self.health.ready(),
        }
    }

    /// Retries a message until it is done, however long a server is down. Returns false if stopped before.
    async fn until_applied(&self, message: &Message, stop: &CancellationToken) -> bool {
        let (movement, returned) = match read(message) {
            Ok(Some(read)) => read,
            Ok(None) => return true,
            Err(reason) => {
                // The template's next movement fetches this one from MySQL, and so does the keeper.
                let topic = &message.topic;
                let offset = message.offset;
                let reason = runtime::report(reason.as_ref());
                error!(topic, topic.offset = offset, reason, "a movement cannot be read");
                counter!(MOVEMENTS.name, "outcome" => "unreadable").increment(1);
                return true;
            }
        };
        let mut retry = Retry::new(&self.health, stop);
        while let Err(failure) = self.apply(&movement, &returned).await {
            if !retry.after(&failure, "movement not applied").await {
                return false;
            }
        }
        retry.done();
        true
    }

    /// Makes one attempt at a movement. It may be repeated.
    async fn apply(
        &self,
        movement: &StockMovementRow,
        returned: &[Returned],
    ) -> anyhow::Result<()> {
        match self.apply_once(movement, returned).await {
            // Its keeper sends the movement once its slot has a master; the gates of other slots need not wait.
            Err(failure) if self.is_of_slot(movement, &failure).await => {
                let why = format!(
                    "template {}: {}",
                    movement.template_id,
                    runtime::report(failure.as_ref())
                );
                runtime::seldom!("movements are left to the keeper", why);
                counter!(MOVEMENTS.name, "outcome" => "not_loaded").increment(1);
                Ok(())
            }
            // Its keeper begins a new epoch, which reads the stock from MySQL; other gates need not wait.
            Err(failure) if is_of_gate(&failure) => {
                let template = TemplateId(movement.template_id);
                let error = runtime::report(failure.as_ref());
                error!(template.id = %template, error, "a gate cannot be read");
                counter!(MOVEMENTS.name, "outcome" => "not_loaded").increment(1);
                Ok(())
            }
            applied => applied,
        }
    }

    /// Returns whether the failure concerns the gates of some slots of a cluster, while others are reached: the slot is
    /// moving, or its master is away.
    async fn is_of_slot(&self, movement: &StockMovementRow, failure: &anyhow::Error) -> bool {
        let Some(failure) = failure.downcast_ref::<GateError>() else { return false };
        let template = TemplateId(movement.template_id);
        failure.is_of_slot() || self.gate.reach().await.is_ok_and(|reach| !reach.has(template))
    }

    async fn apply_once(
        &self,
        movement: &StockMovementRow,
        returned: &[Returned],
    ) -> anyhow::Result<()> {
        let template = TemplateId(movement.template_id);
        let seq = movement.seq;
        let delta = movement.delta_stock.unwrap_or(movement.delta);
        let mut epoch = Epoch::UNKNOWN;
        for _ in 0..EPOCHS_MAX {
            let moved = self.gate.apply_movement(template, epoch, seq, delta, returned);
            let outcome = match moved.await.context("gate")? {
                Moved::OtherEpoch(current) => {
                    epoch = current;
                    continue;
                }
                Moved::Gap(last) => match self.apply_after(template, epoch, last).await {
                    Ok(()) => {
                        // MySQL may not show the message's own movement yet.
                        let own = self.gate.apply_movement(template, epoch, seq, delta, returned);
                        own.await.context("gate")?;
                        "gap"
                    }
                    // Its keeper begins a new epoch, which needs no movements; other gates need not wait.
                    Err(failure) if is_unreadable(&failure) => {
                        let error = runtime::report(failure.as_ref());
                        error!(template.id = %template, error, "a movement in MySQL cannot be read");
                        "unreadable"
                    }
                    Err(failure) => return Err(failure),
                },
                Moved::Applied(_) => "applied",
                Moved::Already => "already",
                Moved::NotLoaded => "not_loaded",
            };
            counter!(MOVEMENTS.name, "outcome" => outcome).increment(1);
            return Ok(());
        }
        anyhow::bail!("the gate's epoch changes faster than it can be asked")
    }

    /// Applies all movements after `last` that MySQL shows. If the gate has another epoch by then, it has already
    /// loaded them all.
    async fn apply_after(
        &self,
        template: TemplateId,
        epoch: Epoch,
        last: i64,
    ) -> anyhow::Result<()> {
        let mut connection = connect::acquire(&self.pool).await?;
        let mut pages = MovementPages::after(template, last);
        while let Some(page) = connect::within(pages.next(&mut connection)).await? {
            for missing in page {
                let seq = missing.seq;
                let delta = missing.delta_stock;
                let returned = &missing.returned;
                let moved = self.gate.apply_movement(template, epoch, seq, delta, returned);
                moved.await.context("gate")?;
            }
        }
        Ok(())
    }
}

/// Returns whether one gate holds something unreadable, so that a retry would fail too.
fn is_of_gate(failure: &anyhow::Error) -> bool {
    let failure = failure.downcast_ref::<GateError>();
    failure.is_some_and(|failure| {
        failure.is_of_keys() || matches!(failure, GateError::Unreadable { .. })
    })
}

/// Returns whether a row in MySQL is unreadable, so that a retry would fail too.
fn is_unreadable(failure: &anyhow::Error) -> bool {
    failure.downcast_ref::<StoreError>().is_some_and(StoreError::is_unreadable)
}

/// Reads a movement and what it gives back; `None` if it was deleted with its draft, which never had a gate.
pub(crate) fn read(message: &Message) -> anyhow::Result<Option<(StockMovementRow, Vec<Returned>)>> {
    let payload = message.payload.as_deref().unwrap_or_default();
    let event: Event<StockMovementRow> = topic::decode(payload)?;
    if event.op == Op::Delete {
        return Ok(None);
    }
    let movement = event.after.context("event without a row after it")?;
    anyhow::ensure!(movement.seq > 0, "seq {} is not above 0", movement.seq);
    let delta = movement.delta_stock.unwrap_or(movement.delta);
    let is_possible = (-limit::STOCK_MAX..=limit::STOCK_MAX).contains(&delta);
    anyhow::ensure!(is_possible, "{delta} units are more than a stock has");
    let returned = read_returned(movement.returned.as_deref().unwrap_or_default())?;
    Ok(Some((movement, returned)))
}

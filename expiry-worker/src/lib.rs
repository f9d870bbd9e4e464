//! Ends coupons at their deadlines, each once and never early: unused ones expire with their validity, held ones lapse with
//! their holds.
//!
//! ```text
//! topic expiry ─ wake-up ─▶ next deadline of each shard ─ sleep ─▶ drain: flip or lapse due coupons, in chunks
//!                                       ▲                              │
//!                                       └── min(valid_until) ◀─ the deadline index in MySQL
//! ```
//! Expiry does not depend on this worker: every read and use refuses a coupon from `valid_until` on. The flip only
//! records it, so that lists, counts and the view follow. A hold has lapsed at its deadline in the same way, but its unit
//! and its number come back with the return that records it (`lapse.rs`).
//!
//! Kafka has no delayed messages, so this process implements the delay: each message is a wake-up that is folded into
//! the next deadline of its shard and acknowledged at once. The durable timer is the index. Flipped rows leave its
//! unused part, so finding a shard's next deadline is one seek, done at the start, at a rebalance and after each drain.
//! Lost, duplicate or early messages are therefore harmless. A slow sweep finds coupons whose wake-up was lost; its
//! metric should stay at zero.
//!
//! The consumer group distributes the shards: shard s belongs to partition s modulo the partition count, which is read
//! at each rebalance and every ten seconds. Any worker sweeps a shard whose coupons are still unflipped a minute after
//! their deadline, if nothing moves there (`neglect.rs`). Two workers on one shard, even if one was paused and resumes,
//! cannot flip twice or early: each flip is guarded by status and by both clocks. It is one statement, so a stopped
//! worker holds no lock. Memory holds one deadline per shard, however many coupons wait, and of each shard that is due
//! some thousand of its due coupons. Due shards take turns, a chunk each, so one merchant's storm delays other
//! merchants' coupons by one round at most.
//!
//! Two more loops work on the same coupons: `announce.rs` announces coupons that end soon, `mover.rs` moves issued
//! coupons to their template's new validity.

mod announce;
mod config;
mod deadlines;
mod drain;
#[doc(hidden)]
pub mod fuzz;
mod lapse;
mod metrics;
mod mover;
mod pace;
mod skew;
mod standing;
mod stock_locks;
mod sweep;
mod unowned_shards;
mod worker;

use std::collections::HashMap;

use anyhow::Context as _;
use mysql_store::migrate;
use runtime::{Clock, Health};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use topic::{BrokerProbe, Consumer, ConsumerOptions, Producer, ProducerOptions, TopicNames};

use crate::deadlines::Deadlines;

pub use crate::metrics::METRICS;
pub use config::{Config, Leads};

/// Connections to MySQL: for each shard that is drained one and those of its returns, and one for the announcements.
const MYSQL_CONNECTIONS: u32 = (worker::SHARDS_AT_ONCE * (1 + lapse::RETURNS_AT_ONCE)) as u32 + 1;

/// Returns the name of the consumer group under a topic prefix.
pub fn group(names: &TopicNames) -> String {
    format!("{}.expiry-worker", names.prefix())
}

/// Runs until `stop`.
///
/// # Errors
/// A server cannot be reached at the start, a topic is missing, or consuming fails for good. Later outages are waited
/// out.
pub async fn run(
    config: &Config,
    clock: &Clock,
    health: &Health,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    metrics::describe();
    let names = TopicNames::new(&config.topic_prefix);
    let topic = names.expiry();
    let address = runtime::address(config.database_url.expose());
    let kafka = health.server("kafka", &runtime::address(&config.kafka_brokers));
    let producer = Producer::connect(&config.kafka_brokers, ProducerOptions::default()).await?;
    let pool = migrate::checked_pool(config.database_url.expose(), MYSQL_CONNECTIONS)
        .await
        .context("MySQL cannot be used (DATABASE_URL)")?;
    let mut worker = worker::Worker {
        standing: standing::Standing::new(health.part("partitions")),
        mysql: health.server("mysql", &address),
        clock_check: skew::ClockCheck::new(health.part("clock")),
        lapser: lapse::Lapser::new(pool.clone(), clock.clone(), config.fail_points.clone()),
        pool,
        clock: clock.clone(),
        deadlines: Deadlines::default(),
        drains: HashMap::new(),
        pace: pace::Pace::default(),
        sweep_every: config.sweep_every(),
        lost_after: config.lost_after(),
        producer: producer.clone(),
        kafka: kafka.clone(),
        neglect: unowned_shards::UnownedShards::default(),
        recounted: None,
        partition_count: watch::Sender::default(),
    };
    let partitions = topic::partitions(&config.kafka_brokers, &topic).await?;
    worker.deadlines = Deadlines::new(partitions);
    worker.partition_count.send_replace(partitions);
    let announcer = announce::Announcer {
        pool: worker.pool.clone(),
        producer,
        topic: names.expiring(),
        clock: clock.clone(),
        leads: config.expiring_leads.0.clone(),
        dealt_by: (topic.clone(), worker.partition_count.subscribe()),
    };
    let mover = mover::Mover::new(config.database_url.clone(), config.fail_points.clone());
    let brokers = &config.kafka_brokers;
    let topics = [topic];
    let consumer =
        Consumer::join(brokers, &group(&names), &topics, ConsumerOptions::default()).await?;
    let probe = BrokerProbe::new(brokers, [names.expiry(), names.expiring()]);
    let watched = runtime::watch(kafka, stop.clone(), || probe.check());
    tokio::select! {
        // Ends with `stop`, and so does the worker, which alone decides when this is over.
        () = async { watched.await; std::future::pending::<()>().await } => {}
        worked = worker.run(&consumer, &topics[0], &stop) => worked?,
        () = announcer.run(consumer.rebalances()) => {}
        () = mover.run() => {}
    }
    consumer.close().await.context("the last offsets were not committed; they will repeat")
}

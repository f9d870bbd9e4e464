//! Publishes the queued claims that wait in the gates' outboxes.
//!
//! ```text
//! claim.lua ─▶ outbox (a stream of each template) ─ worker 1..n ─▶ topic claims ─▶ claim-lander
//!                        ▲                              │
//!                        └── removed, after the ack ────┘
//! ```
//! The guarantee: an entry leaves its outbox only after all in-sync copies of the topic have it. So each claim is
//! published at least once, and MySQL lands it once. Entries are removed by the run of Redis in which they were read:
//! a Redis that went back in time gives their ids to other claims.
//!
//! The workers of all relays are one consumer group, so each entry is given to one of them. A worker holds its name by
//! a lease; its list of pending entries is kept under that name. It first publishes what the name's last holder left
//! behind, and now and then what a worker elsewhere has not finished for longer than a lease. Correctness does not
//! depend on the leases: any worker may publish any entry, so two workers with one entry only cost a duplicate message.
//!
//! A claim that is answered after the topic has it is published by the api itself. Its entry is left alone for two
//! seconds, and published here only if it is still in the outbox then.
//!
//! While no broker answers, claims wait in the outboxes, until an outbox's limit refuses further ones. While MySQL does
//! not answer, workers keep their names and continue, and new workers use a spare name.

mod config;
mod dead_letter;
mod leased_names;
mod metrics;
mod outboxes;
mod pace;
mod relay;
mod worker;

use std::sync::Arc;

use anyhow::Context as _;
use redis_gate::{Gate, GateRedis};
use runtime::Health;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use topic::{BrokerProbe, ClaimsProducer, Producer, ProducerOptions, TopicNames};

use crate::{
    dead_letter::DeadLetters,
    leased_names::{Leases, Names},
    outboxes::{Ages, Outboxes},
    relay::{LINGER, Relay},
    worker::{HeldNames, Worker},
};

pub use crate::metrics::METRICS;
pub use config::Config;

/// Runs until `stop`, then finishes the rounds under way.
///
/// # Errors
/// The gate or Kafka cannot be reached at the start, MySQL refuses us, or a topic is missing. Later outages are waited out.
pub async fn run(config: &Config, health: &Health, stop: CancellationToken) -> anyhow::Result<()> {
    metrics::describe();
    let brokers = &config.kafka_brokers;
    let topics = TopicNames::new(&config.topic_prefix);
    let database = config.database_url.expose();
    let mysql = health.spare_server("mysql", &runtime::address(database));
    let gate_part = health.server("gate", &runtime::address(config.gate_redis_url.expose()));
    let kafka = health.server("kafka", &runtime::address(brokers));
    let held = Arc::new(HeldNames::new(health.part("workers"), config.relay_workers));
    let leases = Arc::new(Leases::new(config.database_url.clone(), mysql));
    leases.begin().await.context("MySQL cannot be used (DATABASE_URL)")?;
    let redis = GateRedis::connect(config.gate_redis_url.expose())
        .await
        .context("the gate's Redis cannot be used (GATE_REDIS_URL)")?;
    let gate = Gate::new(redis, &config.key_prefix);
    // Waits for a topic that is being created.
    let partitions = topic::partitions(brokers, &topics.claims()).await?;
    let options = ProducerOptions { linger: LINGER, ..ProducerOptions::default() };
    // While no broker answers, the claims of a batch would ask for the number one after another.
    let claims = ClaimsProducer::new(brokers, &topics, options).with_partitions(partitions);
    let letters = Producer::connect(brokers, ProducerOptions::default()).await?;
    let ages = Arc::new(Ages::default());
    let relay = Arc::new(Relay {
        gate: gate.clone(),
        claims,
        letters: DeadLetters::new(letters, &topics),
        ages: Arc::clone(&ages),
        points: config.fail_points.clone(),
    });
    let (waiting, _) = watch::channel(Arc::default());
    let mut workers = JoinSet::new();
    for _ in 0..config.relay_workers {
        let names = Names::new(Arc::clone(&leases));
        let worker = Worker::new(Arc::clone(&relay), names, waiting.subscribe(), Arc::clone(&held));
        workers.spawn(worker.run(stop.clone()));
    }
    let work = async {
        while let Some(ended) = workers.join_next().await {
            ended.context("a worker failed")?;
        }
        anyhow::Ok(())
    };
    let look = async {
        Outboxes::new(gate, gate_part, ages, waiting).run(&stop).await;
        Ok(())
    };
    let probe = BrokerProbe::new(brokers, [topics.claims(), topics.dead_letter()]);
    let watched = async {
        runtime::watch(kafka, stop.clone(), || probe.check()).await;
        Ok(())
    };
    tokio::try_join!(work, look, watched).map(|_| ())
}

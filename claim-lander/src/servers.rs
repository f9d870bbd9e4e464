//! Reports in `/readyz` whether the servers that the lander needs answer.

use mysql_store::{MySqlPool, settings};
use redis_gate::GateProbe;
use runtime::{Clock, Health, Part};
use tokio_util::sync::CancellationToken;
use topic::{BrokerProbe, TopicNames};

use crate::config::Config;

/// The servers, each with its handle.
pub(crate) struct ServerHealth {
    kafka: Part,
    mysql: Part,
    /// Claims land without it.
    gate: Part,
}

impl ServerHealth {
    /// Adds the servers to `health`. None is up yet.
    pub(crate) fn of(config: &Config, health: &Health) -> Self {
        let gate = runtime::address(config.gate_redis_url.expose());
        Self {
            kafka: health.server("kafka", &runtime::address(&config.kafka_brokers)),
            mysql: health.server("mysql", &runtime::address(config.database_url.expose())),
            gate: health.spare_server("gate", &gate),
        }
    }

    /// Asks each server every few seconds until `stop`.
    pub(crate) async fn watch(
        self,
        config: &Config,
        pool: &MySqlPool,
        clock: &Clock,
        stop: &CancellationToken,
    ) {
        let names = TopicNames::new(&config.topic_prefix);
        let topics =
            [names.claims(), names.payments(), names.claim_progress(), names.dead_letter()];
        let probe = BrokerProbe::new(&config.kafka_brokers, topics);
        let mysql = || async { settings::pool_skew(pool, || clock.now()).await.map(drop) };
        let gate = GateProbe::new(config.gate_redis_url.expose());
        tokio::join!(
            runtime::watch(self.kafka, stop.clone(), || probe.check()),
            runtime::watch(self.mysql, stop.clone(), mysql),
            runtime::watch(self.gate, stop.clone(), || gate.check()),
        );
    }
}

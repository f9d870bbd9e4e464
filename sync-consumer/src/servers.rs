//! Whether the servers that the consumer needs answer, for `/readyz`.

use mysql_store::{MySqlPool, settings};
use redis_gate::GateProbe;
use redis_view::ViewStore;
use runtime::{Clock, Health, Part};
use tokio_util::sync::CancellationToken;
use topic::{BrokerProbe, TopicNames};

use crate::config::Config;

/// The servers, each with its handle.
pub(crate) struct ServerHealth {
    pub(crate) kafka: Part,
    mysql: Part,
    view: Part,
    gate: Part,
}

impl ServerHealth {
    /// Adds the servers to `health`. None is up yet.
    pub(crate) fn of(config: &Config, health: &Health) -> Self {
        let server = |name, url: &str| health.server(name, &runtime::address(url));
        Self {
            kafka: server("kafka", &config.kafka_brokers),
            mysql: server("mysql", config.database_url.expose()),
            view: server("view", config.view_redis_url.expose()),
            gate: server("gate", config.gate_redis_url.expose()),
        }
    }

    /// Checks each server every few seconds until `stop`. Also checks that the settings of the view's Redis, which
    /// operators may change, still suit a view.
    pub(crate) async fn watch(
        self,
        config: &Config,
        pool: &MySqlPool,
        view: &ViewStore,
        clock: &Clock,
        stop: &CancellationToken,
    ) {
        let names = TopicNames::new(&config.topic_prefix);
        let topics =
            [names.user_coupon(), names.stock_movement(), names.expiry(), names.dead_letter()];
        let probe = BrokerProbe::new(&config.kafka_brokers, topics);
        let mysql = || async { settings::pool_skew(pool, || clock.now()).await.map(drop) };
        let gate = GateProbe::new(config.gate_redis_url.expose());
        tokio::join!(
            runtime::watch(self.kafka, stop.clone(), || probe.check()),
            runtime::watch(self.mysql, stop.clone(), mysql),
            runtime::watch(self.view, stop.clone(), || view.check_fit()),
            runtime::watch(self.gate, stop.clone(), || gate.check()),
        );
    }
}

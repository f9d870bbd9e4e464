//! Whether the servers that the lander needs answer, for `/readyz`.

use mysql_store::{MySqlPool, connect, settings};
use redis_gate::GateRedis;
use runtime::{Clock, Health, Part};
use tokio::sync::OnceCell;
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
        let probe = BrokerProbe::new(&config.kafka_brokers, &names.claims());
        let kafka = || async { probe.check().await.map_err(|error| runtime::report(&error)) };
        let mysql = || async {
            let asked = connect::within(async {
                let mut connection = connect::acquire(pool).await?;
                settings::skew(&mut connection, || clock.now()).await
            });
            asked.await.map(drop).map_err(|error| runtime::report(&error))
        };
        let (url, redis) = (config.gate_redis_url.expose(), OnceCell::new());
        let gate = || async {
            let asked = async {
                let redis: &GateRedis = redis.get_or_try_init(|| GateRedis::connect(url)).await?;
                redis.run().await
            };
            asked.await.map(drop).map_err(|error| runtime::report(&error))
        };
        tokio::join!(
            runtime::watch(self.kafka, stop.clone(), kafka),
            runtime::watch(self.mysql, stop.clone(), mysql),
            runtime::watch(self.gate, stop.clone(), gate),
        );
    }
}

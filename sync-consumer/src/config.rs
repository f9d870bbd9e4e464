//! The consumer's configuration.

use clap::Parser;
use runtime::{ProcessConfig, Secret};

/// Applies the change events of coupons to the users' views in Redis, and stock movements to the
/// gates.
#[derive(Debug, Clone, Parser)]
#[command(version = runtime::version(), about)]
pub struct Config {
    /// MySQL database, `mysql://user:password@host:port/database`. Used to read movements, and to
    /// read and raise the view generation.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,

    /// The view's Redis, `redis://host:port`; with TLS `rediss://`, through sentinels
    /// `redis+sentinel://host:port,host:port/NAME`, as a cluster
    /// `redis+cluster://host:port,host:port`.
    #[arg(long, env = "VIEW_REDIS_URL", hide_env_values = true)]
    pub view_redis_url: Secret,

    /// The gate's Redis, addressed like the view's: a master with noeviction, or a cluster of such masters.
    #[arg(long, env = "GATE_REDIS_URL", hide_env_values = true)]
    pub gate_redis_url: Secret,

    /// Kafka brokers, `host:port`, separated by commas; with TLS
    /// `ssl://host:port,host:port?ssl-ca=FILE`.
    #[arg(long, env = "KAFKA_BROKERS")]
    pub kafka_brokers: String,

    /// Prefix of every key in Redis.
    #[arg(long, env = "KEY_PREFIX", default_value = "")]
    pub key_prefix: String,

    /// Prefix of every topic name, separated from it by a dot.
    #[arg(long, env = "TOPIC_PREFIX", default_value = "coupon")]
    pub topic_prefix: String,

    /// Options common to all processes.
    #[command(flatten)]
    pub process: ProcessConfig,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_flags_are_enough_and_secrets_stay_unprinted() {
        let config = Config::try_parse_from([
            "sync-consumer",
            "--database-url=mysql://u:hunter2@h/d",
            "--view-redis-url=redis://:hunter2@h",
            "--gate-redis-url=redis://:hunter2@g",
            "--kafka-brokers=h:1",
        ])
        .unwrap();
        assert_eq!(config.topic_prefix, "coupon");
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}

//! The lander's configuration.

use clap::Parser;
use runtime::{FailPoints, ProcessConfig, Secret};

/// Lands the claims that were accepted into the queue, and rejects those that cannot land.
#[derive(Debug, Clone, Parser)]
#[command(version = runtime::version(), about)]
pub struct Config {
    /// MySQL database, `mysql://user:password@host:port/database`.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,

    /// The gate's Redis, `redis://host:port`; with TLS `rediss://`, through sentinels
    /// `redis+sentinel://host:port,host:port/NAME`, as a cluster `redis+cluster://host:port,host:port`. It gets reports
    /// how claims ended; claims land without it too.
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

    /// Fail points for fault tests, in the syntax of `runtime::fail_point`; refused by a release
    /// build.
    #[arg(long, env = "FAIL_POINTS", hide = true, default_value = "")]
    pub fail_points: FailPoints,

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
            "claim-lander",
            "--database-url=mysql://u:hunter2@h/d",
            "--gate-redis-url=redis://:hunter2@g",
            "--kafka-brokers=h:1",
        ])
        .unwrap();
        assert_eq!(config.topic_prefix, "coupon");
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}

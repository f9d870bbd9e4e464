//! The relay's configuration.

use clap::Parser;
use runtime::{FailPoints, ProcessConfig, Secret};

/// Workers of one process: while one waits for the broker the other reads.
const WORKERS: u16 = 2;

/// Most workers of one process. More only take turns at the gate's one thread.
const WORKERS_MAX: i64 = 16;

/// Publishes the queued claims from the gates' outboxes.
#[derive(Debug, Clone, Parser)]
#[command(version = runtime::version(), about)]
pub struct Config {
    /// MySQL database, `mysql://user:password@host:port/database`. Holds the leases of the workers'
    /// names.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,

    /// The gate's Redis, `redis://host:port`: a master with noeviction. With TLS `rediss://`,
    /// through sentinels `redis+sentinel://host:port,host:port/NAME`, as a cluster
    /// `redis+cluster://host:port,host:port`.
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

    /// Workers of this process that publish at the same time.
    #[arg(long, env = "RELAY_WORKERS", default_value_t = WORKERS,
          value_parser = clap::value_parser!(u16).range(1..=WORKERS_MAX))]
    pub relay_workers: u16,

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
        let arguments = [
            "outbox-relay",
            "--database-url=mysql://u:hunter2@h/d",
            "--gate-redis-url=redis://:hunter2@g",
            "--kafka-brokers=h:1",
        ];
        let config = Config::try_parse_from(arguments).unwrap();
        assert_eq!((config.relay_workers, config.topic_prefix.as_str()), (2, "coupon"));
        assert!(!format!("{config:?}").contains("hunter2"));
        for wrong in ["--relay-workers=0", "--relay-workers=17", "--relay-workers=many"] {
            assert!(Config::try_parse_from(arguments.iter().chain(&[wrong])).is_err(), "{wrong}");
        }
    }
}

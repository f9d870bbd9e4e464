//! The worker's configuration.

use std::time::Duration;

use clap::Parser;
use runtime::{ProcessConfig, Secret};

/// Seconds between sweeps: the wake-up path needs none, so this is how long a defect of it can stay
/// unseen; a sweep costs one seek for each shard.
const SWEEP_SECONDS: u32 = 600;

/// Turns coupons whose validity has ended to expired.
#[derive(Debug, Clone, Parser)]
#[command(version, about)]
pub struct Config {
    /// The truth, `mysql://user:password@host:port/database`.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,

    /// Kafka brokers, `host:port`, separated by commas.
    #[arg(long, env = "KAFKA_BROKERS")]
    pub kafka_brokers: String,

    /// Stands before every topic's name, with a dot behind it.
    #[arg(long, env = "TOPIC_PREFIX", default_value = "coupon")]
    pub topic_prefix: String,

    /// Seconds between sweeps of the deadline index for coupons that no wake-up led to.
    #[arg(long, env = "SWEEP_SECONDS", default_value_t = SWEEP_SECONDS,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub sweep_seconds: u32,

    /// What every process takes.
    #[command(flatten)]
    pub process: ProcessConfig,
}

impl Config {
    pub(crate) fn sweep_every(&self) -> Duration {
        Duration::from_secs(self.sweep_seconds.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_flags_are_enough_and_secrets_stay_unprinted() {
        let arguments =
            ["expiry-worker", "--database-url=mysql://u:hunter2@h/d", "--kafka-brokers=h:1"];
        let config = Config::try_parse_from(arguments).unwrap();
        assert_eq!(config.sweep_every(), Duration::from_secs(600));
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(Config::try_parse_from(arguments.iter().chain(&["--sweep-seconds=0"])).is_err());
    }
}

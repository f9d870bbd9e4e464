//! The worker's configuration.

use std::time::Duration;

use clap::Parser;
use runtime::{ProcessConfig, Secret};

/// Seconds between sweeps: the wake-up path needs none, so this is how long a defect of it can stay
/// unseen; a sweep costs one seek for each shard.
const SWEEP_SECONDS: u32 = 600;

/// Seconds after which a wake-up must have come: a coupon that changed longer ago and that nobody told
/// of counts as lost. As long as the platform may take to come to rest after a fault.
const LOST_AFTER_SECONDS: u32 = 60;

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

    /// Seconds after its last change from which on a coupon that no wake-up told of is lost: a sweep
    /// takes it over and counts it.
    #[arg(long, env = "LOST_AFTER_SECONDS", default_value_t = LOST_AFTER_SECONDS)]
    pub lost_after_seconds: u32,

    /// What every process takes.
    #[command(flatten)]
    pub process: ProcessConfig,
}

impl Config {
    pub(crate) fn sweep_every(&self) -> Duration {
        Duration::from_secs(self.sweep_seconds.into())
    }

    pub(crate) fn lost_after(&self) -> Duration {
        Duration::from_secs(self.lost_after_seconds.into())
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
        assert_eq!(config.lost_after(), Duration::from_secs(60));
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(Config::try_parse_from(arguments.iter().chain(&["--sweep-seconds=0"])).is_err());
    }
}

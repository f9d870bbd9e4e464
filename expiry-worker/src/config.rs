//! The worker's configuration.

use std::{collections::BTreeSet, time::Duration};

use clap::Parser;
use runtime::{FailPoints, ProcessConfig, Secret};

/// Seconds between sweeps: the wake-up path needs none, so this is how long a defect of it can stay
/// unseen; a sweep costs one seek for each shard.
const SWEEP_SECONDS: u32 = 600;

/// Seconds after which a wake-up must have come: a coupon that changed longer ago and that nobody told
/// of counts as lost. As long as the platform may take to come to rest after a fault.
const LOST_AFTER_SECONDS: u32 = 60;

/// A day: whoever is told in the morning can still go shopping.
const EXPIRING_LEADS: &str = "86400";

/// Each lead time costs one look at the index for each shard and round.
const LEADS_MAX: usize = 8;

/// Turns coupons whose validity has ended to expired.
#[derive(Debug, Clone, Parser)]
#[command(version, about)]
pub struct Config {
    /// The truth, `mysql://user:password@host:port/database`.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,

    /// Kafka brokers, `host:port`, separated by commas; with TLS
    /// `ssl://host:port,host:port?ssl-ca=FILE`.
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

    /// How long before their ends coupons are announced on the topic `expiring`: seconds, separated by
    /// commas; empty: never.
    #[arg(long, env = "EXPIRING_LEADS", default_value = EXPIRING_LEADS, value_parser = leads)]
    pub expiring_leads: Leads,

    /// For tests of faults: `runtime::fail_point` says how; refused by a release build.
    #[arg(long, env = "FAIL_POINTS", hide = true, default_value = "")]
    pub fail_points: FailPoints,

    /// What every process takes.
    #[command(flatten)]
    pub process: ProcessConfig,
}

/// Lead times in seconds, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leads(pub BTreeSet<u32>);

pub(crate) fn leads(text: &str) -> Result<Leads, String> {
    let leads = text.split(',').map(str::trim).filter(|lead| !lead.is_empty());
    let leads: BTreeSet<u32> = leads
        .map(|lead| lead.parse().ok().filter(|seconds| *seconds > 0))
        .collect::<Option<_>>()
        .ok_or("lead times are whole seconds above 0, separated by commas: 86400,3600")?;
    if leads.len() > LEADS_MAX {
        return Err(format!("at most {LEADS_MAX} lead times"));
    }
    Ok(Leads(leads))
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
        assert_eq!(config.expiring_leads, Leads([86_400].into()));
        assert!(!format!("{config:?}").contains("hunter2"));
        assert!(Config::try_parse_from(arguments.iter().chain(&["--sweep-seconds=0"])).is_err());
    }

    #[test]
    fn lead_times_are_whole_seconds_each_once_or_none() {
        assert_eq!(leads("3600, 60,3600").unwrap(), Leads([60, 3600].into()));
        assert_eq!(leads("").unwrap(), Leads(BTreeSet::new()));
        for wrong in ["1h", "0", "-5", "1.5", "1,2,3,4,5,6,7,8,9"] {
            assert!(leads(wrong).is_err(), "{wrong}");
        }
    }
}

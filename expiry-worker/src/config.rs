//! The worker's configuration.

use std::{collections::BTreeSet, time::Duration};

use clap::Parser;
use runtime::{FailPoints, ProcessConfig, Secret};

/// Seconds between sweeps. The wake-up path does not need them, so this is how long a defect in it
/// can go unnoticed. A sweep costs one seek per shard.
const SWEEP_SECONDS: u32 = 600;

/// Seconds after a change by which its wake-up must have arrived; a coupon without one counts as
/// lost after that. Equals the time that the platform may take to settle after a fault.
const LOST_AFTER_SECONDS: u32 = 60;

/// One day: a user reminded in the morning can still go shopping.
const EXPIRING_LEADS: &str = "86400";

/// Each lead time costs one read of the index per shard and round.
const LEADS_MAX: usize = 8;

/// Marks coupons as expired once their validity has ended.
#[derive(Debug, Clone, Parser)]
#[command(version = runtime::version(), about)]
pub struct Config {
    /// MySQL database, `mysql://user:password@host:port/database`.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,

    /// Kafka brokers, `host:port`, separated by commas; with TLS
    /// `ssl://host:port,host:port?ssl-ca=FILE`.
    #[arg(long, env = "KAFKA_BROKERS")]
    pub kafka_brokers: String,

    /// Prefix of every topic name, separated from it by a dot.
    #[arg(long, env = "TOPIC_PREFIX", default_value = "coupon")]
    pub topic_prefix: String,

    /// Seconds between sweeps of the deadline index for coupons whose wake-up was lost.
    #[arg(long, env = "SWEEP_SECONDS", default_value_t = SWEEP_SECONDS,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub sweep_seconds: u32,

    /// Seconds after its last change at which a coupon without a wake-up counts as lost; the next
    /// sweep counts it and has it expired.
    #[arg(long, env = "LOST_AFTER_SECONDS", default_value_t = LOST_AFTER_SECONDS)]
    pub lost_after_seconds: u32,

    /// How long before they end coupons are announced on the topic `expiring`: seconds, separated
    /// by commas; empty for never.
    #[arg(long, env = "EXPIRING_LEADS", default_value = EXPIRING_LEADS, value_parser = leads)]
    pub expiring_leads: Leads,

    /// Fail points for fault tests, in the syntax of `runtime::fail_point`; refused by a release
    /// build.
    #[arg(long, env = "FAIL_POINTS", hide = true, default_value = "")]
    pub fail_points: FailPoints,

    /// Options common to all processes.
    #[command(flatten)]
    pub process: ProcessConfig,
}

/// Lead times in seconds, without duplicates.
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

//! Flags and environment of the api.

use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

use clap::Parser;
use landing::gates;
use runtime::{FailPoints, ProcessConfig, Secret};

/// Shortest secret for tokens, in bytes: HMAC-SHA256's own block of security.
const JWT_SECRET_BYTES_MIN: usize = 32;

/// Shortest operator key, in bytes: beyond guessing.
const OPERATOR_KEY_BYTES_MIN: usize = 24;

/// A gate of a million users takes 4 seconds to load; a day ahead, its memory is better used otherwise.
const PRELOAD_SECONDS: RangeInclusive<u64> = 10..=86_400;

/// The api: claims, "my coupons", use, templates.
#[derive(Debug, Clone, Parser)]
#[command(name = "api", version, about)]
pub struct Config {
    /// Apply the database's migrations and exit.
    #[arg(long)]
    pub migrate: bool,

    /// The truth: mysql://user:password@host:port/database.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,

    /// The gate's Redis: redis://host:port, a master with noeviction.
    #[arg(
        long,
        env = "GATE_REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    pub gate_redis_url: Secret,

    /// The view's Redis: redis://host:port.
    #[arg(
        long,
        env = "VIEW_REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6380"
    )]
    pub view_redis_url: Secret,

    /// Kafka's brokers: host:port, comma separated. The api reads template changes there.
    #[arg(long, env = "KAFKA_BROKERS", default_value = "127.0.0.1:9092")]
    pub kafka_brokers: String,

    /// Stands before every Redis key; one pair of Redis servers can serve several platforms.
    #[arg(long, env = "KEY_PREFIX", default_value = "")]
    pub key_prefix: String,

    /// Stands before every topic, followed by a dot.
    #[arg(long, env = "TOPIC_PREFIX", default_value = "coupon")]
    pub topic_prefix: String,

    /// Where people's requests are answered.
    #[arg(long, env = "LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// The HS256 secret of users' tokens, at least 32 bytes.
    #[arg(long, env = "JWT_SECRET", hide_env_values = true, default_value = "")]
    pub jwt_secret: Secret,

    /// The operator's key, at least 24 bytes.
    #[arg(long, env = "OPERATOR_KEY", hide_env_values = true, default_value = "")]
    pub operator_key: Secret,

    /// Lander workers, each with its own connection.
    #[arg(long, env = "LANDERS", default_value_t = landing::lander::LANDERS)]
    pub landers: usize,

    /// Connections of the read pool.
    #[arg(long, env = "DATABASE_CONNECTIONS", default_value_t = 16)]
    pub database_connections: u32,

    /// How many seconds before its window opens a template's gate is loaded; the same in every api.
    #[arg(long, env = "PRELOAD_SECONDS", default_value_t = gates::PRELOAD.as_secs())]
    pub preload_seconds: u64,

    /// For tests of faults: `runtime::fail_point` says how; refused by a release build.
    #[arg(long, env = "FAIL_POINTS", hide = true, default_value = "")]
    pub fail_points: FailPoints,

    /// What every process takes.
    #[command(flatten)]
    pub process: ProcessConfig,
}

impl Config {
    pub(crate) fn preload(&self) -> Duration {
        Duration::from_secs(self.preload_seconds)
    }

    /// Checks what single flags cannot say.
    ///
    /// # Errors
    /// The sentence says which setting, and what would be right.
    pub(crate) fn validate(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.jwt_secret.expose().len() >= JWT_SECRET_BYTES_MIN,
            "JWT_SECRET must have at least {JWT_SECRET_BYTES_MIN} bytes, e.g. from `openssl rand -hex 32`"
        );
        anyhow::ensure!(
            self.operator_key.expose().len() >= OPERATOR_KEY_BYTES_MIN,
            "OPERATOR_KEY must have at least {OPERATOR_KEY_BYTES_MIN} bytes, e.g. from `openssl rand -hex 24`"
        );
        anyhow::ensure!(
            (1..=64).contains(&self.landers),
            "LANDERS must be 1 to 64: each keeps a connection to MySQL"
        );
        anyhow::ensure!(
            self.database_connections >= 4,
            "DATABASE_CONNECTIONS must be at least 4: lists, rebuilds and the resolver share them"
        );
        anyhow::ensure!(
            PRELOAD_SECONDS.contains(&self.preload_seconds),
            "PRELOAD_SECONDS must be {} to {}: a gate takes seconds to load, and rests in memory until it opens",
            PRELOAD_SECONDS.start(),
            PRELOAD_SECONDS.end()
        );
        Ok(())
    }
}

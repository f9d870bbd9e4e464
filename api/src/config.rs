//! Flags and environment of the api.

use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

use clap::Parser;
use landing::gates;
use runtime::{FailPoints, ProcessConfig, Secret};

use crate::{cors, secrets};

/// How far a token issuer's clock may be ahead or behind: clocks kept by NTP agree far better, and a token
/// is good for this much longer than it says.
const LEEWAY_SECONDS: u64 = 5;

/// Largest such leeway: beyond it somebody should set a clock.
const LEEWAY_SECONDS_MAX: u64 = 300;

/// Claims of one user within a second: more than anybody taps, with retries on a bad line.
const CLAIMS_PER_SECOND: u32 = 50;

/// Claims of one user within a minute: ten templates, retried once a second.
const CLAIMS_PER_MINUTE: u32 = 600;

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

    /// The gate's Redis: redis://host:port, with TLS rediss://, by sentinels
    /// redis+sentinel://host:port,host:port/NAME; a master with noeviction.
    #[arg(
        long,
        env = "GATE_REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    pub gate_redis_url: Secret,

    /// The view's Redis, addressed like the gate's, or as a cluster redis+cluster://host:port,host:port.
    #[arg(
        long,
        env = "VIEW_REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6380"
    )]
    pub view_redis_url: Secret,

    /// Kafka's brokers: host:port, comma separated; with TLS ssl://host:port,host:port?ssl-ca=FILE. The api
    /// reads template changes there.
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

    /// The HS256 secret of users' tokens, at least 32 random bytes. Either this or JWKS.
    #[arg(long, env = "JWT_SECRET", hide_env_values = true, default_value = "")]
    pub jwt_secret: Secret,

    /// The public keys of users' tokens: a JSON Web Key Set, by path or `https://` URL. It is read again
    /// every five minutes, and when a token names a key that is not in it.
    #[arg(long, env = "JWKS", default_value = "")]
    pub jwks: String,

    /// How many seconds the token issuer's clock may be ahead or behind.
    #[arg(long, env = "JWT_LEEWAY_SECONDS", default_value_t = LEEWAY_SECONDS)]
    pub jwt_leeway_seconds: u64,

    /// The `iss` that a token must have; not looked at if absent.
    #[arg(long, env = "JWT_ISSUER")]
    pub jwt_issuer: Option<String>,

    /// The `aud` that a token must have; not looked at if absent.
    #[arg(long, env = "JWT_AUDIENCE")]
    pub jwt_audience: Option<String>,

    /// The operator's key, at least 24 random bytes.
    #[arg(long, env = "OPERATOR_KEY", hide_env_values = true, default_value = "")]
    pub operator_key: Secret,

    /// How many claims one user may send to this process within a second; 0: any number.
    #[arg(long, env = "CLAIMS_PER_USER_SECOND", default_value_t = CLAIMS_PER_SECOND)]
    pub claims_per_user_second: u32,

    /// How many claims one user may send to this process within a minute; 0: any number.
    #[arg(long, env = "CLAIMS_PER_USER_MINUTE", default_value_t = CLAIMS_PER_MINUTE)]
    pub claims_per_user_minute: u32,

    /// Origins whose pages may call from a browser, comma separated, e.g. `https://shop.example`. None by
    /// default: a shop's own server calls.
    #[arg(long, env = "ALLOWED_ORIGINS", value_delimiter = ',')]
    pub allowed_origins: Vec<String>,

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
        if self.jwks.is_empty() {
            secrets::check_jwt_secret(self.jwt_secret.expose())?;
        } else {
            anyhow::ensure!(
                self.jwt_secret.expose().is_empty(),
                "JWT_SECRET and JWKS exclude each other: tokens are checked in one way"
            );
        }
        secrets::check_operator_key(self.operator_key.expose())?;
        anyhow::ensure!(
            self.jwt_leeway_seconds <= LEEWAY_SECONDS_MAX,
            "JWT_LEEWAY_SECONDS must be at most {LEEWAY_SECONDS_MAX}: set the clocks right"
        );
        cors::check(&self.allowed_origins)?;
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

//! Flags and environment of the api.

use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

use anyhow::{anyhow, ensure};
use clap::{Args, Parser};
use landing::gates;
use runtime::{FailPoints, ProcessConfig, Secret};

use crate::{
    client_address::Network,
    cors, jwks,
    limits::{self, Limits},
    secrets,
};

/// How far a token issuer's clock may be ahead or behind: clocks kept by NTP agree far better, and a token
/// is good for this much longer than it says.
const LEEWAY_SECONDS: u64 = 5;

/// Largest such leeway: beyond it somebody should set a clock.
const LEEWAY_SECONDS_MAX: u64 = 300;

/// Claims of one user within a second: more than anybody taps, with retries on a bad line.
const CLAIMS_PER_SECOND: u32 = 50;

/// Claims of one user within a minute: ten templates, retried once a second.
const CLAIMS_PER_MINUTE: u32 = 600;

/// Reads of one user within a second: an app that shows a page of its list and looks at each of ten claims does not
/// come near, and a list of a thousand coupons is read at once.
const READS_PER_SECOND: u32 = 50;

/// Reads of one user within a minute: ten claims, each looked at once a second.
const READS_PER_MINUTE: u32 = 600;

/// Fewest and most connections: below that a process is none that serves, above it no system has files enough.
const CONNECTIONS: RangeInclusive<usize> = 64..=4_000_000;

/// Templates of a merchant that are drafts, or can be claimed now or later: more than anybody runs at a time, and what
/// every api process looks at with each of its looks at the gates.
const OPEN_TEMPLATES: u32 = 1_000;

/// Keys of a merchant that are accepted at a time: one for each of its systems and people, and those that are
/// being replaced.
const KEYS: u32 = 100;

/// Changes of a merchant's operators in an hour, but for redemption: each leaves rows that stay for good (templates,
/// movements, keys, lines of the record). Far more than people make, and a script has room.
const CHANGES_PER_HOUR: u32 = 10_000;

/// Rebuilds of users' views that a merchant may ask for in an hour: each reads all of a user's coupons.
const VIEW_REBUILDS_PER_HOUR: u32 = 600;

/// Rebuilds of gates that a merchant may ask for in an hour: each gives up what was admitted and has not landed, and
/// takes seconds with many holders.
const GATE_REBUILDS_PER_HOUR: u32 = 60;

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

    /// The public keys of users' tokens: a JSON Web Key Set, by path or `https://` URL; `http://` for this
    /// machine only. It is read again every five minutes, and when a token names a key that is not in it.
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

    /// How many lists, coupons and claims one user may look at by this process within a second; 0: any number.
    #[arg(long, env = "READS_PER_USER_SECOND", default_value_t = READS_PER_SECOND)]
    pub reads_per_user_second: u32,

    /// The same within a minute; 0: any number.
    #[arg(long, env = "READS_PER_USER_MINUTE", default_value_t = READS_PER_MINUTE)]
    pub reads_per_user_minute: u32,

    /// Connections at a time; the next wait in the system's queue. Each needs an open file (`ulimit -n`).
    #[arg(long, env = "CONNECTIONS_MAX", default_value_t = limits::CONNECTIONS)]
    pub connections_max: usize,

    /// Connections of one client at a time, by its address; by way of a trusted proxy: its requests under way. 0: any
    /// number.
    #[arg(long, env = "CONNECTIONS_PER_ADDRESS", default_value_t = limits::PER_ADDRESS)]
    pub connections_per_address: usize,

    /// Addresses and networks of the proxies before this process, comma separated: they are not limited, and the
    /// client is the last address in `X-Forwarded-For` that is none of them. A proxy on this machine is trusted unless
    /// others are named.
    #[arg(long, env = "TRUSTED_PROXIES", value_delimiter = ',', default_value = "127.0.0.0/8,::1")]
    pub trusted_proxies: Vec<String>,

    /// Origins whose pages may call from a browser, comma separated, e.g. `https://shop.example`. None by
    /// default: a shop's own server calls.
    #[arg(long, env = "ALLOWED_ORIGINS", value_delimiter = ',')]
    pub allowed_origins: Vec<String>,

    /// What one merchant may have and do.
    #[command(flatten)]
    pub quotas: Quotas,

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

/// What one merchant may have and do; 0: any number.
#[derive(Debug, Clone, Args)]
pub struct Quotas {
    /// How many templates a merchant may have that have not ended and can be claimed now or later, drafts
    /// included; 0: any number.
    #[arg(long, env = "MERCHANT_OPEN_TEMPLATES", default_value_t = OPEN_TEMPLATES)]
    pub merchant_open_templates: u32,

    /// How many keys of a merchant may be accepted at a time; 0: any number.
    #[arg(long, env = "MERCHANT_KEYS", default_value_t = KEYS)]
    pub merchant_keys: u32,

    /// How many changes, redemption aside, a merchant's operators may make in an hour; 0: any number.
    #[arg(long, env = "MERCHANT_CHANGES_PER_HOUR", default_value_t = CHANGES_PER_HOUR)]
    pub merchant_changes_per_hour: u32,

    /// How many rebuilds of users' views a merchant's operators may ask for in an hour; 0: any number.
    #[arg(long, env = "MERCHANT_VIEW_REBUILDS_PER_HOUR", default_value_t = VIEW_REBUILDS_PER_HOUR)]
    pub merchant_view_rebuilds_per_hour: u32,

    /// How many rebuilds of gates a merchant's operators may ask for in an hour; 0: any number.
    #[arg(long, env = "MERCHANT_GATE_REBUILDS_PER_HOUR", default_value_t = GATE_REBUILDS_PER_HOUR)]
    pub merchant_gate_rebuilds_per_hour: u32,
}

impl Config {
    pub(crate) fn preload(&self) -> Duration {
        Duration::from_secs(self.preload_seconds)
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            connections: self.connections_max,
            per_address: self.connections_per_address,
            ..Limits::default()
        }
    }

    /// The proxies that speak for clients; an empty setting: there are none.
    ///
    /// # Errors
    /// One is no address and no network.
    pub(crate) fn proxies(&self) -> anyhow::Result<Vec<Network>> {
        let named = self.trusted_proxies.iter().filter(|proxy| !proxy.is_empty());
        named
            .map(|proxy| proxy.trim().parse().map_err(|error| anyhow!("TRUSTED_PROXIES: {error}")))
            .collect()
    }

    /// Connections to MySQL: a lander has a second while a stock row is held.
    pub(crate) fn connections_to_mysql(&self) -> usize {
        usize::try_from(self.database_connections).unwrap_or(usize::MAX) + 2 * self.landers
    }

    /// Checks what single flags cannot say.
    ///
    /// # Errors
    /// The sentence says which setting, and what would be right.
    pub(crate) fn validate(&self) -> anyhow::Result<()> {
        if self.jwks.is_empty() {
            secrets::check_jwt_secret(self.jwt_secret.expose())?;
        } else {
            jwks::check_source(&self.jwks)?;
            ensure!(
                self.jwt_secret.expose().is_empty(),
                "JWT_SECRET and JWKS exclude each other: tokens are checked in one way"
            );
        }
        secrets::check_operator_key(self.operator_key.expose())?;
        ensure!(
            self.jwt_leeway_seconds <= LEEWAY_SECONDS_MAX,
            "JWT_LEEWAY_SECONDS must be at most {LEEWAY_SECONDS_MAX}: set the clocks right"
        );
        cors::check(&self.allowed_origins)?;
        ensure!(
            (1..=64).contains(&self.landers),
            "LANDERS must be 1 to 64: each keeps a connection to MySQL"
        );
        ensure!(
            self.database_connections >= 4,
            "DATABASE_CONNECTIONS must be at least 4: lists, rebuilds and the resolver share them"
        );
        ensure!(
            PRELOAD_SECONDS.contains(&self.preload_seconds),
            "PRELOAD_SECONDS must be {} to {}: a gate takes seconds to load, and rests in memory until it opens",
            PRELOAD_SECONDS.start(),
            PRELOAD_SECONDS.end()
        );
        ensure!(
            CONNECTIONS.contains(&self.connections_max),
            "CONNECTIONS_MAX must be {} to {}",
            CONNECTIONS.start(),
            CONNECTIONS.end()
        );
        self.proxies().map(drop)
    }
}

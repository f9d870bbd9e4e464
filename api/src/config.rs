//! Flags and environment of the api.

use std::{net::SocketAddr, num::NonZeroU32, ops::RangeInclusive, time::Duration};

use anyhow::{anyhow, ensure};
use clap::{Args, Parser};
use landing::{
    claims::{Bounds, CLAIMS_MAX},
    gates,
    resolver::GRACE,
};
use runtime::{FailPoints, ProcessConfig, Secret};

use crate::{
    auth::{jwks, secrets, tokens},
    connections::{
        client_address::Network,
        limits::{self, Limits},
    },
    console::ConsoleSettings,
    http::cors,
};

/// Default tolerance for a token issuer's clock. Clocks kept by NTP agree far better, and a token is valid for this
/// much longer than it says.
const LEEWAY_SECONDS: u64 = 5;

/// Largest tolerance. Beyond it a clock should be corrected.
const LEEWAY_SECONDS_MAX: u64 = 300;

/// Default limit of claims per user and second: more than anybody taps, with retries on a bad line.
const CLAIMS_PER_SECOND: u32 = 50;

/// Default limit of claims per user and minute: ten templates, retried once a second.
const CLAIMS_PER_MINUTE: u32 = 600;

/// Default limit of unknown templates that are looked up per second: no load for MySQL, and more than a process needs
/// that has just started before a crowd and has not read the topic yet.
const UNKNOWN_TEMPLATES_PER_SECOND: NonZeroU32 = NonZeroU32::new(500).unwrap();

/// Default limit of reads per user and second. An app that shows a page of its list and polls ten claims stays far
/// below, and a list of a thousand coupons is read at once.
const READS_PER_SECOND: u32 = 50;

/// Default limit of reads per user and minute: ten claims, each polled once a second.
const READS_PER_MINUTE: u32 = 600;

/// Fewest claims that a process answers at a time: twice what the jobs of grants have under way at most, so that users' own
/// claims find a place beside them.
const CLAIMS_MIN: usize = 2_048;

/// Default length of a stream of events, in seconds. Its client then shows a token that is still valid.
const EVENT_STREAM_SECONDS: u64 = 15 * 60;

/// Longest stream, in seconds: a token that was revoked meanwhile counts until its end.
const EVENT_STREAM_SECONDS_MAX: u64 = 60 * 60;

/// Allowed numbers of connections: a process with fewer serves nobody, and no system has files for more.
const CONNECTIONS: RangeInclusive<usize> = 64..=4_000_000;

/// Default limit of a merchant's templates that are drafts or can be claimed now or later. More than anybody runs at a
/// time, and each api process checks all of them in each round over the gates.
const OPEN_TEMPLATES: u32 = 1_000;

/// Default limit of a merchant's accepted keys: one for each of its systems and people, and those being replaced.
const KEYS: u32 = 100;

/// Default limit of changes by a merchant's operators per hour, except redemptions. Each leaves permanent rows
/// (templates, movements, keys, lines of the record). Far more than people make, with room for a script.
const CHANGES_PER_HOUR: u32 = 10_000;

/// Default limit of view rebuilds per merchant and hour. Each reads a user's unused and recently changed coupons.
const VIEW_REBUILDS_PER_HOUR: u32 = 600;

/// Default limit of gate rebuilds per merchant and hour. Each gives up what was admitted and has not landed, and takes
/// seconds with many holders.
const GATE_REBUILDS_PER_HOUR: u32 = 60;

/// Default number of the gate's replicas that must have a claim with `accept_after` replica: one survives the master.
const GATE_COPIES: u32 = 1;

/// Largest such number. With each further one, every 202 waits for the slowest of more replicas.
const GATE_COPIES_MAX: u32 = 8;

/// Three checks of a balancer that asks every three seconds.
const DRAIN_SECONDS: u64 = 10;

/// Together with [`runtime::DRAIN_MAX`] and 5 s for threads to end, the 45 s after which `ops/systemd` and
/// `compose.yaml` let a process be killed.
const DRAIN_SECONDS_MAX: u64 = 10;

/// Allowed lead times. A gate of a million users takes 4 seconds to load; more than a day ahead, it would only occupy
/// memory.
const PRELOAD_SECONDS: RangeInclusive<u64> = 10..=86_400;

/// The API server: claims, "my coupons", redemption, templates, operations.
#[derive(Debug, Clone, Parser)]
#[command(name = "api", version = runtime::version(), about)]
pub struct Config {
    /// Apply the database migrations and exit.
    #[arg(long)]
    pub migrate: bool,

    /// MySQL: mysql://user:password@host:port/database.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,

    /// The gate's Redis: redis://host:port; with TLS rediss://host:port; with sentinels
    /// redis+sentinel://host:port,host:port/NAME, as a cluster redis+cluster://host:port,host:port. It must be a master
    /// with the policy noeviction, or a cluster of such masters.
    #[arg(
        long,
        env = "GATE_REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6379"
    )]
    pub gate_redis_url: Secret,

    /// The view's Redis, in the same forms as the gate's, or a cluster: redis+cluster://host:port,host:port.
    #[arg(
        long,
        env = "VIEW_REDIS_URL",
        hide_env_values = true,
        default_value = "redis://127.0.0.1:6380"
    )]
    pub view_redis_url: Secret,

    /// Kafka brokers: host:port, comma separated; with TLS ssl://host:port,host:port?ssl-ca=FILE. The api reads
    /// template changes there, publishes and reads statistics of claims, and looks for the messages of a claim whose
    /// story is asked for.
    #[arg(long, env = "KAFKA_BROKERS", default_value = "127.0.0.1:9092")]
    pub kafka_brokers: String,

    /// Prefix of every Redis key, so that several platforms can share one pair of Redis servers.
    #[arg(long, env = "KEY_PREFIX", default_value = "")]
    pub key_prefix: String,

    /// Prefix of every topic, followed by a dot.
    #[arg(long, env = "TOPIC_PREFIX", default_value = "coupon")]
    pub topic_prefix: String,

    /// Address of the public HTTP listener.
    #[arg(long, env = "LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// How long SIGTERM leaves the api at work, though `/readyz` says 503, before it closes its listener: longer than a
    /// balancer takes to see that. In seconds, at most 15.
    #[arg(long, env = "DRAIN_SECONDS", default_value_t = DRAIN_SECONDS)]
    pub drain_seconds: u64,

    /// HS256 secret of users' tokens, at least 32 random bytes. Set either this or JWKS.
    #[arg(long, env = "JWT_SECRET", hide_env_values = true, default_value = "")]
    pub jwt_secret: Secret,

    /// Public keys of users' tokens: a JSON Web Key Set, by path or `https://` URL; `http://` for this machine only. It
    /// is read again every five minutes, and when a token names an unknown key.
    #[arg(long, env = "JWKS", default_value = "")]
    pub jwks: String,

    /// Tolerance for the token issuer's clock, in seconds.
    #[arg(long, env = "JWT_LEEWAY_SECONDS", default_value_t = LEEWAY_SECONDS)]
    pub jwt_leeway_seconds: u64,

    /// Required `iss` of tokens. Not checked if absent.
    #[arg(long, env = "JWT_ISSUER")]
    pub jwt_issuer: Option<String>,

    /// Required `aud` of tokens. Not checked if absent.
    #[arg(long, env = "JWT_AUDIENCE")]
    pub jwt_audience: Option<String>,

    /// Claim of users' tokens that holds the user's id: a decimal number.
    #[arg(long, env = "JWT_USER_CLAIM", default_value = tokens::SUBJECT)]
    pub jwt_user_claim: String,

    /// The platform's own operator key, at least 24 random bytes.
    #[arg(long, env = "OPERATOR_KEY", hide_env_values = true, default_value = "")]
    pub operator_key: Secret,

    /// Secret that signs the receipts of queued claims and seals the console's sessions, at least 32 random bytes. Use the same value in every api process.
    /// By default it follows from the operator key.
    #[arg(long, env = "RECEIPT_SECRET", hide_env_values = true, default_value = "")]
    pub receipt_secret: Secret,

    /// Maximum claims per second that one user may send to this process. 0: no limit.
    #[arg(long, env = "CLAIMS_PER_USER_SECOND", default_value_t = CLAIMS_PER_SECOND)]
    pub claims_per_user_second: u32,

    /// Maximum claims per minute that one user may send to this process. 0: no limit.
    #[arg(long, env = "CLAIMS_PER_USER_MINUTE", default_value_t = CLAIMS_PER_MINUTE)]
    pub claims_per_user_minute: u32,

    /// Maximum template ids per second that this process looks up in MySQL because it does not know them.
    #[arg(long, env = "UNKNOWN_TEMPLATES_PER_SECOND", default_value_t = UNKNOWN_TEMPLATES_PER_SECOND)]
    pub unknown_templates_per_second: NonZeroU32,

    /// Maximum claims of all users that this process answers at a time; it refuses further ones as overloaded. Fewer are
    /// answered sooner.
    #[arg(long, env = "CLAIMS_UNDER_WAY_MAX", default_value_t = CLAIMS_MAX)]
    pub claims_under_way_max: usize,

    /// Maximum reads of lists, coupons and claims per second that one user may send to this process. 0: no limit.
    #[arg(long, env = "READS_PER_USER_SECOND", default_value_t = READS_PER_SECOND)]
    pub reads_per_user_second: u32,

    /// Maximum reads of lists, coupons and claims per minute that one user may send to this process. 0: no limit.
    #[arg(long, env = "READS_PER_USER_MINUTE", default_value_t = READS_PER_MINUTE)]
    pub reads_per_user_minute: u32,

    /// Maximum client connections at a time; further ones wait in the system's queue. Each needs an open file
    /// (`ulimit -n`).
    #[arg(long, env = "CONNECTIONS_MAX", default_value_t = limits::CONNECTIONS)]
    pub connections_max: usize,

    /// Maximum connections of one client address at a time; through a trusted proxy, concurrent requests of one client.
    /// 0: no limit.
    #[arg(long, env = "CONNECTIONS_PER_ADDRESS", default_value_t = limits::PER_ADDRESS)]
    pub connections_per_address: usize,

    /// Seconds after which a stream of events, a claim's or the live figures, ends, and its client connects again. Choose less than a proxy's
    /// longest answer.
    #[arg(long, env = "EVENT_STREAM_SECONDS", default_value_t = EVENT_STREAM_SECONDS)]
    pub event_stream_seconds: u64,

    /// The console.
    #[command(flatten)]
    pub console: ConsoleSettings,

    /// Addresses and networks of the proxies before this process, comma separated. Their connections are not limited,
    /// and the client is the last address in `X-Forwarded-For` that is not a proxy. Proxies on this machine are trusted
    /// unless others are named.
    #[arg(long, env = "TRUSTED_PROXIES", value_delimiter = ',', default_value = "127.0.0.0/8,::1")]
    pub trusted_proxies: Vec<String>,

    /// Origins whose pages may call from a browser, comma separated, e.g. `https://shop.example`. None by default,
    /// since a shop's own server calls.
    #[arg(long, env = "ALLOWED_ORIGINS", value_delimiter = ',')]
    pub allowed_origins: Vec<String>,

    /// Admin addresses (`ADMIN_LISTEN`) of the other processes, host:port or process=host:port, comma separated; a host
    /// may stand for several. `GET /v1/health` asks each. A process that is dead when the api starts is known by the name
    /// before `=`, or by its host's.
    #[arg(long, env = "ADMIN_PEERS", value_delimiter = ',')]
    pub admin_peers: Vec<String>,

    /// Limits per merchant.
    #[command(flatten)]
    pub quotas: Quotas,

    /// Number of landers, each with its own connection to MySQL.
    #[arg(long, env = "LANDERS", default_value_t = landing::lander::LANDERS)]
    pub landers: usize,

    /// Connections of the read pool to MySQL.
    #[arg(long, env = "DATABASE_CONNECTIONS", default_value_t = 16)]
    pub database_connections: u32,

    /// How many seconds before its claim window opens a template's gate is loaded. Use the same value in every api
    /// process.
    #[arg(long, env = "PRELOAD_SECONDS", default_value_t = gates::PRELOAD.as_secs())]
    pub preload_seconds: u64,

    /// Replicas of the gate's Redis that must have a queued claim before it is answered 202, for templates with
    /// `accept_after` replica. With fewer replicas these claims are answered 503.
    #[arg(long, env = "GATE_COPIES", default_value_t = GATE_COPIES)]
    pub gate_copies: u32,

    /// Fail points for tests, in the form of `runtime::fail_point`. A release build rejects them.
    #[arg(long, env = "FAIL_POINTS", hide = true, default_value = "")]
    pub fail_points: FailPoints,

    /// Settings of every process.
    #[command(flatten)]
    pub process: ProcessConfig,
}

/// Limits per merchant. 0: no limit.
#[derive(Debug, Clone, Args)]
pub struct Quotas {
    /// Maximum open templates of a merchant: drafts, and those that can be claimed now or later. 0: no limit.
    #[arg(long, env = "MERCHANT_OPEN_TEMPLATES", default_value_t = OPEN_TEMPLATES)]
    pub merchant_open_templates: u32,

    /// Maximum keys of a merchant that are accepted at a time. 0: no limit.
    #[arg(long, env = "MERCHANT_KEYS", default_value_t = KEYS)]
    pub merchant_keys: u32,

    /// Maximum changes per hour by a merchant's operators, except redemptions. 0: no limit.
    #[arg(long, env = "MERCHANT_CHANGES_PER_HOUR", default_value_t = CHANGES_PER_HOUR)]
    pub merchant_changes_per_hour: u32,

    /// Maximum rebuilds of users' views per hour that a merchant's operators may request. 0: no limit.
    #[arg(long, env = "MERCHANT_VIEW_REBUILDS_PER_HOUR", default_value_t = VIEW_REBUILDS_PER_HOUR)]
    pub merchant_view_rebuilds_per_hour: u32,

    /// Maximum rebuilds of gates per hour that a merchant's operators may request. 0: no limit.
    #[arg(long, env = "MERCHANT_GATE_REBUILDS_PER_HOUR", default_value_t = GATE_REBUILDS_PER_HOUR)]
    pub merchant_gate_rebuilds_per_hour: u32,
}

impl Config {
    pub(crate) fn preload(&self) -> Duration {
        Duration::from_secs(self.preload_seconds)
    }

    pub(crate) fn bounds_of_claims(&self) -> Bounds {
        let under_way = self.claims_under_way_max;
        let copies = self.gate_copies;
        Bounds { under_way, ask_max: GRACE, copies }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            connections: self.connections_max,
            per_address: self.connections_per_address,
            ..Limits::default()
        }
    }

    /// Returns the trusted proxies. An empty setting means none.
    ///
    /// # Errors
    /// An entry is neither an address nor a network.
    pub(crate) fn proxies(&self) -> anyhow::Result<Vec<Network>> {
        let named = self.trusted_proxies.iter().filter(|proxy| !proxy.is_empty());
        named
            .map(|proxy| proxy.trim().parse().map_err(|error| anyhow!("TRUSTED_PROXIES: {error}")))
            .collect()
    }

    /// Returns the number of connections to MySQL. A lander has a second one while a stock row is locked.
    pub(crate) fn connections_to_mysql(&self) -> usize {
        usize::try_from(self.database_connections).unwrap_or(usize::MAX) + 2 * self.landers
    }

    /// Checks rules that single flags cannot express.
    ///
    /// # Errors
    /// The sentence names the setting and says what would be right.
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
        tokens::check_user_claim(&self.jwt_user_claim)?;
        secrets::check_operator_key(self.operator_key.expose())?;
        secrets::check_receipt_secret(self.receipt_secret.expose())?;
        ensure!(
            (1..=GATE_COPIES_MAX).contains(&self.gate_copies),
            "GATE_COPIES must be 1 to {GATE_COPIES_MAX}: replicas of the gate's Redis"
        );
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
            self.drain_seconds <= DRAIN_SECONDS_MAX,
            "DRAIN_SECONDS must be at most {DRAIN_SECONDS_MAX}: a service manager kills a process that takes longer to end",
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
        ensure!(
            (CLAIMS_MIN..=CLAIMS_MAX).contains(&self.claims_under_way_max),
            "CLAIMS_UNDER_WAY_MAX must be {CLAIMS_MIN} to {CLAIMS_MAX}"
        );
        ensure!(
            (1..=EVENT_STREAM_SECONDS_MAX).contains(&self.event_stream_seconds),
            "EVENT_STREAM_SECONDS must be 1 to {EVENT_STREAM_SECONDS_MAX}"
        );
        self.proxies().map(drop)
    }
}

//! Sources of the verifier: MySQL, the gate, the view, the topics.

use std::sync::Arc;

use clap::Args;
use mysql_store::{MySqlPool, connect, migrate, verify::Reader, view_generation};
use redis_gate::{Gate, GateRedis};
use redis_view::{GenerationsOf, ViewStore};
use runtime::Secret;
use topic::{OffsetReader, TopicNames};

use crate::{ProgressReporter, VerifyError};

/// Connections to MySQL: enough for the running check, and one for the sampler.
const CONNECTIONS: u32 = 4;

/// Reported if the platform does not use this Redis as its view's.
const UNKNOWN_VIEW: &str = "the platform's processes have met another Redis as the view's: is VIEW_REDIS_URL right? \
                            If it has just started, ask again once a list was read";

/// Addresses and prefixes of a platform, named like the options of its processes.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// MySQL database: `mysql://user:password@host:port/database`.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,
    /// Redis of the gate: `redis://host:port`.
    #[arg(long, env = "GATE_REDIS_URL", hide_env_values = true)]
    pub gate_redis_url: Secret,
    /// Redis of the view.
    #[arg(long, env = "VIEW_REDIS_URL", hide_env_values = true)]
    pub view_redis_url: Secret,
    /// Kafka brokers: `host:port`, separated by commas; with TLS `ssl://host:port,host:port?ssl-ca=FILE`.
    #[arg(long, env = "KAFKA_BROKERS")]
    pub kafka_brokers: String,
    /// Prefix of every key in both Redis servers.
    #[arg(long, env = "KEY_PREFIX", default_value = "")]
    pub key_prefix: String,
    /// Prefix of every topic name, separated from it by a dot.
    #[arg(long, env = "TOPIC_PREFIX", default_value = "coupon")]
    pub topic_prefix: String,
}

/// Open connections to all sources.
#[derive(Clone)]
pub struct Sources {
    /// Read-only connections to MySQL.
    pub pool: MySqlPool,
    pub gate: Gate,
    pub view: ViewStore,
    pub brokers: String,
    /// Shared by all clones.
    pub offsets: Arc<OffsetReader>,
    pub topics: TopicNames,
    /// Receives the verifier's progress.
    pub progress: ProgressReporter,
    reader: Reader,
}

impl Sources {
    /// Connects to MySQL and both Redis servers; topics are opened when they are read.
    ///
    /// # Errors
    /// A server cannot be reached, the schema is not the one that this verifier knows, or the platform's views are on
    /// another Redis.
    pub async fn connect(settings: &Settings) -> Result<Self, VerifyError> {
        let reader = Reader::connect(settings.database_url.expose(), CONNECTIONS).await?;
        let pool = reader.pool().clone();
        migrate::check_over(&pool).await?;
        let redis = GateRedis::connect(settings.gate_redis_url.expose()).await?;
        let generations_of = generations_of(pool.clone());
        let view_url = settings.view_redis_url.expose();
        let view =
            ViewStore::connect(view_url, settings.key_prefix.clone(), generations_of).await?;
        Ok(Self {
            pool,
            gate: Gate::new(redis, &settings.key_prefix),
            view,
            brokers: settings.kafka_brokers.clone(),
            offsets: Arc::new(OffsetReader::new(&settings.kafka_brokers)),
            topics: TopicNames::new(settings.topic_prefix.clone()),
            progress: ProgressReporter::default(),
            reader,
        })
    }

    /// Updates the view with generations that were raised after it connected.
    pub(crate) async fn learn_generations(&self) -> Result<(), VerifyError> {
        let Some(served) = self.view.served() else { return Ok(()) };
        let mut connection = connect::acquire(&self.pool).await?;
        let known = view_generation::known_generations(&mut connection, &served).await?;
        self.view.learn(&known.unwrap_or_default());
        Ok(())
    }

    /// Kills our running statements in MySQL, for a process that exits without waiting for the result.
    ///
    /// # Errors
    /// MySQL cannot be reached.
    pub async fn end_statements(&self) -> Result<(), VerifyError> {
        Ok(self.reader.end_statements().await?)
    }
}

/// Reads the generations of the servers' views from MySQL. Other processes raise them for an unknown server; a verifier
/// pointed at the wrong one would thereby make every list of the platform cold.
fn generations_of(pool: MySqlPool) -> GenerationsOf {
    Box::new(move |served| {
        let pool = pool.clone();
        Box::pin(async move {
            let mut connection = connect::acquire(&pool).await?;
            let known = view_generation::known_generations(&mut connection, &served).await?;
            known.ok_or_else(|| UNKNOWN_VIEW.into())
        })
    })
}

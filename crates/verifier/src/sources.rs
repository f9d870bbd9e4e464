//! Where the verifier looks: MySQL, the gate, the view, the topics.

use clap::Args;
use mysql_store::{MySqlPool, connect, migrate, view_generation};
use redis_gate::{Gate, GateRedis};
use redis_view::{GenerationsOf, ViewStore};
use runtime::Secret;
use topic::TopicNames;

use crate::VerifyError;

/// Connections to MySQL: each invariant takes one, and the sampler another.
const CONNECTIONS: u32 = 4;

/// The addresses and prefixes of a platform, by the names that its processes take.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// The truth: `mysql://user:password@host:port/database`.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,
    /// Redis of the gate: `redis://host:port`.
    #[arg(long, env = "GATE_REDIS_URL", hide_env_values = true)]
    pub gate_redis_url: Secret,
    /// Redis of the view.
    #[arg(long, env = "VIEW_REDIS_URL", hide_env_values = true)]
    pub view_redis_url: Secret,
    /// Kafka: `host:port`, more of them separated by commas; with TLS `ssl://host:port,host:port?ssl-ca=FILE`.
    #[arg(long, env = "KAFKA_BROKERS")]
    pub kafka_brokers: String,
    /// Stands before every key in both Redis servers.
    #[arg(long, env = "KEY_PREFIX", default_value = "")]
    pub key_prefix: String,
    /// Stands before every topic.
    #[arg(long, env = "TOPIC_PREFIX", default_value = "coupon")]
    pub topic_prefix: String,
}

/// Open connections to all of it.
#[derive(Clone)]
pub struct Sources {
    /// The truth.
    pub pool: MySqlPool,
    /// The gates.
    pub gate: Gate,
    /// The views.
    pub view: ViewStore,
    /// Kafka's addresses.
    pub brokers: String,
    /// The topics.
    pub topics: TopicNames,
}

impl Sources {
    /// Connects to MySQL and both Redis servers; topics are opened when they are read.
    ///
    /// # Errors
    /// One cannot be reached, or the schema is not the one that this verifier knows.
    pub async fn connect(settings: &Settings) -> Result<Self, VerifyError> {
        let pool = connect::pool(settings.database_url.expose(), CONNECTIONS).await?;
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
            topics: TopicNames::new(settings.topic_prefix.clone()),
        })
    }
}

/// As in every process that touches the view: MySQL says which generations the servers' views are of.
fn generations_of(pool: MySqlPool) -> GenerationsOf {
    Box::new(move |served| {
        let pool = pool.clone();
        Box::pin(async move {
            let mut connection = connect::acquire(&pool).await?;
            Ok(view_generation::generations_of(&mut connection, &served).await?)
        })
    })
}

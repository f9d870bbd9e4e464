//! Reads change events. Writes the users' views, expiry wake-ups and the gates' stock. Owns its groups' offsets.
//!
//! ```text
//! topic user_coupon ─ batch ─▶ apply (decode, group by user) ─▶ view: apply, then read back
//!                                                            └─▶ topic dead_letter: unreadable messages
//! topic user_coupon ─ batch ─▶ waker ─▶ topic expiry: one wake-up for a shard and second
//! topic stock_movement ─▶ movements: gate, once each and in order
//! ```
//! The guarantee: an offset is stored only after everything that its message requires was done. So each change reaches
//! the view at least once, and one user's changes in order. All effects are idempotent. Unreadable messages become dead
//! letters and are logged as errors. While a store is down, the same batch is retried. Each of the three loops has its
//! own consumer group, so none waits for another's server. If the topic deleted messages before they were read, no view
//! can be trusted, and all are dropped.

mod config;
mod consume;
mod dead_letter;
#[doc(hidden)]
pub mod fuzz;
mod gap;
mod lag;
mod metrics;
mod movements;
mod retry;
mod servers;
mod spans;
mod wake_up;
mod waker;
mod work;

use anyhow::Context as _;
use mysql_store::{MySqlPool, connect, migrate, view_generation};
use redis_view::{GenerationsFuture, GenerationsOf, ViewStore};
use runtime::{Clock, Health, Part};
use tokio_util::sync::CancellationToken;
use topic::{Assignment, Consumer, ConsumerOptions, HeldUp, Producer, ProducerOptions, TopicNames};

use movements::Movements;
use retry::Retry;
use servers::ServerHealth;
use waker::Waker;

pub use crate::metrics::METRICS;
pub use config::Config;
pub use movements::movement_group;
pub use waker::wake_up_group;

/// Connections to MySQL: for the view generation, which is read on connecting to the view's Redis, and for movements
/// that a gate lacks.
const MYSQL_CONNECTIONS: u32 = 2;

/// Reported in `/readyz` while the partitions are lost.
const LOST: &str = "the partitions were lost and no assignment has come: nothing is read here";

const VIEW_UNUSABLE: &str = "the view's Redis cannot be used (VIEW_REDIS_URL)";

/// Returns the name of the views' consumer group under a topic prefix.
pub fn group(names: &TopicNames) -> String {
    names.views_group()
}

/// Runs until `stop`, then commits the stored offsets.
///
/// # Errors
/// MySQL or Kafka cannot be reached at the start, a topic is missing, or consuming fails for good. Later outages are
/// waited out, and those of Redis also at the start: deadlines are announced meanwhile.
pub async fn run(
    config: &Config,
    clock: &Clock,
    health: &Health,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    metrics::describe();
    let partitions = health.part("partitions");
    let stores = health.part("stores");
    let movements_part = health.part("movements");
    let wake_ups_part = health.part("wake_ups");
    let servers = ServerHealth::of(config, health);
    let names = TopicNames::new(&config.topic_prefix);
    let pool = migrate::checked_pool(config.database_url.expose(), MYSQL_CONNECTIONS)
        .await
        .context("MySQL cannot be used (DATABASE_URL)")?;
    let generations_of = generations_of(pool.clone());
    let view = ViewStore::open(config.view_redis_url.expose(), &config.key_prefix, generations_of)
        .context(VIEW_UNUSABLE)?;
    if let Err(failure) = view.check_fit().await
        && !failure.is_away()
    {
        return Err(failure).context(VIEW_UNUSABLE);
    }
    let brokers = &config.kafka_brokers;
    let producer = Producer::connect(brokers, ProducerOptions::default()).await?;
    let waker =
        Waker::new(brokers, producer.clone(), names.clone(), clock.clone(), wake_ups_part).await?;
    let group = group(&names);
    let topics = [names.user_coupon()];
    let kafka = servers.kafka.clone();
    let watched_view = view.clone();
    let watched = async {
        Box::pin(servers.watch(config, &pool, &watched_view, clock, &stop)).await;
        Ok(())
    };
    let consume = consume::Consume {
        view,
        producer,
        brokers: brokers.clone(),
        names,
        clock: clock.clone(),
        partitions,
        stores,
        kafka,
    };
    let views = async {
        // A group member that reads no messages would lose its partitions.
        if !until_connected(&watched_view, &consume.stores, &stop).await? {
            return Ok(());
        }
        let consumer = Consumer::join(brokers, &group, &topics, ConsumerOptions::default()).await?;
        consume.run(&consumer, &stop).await?;
        consumer.close().await.context("the last offsets were not committed; they will repeat")
    };
    let movements = move_stock(config, pool.clone(), movements_part, &stop);
    let wake_ups = waker.run(brokers, &stop);
    tokio::try_join!(views, wake_ups, movements, watched).map(|_| ())
}

/// Reports in `/readyz` whether partitions are assigned, and which of them cannot be read on.
fn show_partitions(part: &Part, assignment: &Assignment, held_up: &[HeldUp]) {
    match HeldUp::sentence(held_up) {
        _ if !assignment.stands() => part.not_ready(LOST),
        Some(why) => part.not_ready(why),
        None => part.ready(),
    }
}

/// Waits for the view's Redis, as long as it is away. False if stopped before.
async fn until_connected(
    view: &ViewStore,
    stores: &Part,
    stop: &CancellationToken,
) -> anyhow::Result<bool> {
    let mut retry = Retry::new(stores, stop);
    while let Err(failure) = view.check_fit().await {
        if !failure.is_away() {
            return Err(failure).context(VIEW_UNUSABLE);
        }
        let failure = anyhow::Error::new(failure).context(VIEW_UNUSABLE);
        if !retry.after(&failure, "connecting to the view").await {
            return Ok(false);
        }
    }
    retry.done();
    Ok(true)
}

/// Applies the movements topic to the gates until `stop`.
async fn move_stock(
    config: &Config,
    pool: MySqlPool,
    health: Part,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let names = TopicNames::new(&config.topic_prefix);
    match Movements::connect(config, pool, health, stop).await? {
        Some(movements) => movements.run(&config.kafka_brokers, &names, stop).await,
        None => Ok(()),
    }
}

/// Reads the generations of the view's Redis from MySQL.
fn generations_of(pool: MySqlPool) -> GenerationsOf {
    Box::new(move |served| -> GenerationsFuture {
        let pool = pool.clone();
        Box::pin(async move {
            let found = connect::within(async {
                let mut connection = connect::acquire(&pool).await?;
                view_generation::generations_of(&mut connection, &served).await
            });
            Ok(found.await?)
        })
    })
}

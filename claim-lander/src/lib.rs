//! Reads queued claims. Writes their coupons to MySQL, or a rejected row that says why there are none. Owns its group's
//! offsets. It also reads payments, in a group of their own, and confirms the held coupons that they pay for
//! (`payments.rs`, `confirming.rs`).
//!
//! ```text
//! topic claims ─ batch of one partition ─▶ landing::queued ─▶ MySQL: landed, rejected, fenced, or too late
//!                                                  ├─▶ gate: settle, release, "wrong" (best effort)
//!                                                  └─▶ topic dead_letter: what cannot be read or landed
//!                                         ─▶ offset ─▶ topic claim_progress, once a second
//! ```
//! The guarantee: an offset is stored only after each claim before it has its end in MySQL. So each claim is landed at
//! least once, and the claims of one partition in order. Landing, rejecting and fencing are idempotent by claim id.
//!
//! It needs MySQL, but no gate: a claim lands whether its gate is wrong, closed or away. While MySQL is away the same
//! batch waits, and nothing is dropped; after some seconds the process leaves its partitions to others, which may reach
//! MySQL. The resolver repeats reports that a gate did not get.

mod config;
mod confirming;
mod dead_letter;
mod early;
#[doc(hidden)]
pub mod fuzz;
mod landing_rate;
mod lanes;
mod leave_group;
mod metrics;
mod payment_wait;
mod payments;
mod progress;
mod servers;
mod spans;
mod work;

use std::{pin::pin, sync::Arc, time::Duration};

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use futures::future::try_join_all;
use landing::{
    ids::Ids,
    queued::{GateReports, QueuedLander, Reporter},
};
use mysql_store::migrate;
use runtime::{Clock, Health, Part};
use tokio::sync::{Mutex, Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use topic::{
    ClaimsReader, ConsumerOptions, HeldUp, LaneReader, Producer, ProducerOptions, QueueOffsets,
    TopicNames,
};

use crate::{
    confirming::Shop, lanes::Lanes, leave_group::GroupLeave, progress::Publisher,
    servers::ServerHealth, work::Work,
};

pub use crate::metrics::METRICS;
pub use config::Config;

/// Landers at work in one process, each with a connection of its own. They take batches of different partitions, so one
/// keeps the disk busy while the other reads, as for direct claims.
const LANDERS: usize = 2;

/// Landers that replace those whose batches are stuck. So stock rows that stay locked, in up to this many partitions,
/// stop no other partition.
const SPARES: usize = 4;

/// Other connections to MySQL: for the lease of the ids, three checks of the server, movements that a gate lacks, and
/// payments.
const MYSQL_CONNECTIONS: u32 = 5 + payments::AT_ONCE as u32;

/// Time for the last reports to the gate. The resolver makes up for the others.
const LAST_REPORTS_MAX: Duration = Duration::from_secs(2);

/// Reported in `/readyz` while the partitions are lost.
const LOST: &str = "the partitions were lost and no assignment has come: nothing lands here";

/// Reported in `/readyz` while the partitions are left to others.
const LEFT: &str = "MySQL does not answer: the partitions are left to other landers";

/// Returns the name of the consumer group under a topic prefix.
pub fn group(names: &TopicNames) -> String {
    names.claim_lander_group()
}

/// Runs until `stop`, then commits the stored offsets.
///
/// # Errors
/// MySQL or Kafka cannot be reached at the start, a topic is missing, or consuming fails for good. Later outages are
/// waited out.
pub async fn run(
    config: &Config,
    clock: &Clock,
    health: &Health,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    metrics::describe();
    let partitions = health.part("partitions");
    let payments = health.part("payments");
    let servers = ServerHealth::of(config, health);
    let brokers = &config.kafka_brokers;
    let names = TopicNames::new(&config.topic_prefix);
    let database_url = config.database_url.expose();
    let pool = migrate::checked_pool(database_url, MYSQL_CONNECTIONS)
        .await
        .context("MySQL cannot be used (DATABASE_URL)")?;
    let ids = Arc::new(Ids::lease(pool.clone(), &holder()).await?);
    let producer = Producer::connect(brokers, ProducerOptions::default()).await?;
    let reader = ClaimsReader::join(brokers, &names, ConsumerOptions::default()).await?;
    let gate_url = config.gate_redis_url.expose();
    let (reports, reporter) = GateReports::new(gate_url, &config.key_prefix, pool.clone());
    let lanes = Lanes::default();
    let offsets = QueueOffsets::new(brokers, &names);
    let ending = stop.child_token();
    let work = Work {
        reader: &reader,
        places: Semaphore::new(LANDERS),
        turn: Mutex::default(),
        lanes: &lanes,
        producer: &producer,
        names: &names,
        clock,
        points: &config.fail_points,
        stop: &ending,
        stored: Notify::new(),
    };
    let (has_left, leaving) = watch::channel(false);
    let publisher = Publisher {
        reader: &reader,
        lanes: &lanes,
        offsets: offsets.clone(),
        producer: &producer,
        names: &names,
        clock,
        has_left: leaving.clone(),
    };
    let away = GroupLeave { reader: &reader, pool: &pool, has_left };
    let landers: Vec<_> = (0..LANDERS + SPARES)
        .map(|_| {
            let reports = reports.clone();
            let clock = clock.clone();
            let now = move || clock.now();
            let points = config.fail_points.clone();
            work.run(QueuedLander::connect(database_url, &ids, reports, now, points))
        })
        .collect();
    // The reporter ends with the last lander.
    drop(reports);
    let last = CancellationToken::new();
    let shop =
        Shop { config, clock, names: &names, pool: &pool, producer: &producer, offsets: &offsets };
    let paying = Box::pin(shop.run(&payments, &ending));
    let (worked, ..) = tokio::join!(
        work_together(try_join_all(landers), paying, &ending, &last),
        last.run_until_cancelled(work.commit()),
        last.run_until_cancelled(publisher.run()),
        last.run_until_cancelled(show_partitions(&reader, leaving, &partitions)),
        last.run_until_cancelled(away.run()),
        ids.keep(|| clock.now(), last.clone()),
        report(reporter, &last),
        Box::pin(servers.watch(config, &pool, clock, &last)),
    );
    worked?;
    reader.close().await.context("the last offsets were not committed; they will repeat")
}

/// Lands claims and takes payments. When one of the two ends, for any reason, `ending` ends the other; `last` is
/// cancelled after both.
async fn work_together(
    landing: impl Future<Output = anyhow::Result<Vec<()>>>,
    paying: impl Future<Output = anyhow::Result<()>>,
    ending: &CancellationToken,
    last: &CancellationToken,
) -> anyhow::Result<()> {
    let landing = async {
        let landed = landing.await;
        ending.cancel();
        landed
    };
    let paying = async {
        let paid = paying.await;
        ending.cancel();
        paid
    };
    let (landed, paid) = tokio::join!(landing, paying);
    last.cancel();
    landed.and(paid)
}

/// Reports in `/readyz` whether partitions are assigned, and which of them cannot be read on. Never returns.
async fn show_partitions<T>(
    reader: &LaneReader<T>,
    mut leaving: watch::Receiver<bool>,
    part: &Part,
) {
    let mut rebalances = reader.rebalances();
    let mut held_up = reader.held_up();
    loop {
        tokio::select! {
            changed = rebalances.changed() => if changed.is_err() { return },
            changed = leaving.changed() => if changed.is_err() { return },
            changed = held_up.changed() => if changed.is_err() { return },
        }
        let has_left = *leaving.borrow_and_update();
        let held_up = HeldUp::sentence(&held_up.borrow_and_update());
        match (rebalances.borrow_and_update().is_lost(), held_up) {
            _ if has_left => part.not_ready(LEFT),
            (true, _) => part.not_ready(LOST),
            (false, Some(why)) => part.not_ready(why),
            (false, None) => part.ready(),
        }
    }
}

/// Returns the time from a message's or a claim's own time until now; zero if it is yet to come.
fn delay(now: DateTime<Utc>, at: DateTime<Utc>) -> Duration {
    now.signed_duration_since(at).to_std().unwrap_or_default()
}

/// Sends reports to the gates until the landers have ended, and for at most [`LAST_REPORTS_MAX`] longer.
async fn report(reporter: Reporter, last: &CancellationToken) {
    let mut reporting = pin!(reporter.run());
    tokio::select! {
        () = &mut reporting => {}
        () = async {
            last.cancelled().await;
            tokio::time::sleep(LAST_REPORTS_MAX).await;
        } => {}
    }
}

/// Returns a name that no other process has. Its worker number is leased under it.
fn holder() -> String {
    format!("claim-lander-{}-{:016x}", std::process::id(), fastrand::u64(..))
}

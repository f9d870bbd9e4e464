//! A worker with millions of waiting coupons: its memory, and how soon it works after a start.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};
use chrono::TimeDelta;
use coupon::EXPIRY_SHARDS;
use mysql_store::verify::BULK_ROWS;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    stage::{BareServers, Stage},
    storm,
};

/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How long a start may take before the measurement fails.
const START_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Pending {
    /// The worker's memory with few coupons waiting, in MiB.
    pub resident_before_mib: f64,
    /// The worker's memory with all of them waiting, in MiB.
    pub resident_mib: f64,
    /// Time from the process's start to the first flip, which requires reading one shard.
    pub first_flip: Duration,
    /// Time to the last due coupon. Every shard has some, so every shard was read.
    pub all_shards: Duration,
    /// Whether the kernel's caches were emptied before, in addition to MySQL's own.
    pub cold: bool,
}

/// Inserts `coupons` coupons that end in a month and a bulk of due ones, restarts MySQL with cold
/// caches, and starts the worker.
pub async fn measure(
    servers: &mut BareServers,
    stage: &mut Stage,
    first: i64,
    coupons: i64,
) -> Result<Pending> {
    // Restart for a fair comparison: storms may have left memory allocated.
    let worker = &mut stage.platform.expiry_worker;
    worker.restart().await?;
    let resident_before_mib = worker.resident_mib().context("the worker does not run")?;
    // Only the rows count here: ten million of them need not be published.
    stage.platform.stop().await?;
    let url = stage.platform.endpoints.database_url.clone();
    let month = stage.clock.now() + TimeDelta::days(30);
    let waiting = storm::insert(&url, first, coupons, month).await?;
    let due = storm::insert(&url, first + waiting, BULK_ROWS, stage.clock.now()).await?;
    // Kill it: a server that shuts down in order saves which pages it had cached.
    servers.stack.database.kill()?;
    let cold = fs::write("/proc/sys/vm/drop_caches", "3").is_ok();
    servers.stack.database.start().await?;
    let began = Instant::now();
    let worker = &mut stage.platform.expiry_worker;
    worker.spawn()?;
    let watch = async {
        let mut first_flip = None;
        loop {
            let flips = worker.metric("expiry_worker_flips_total").await.unwrap_or(0.0);
            if flips > 0.0 {
                first_flip.get_or_insert(began.elapsed());
            }
            if let Some(first_flip) = first_flip.filter(|_| flips >= due as f64) {
                return (first_flip, began.elapsed());
            }
            sleep(LOOK_EVERY).await;
        }
    };
    let watched = timeout(START_MAX, watch).await;
    let (first_flip, all_shards) = watched.context("the worker did not start to flip")?;
    debug_assert!(due >= EXPIRY_SHARDS, "a bulk has users of every shard");
    let resident_mib =
        stage.platform.expiry_worker.resident_mib().context("the worker does not run")?;
    Ok(Pending { resident_before_mib, resident_mib, first_flip, all_shards, cold })
}

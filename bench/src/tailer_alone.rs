//! Rows per second from the binlog to the topic: a backlog of bulk rows, with only the tailer
//! running.

use std::time::Duration;

use anyhow::{Result, ensure};
use mysql_store::{
    connect,
    verify::{self, BULK_ROWS},
};
use tokio::time::{Instant, sleep};
use topic::topic_offsets;

use crate::stage::Stage;

/// Transactions of the backlog, of 10,000 rows each.
const TRANSACTIONS: i64 = 30;
/// The id of the first coupon; the platform's own ids are far larger.
const FIRST_ID: i64 = 1;
/// Polling interval for the topic's end.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long the backlog may take.
const DRAINED_MAX: Duration = Duration::from_secs(120);

/// Stops the platform, writes the backlog, starts only the tailer, and measures from the first new
/// message to the last. The rows belong to no claim, so verify before this.
///
/// # Errors
/// The platform fails, or the backlog is not drained.
pub async fn rows_per_second(stage: &mut Stage) -> Result<f64> {
    stage.platform.stop().await?;
    let before = messages(stage).await?;
    let mut connection = connect::single(&stage.platform.endpoints.database_url).await?;
    for transaction in 0..TRANSACTIONS {
        let first_id = FIRST_ID + transaction * BULK_ROWS;
        verify::insert_bulk(&mut connection, first_id, stage.clock.now()).await?;
    }
    let all = before + TRANSACTIONS * BULK_ROWS;
    stage.platform.cdc_tailer.spawn()?;
    let deadline = Instant::now() + DRAINED_MAX;
    let mut first = None;
    loop {
        let held = messages(stage).await?;
        let at = Instant::now();
        if held >= all {
            let (count, since) = first.unwrap_or((before, at - LOOK_EVERY));
            return Ok((held - count) as f64 / (at - since).as_secs_f64());
        }
        if held > before && first.is_none() {
            first = Some((held, at));
        }
        ensure!(at < deadline, "{} rows are still missing", all - held);
        sleep(LOOK_EVERY).await;
    }
}

async fn messages(stage: &Stage) -> Result<i64> {
    let offsets =
        topic_offsets(&stage.sources.brokers, &stage.sources.topics.user_coupon()).await?;
    Ok(offsets.iter().map(|partition| partition.end).sum())
}

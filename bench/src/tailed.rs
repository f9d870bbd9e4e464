//! The tailer: rows per second from the binlog into the topic, bulk.

use std::time::{Duration, Instant};

use anyhow::Result;
use mysql_store::{connect, verify};
use topic::{TopicNames, topic_offsets};

use crate::stage::Stage;

/// Rows written before the tailer starts, in transactions of 10,000.
const ROWS: i64 = 300_000;

/// Rows of one transaction of `insert_bulk`.
const BULK: i64 = 10_000;

/// Ids far above those that claims make.
const FIRST_ID: i64 = 9_000_000_000_000_000_000;

/// How often the topic's end is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Rows per second until the topic holds them all, from the first ones it holds on; the rows were
/// written while it was stopped, and nobody else reads the topic.
///
/// # Errors
/// A process or server fails.
pub async fn rows_per_s(stage: &mut Stage) -> Result<f64> {
    stage.platform.cdc_tailer.stop().await?;
    stage.platform.sync_consumer.stop().await?;
    let endpoints = stage.servers.endpoints();
    let mut connection = connect::single(&endpoints.database_url).await?;
    for first in (0..ROWS).step_by(usize::try_from(BULK)?) {
        verify::insert_bulk(&mut connection, FIRST_ID + first, stage.clock.now()).await?;
    }
    let brokers = &endpoints.kafka_brokers;
    let topic = TopicNames::new(stage.platform.options.topic_prefix.clone()).user_coupon();
    let before = end(brokers, &topic).await?;
    stage.platform.cdc_tailer.spawn()?;
    let mut first = None;
    loop {
        let now = end(brokers, &topic).await?;
        if now > before && first.is_none() {
            first = Some((Instant::now(), now));
        }
        if now >= before + ROWS {
            let (since, there) = first.unwrap_or((Instant::now(), now));
            return Ok((now - there) as f64 / since.elapsed().as_secs_f64());
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn end(brokers: &str, topic: &str) -> Result<i64> {
    Ok(topic_offsets(brokers, topic).await?.iter().map(|partition| partition.end).sum())
}

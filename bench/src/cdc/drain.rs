//! A backlog: how fast a contender brings a part of the binlog into its topic.

use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{
    broker::Broker,
    contender::{Contender, Mode},
    load::Part,
    usage::Usage,
};

/// Polling interval for the topic's end.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a part may take: five times what the slowest peer needs for a million rows.
const DRAINED_MAX: Duration = Duration::from_secs(180);

/// Measurements of one contender with one part.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Drained {
    /// Rows per second from the first new message seen to the last: without the start, but with the
    /// warm-up.
    pub rows_per_s: f64,
    /// Transactions per second over the same time.
    pub txn_per_s: f64,
    /// Seconds from the start of the process to the last message.
    pub seconds_with_start: f64,
    /// CPU seconds, including the start.
    pub cpu_s: f64,
    /// Peak memory in MiB.
    pub peak_rss_mib: f64,
    /// Bytes in the topic per row, with keys and framing.
    pub bytes_per_row: f64,
}

/// Starts the contender at the part's beginning, and stops it when the topic holds all of it.
///
/// # Errors
/// The contender ends, is too slow, or produces too many messages.
pub async fn measure(
    contender: &mut Contender,
    part: &Part,
    broker: &Broker,
    broker_data: &Path,
) -> Result<Drained> {
    let topic = contender.topic.clone();
    let before = broker.held(&topic).await?;
    let bytes_before = Broker::bytes(broker_data, &topic)?;
    let began = Instant::now();
    contender.spawn(&part.from, Mode::Backlog)?;
    let (first, last) = watch(contender, part, broker, before).await?;
    let usage = Usage::of(contender.pid()?)?;
    contender.stop().await?;
    let brought = broker.held(&topic).await? - before;
    ensure!(brought == part.rows, "{} brought {brought} of {} rows", contender.name, part.rows);
    let bytes = Broker::bytes(broker_data, &topic)? - bytes_before;
    let rows_per_s = (part.rows - first.rows) as f64 / (last - first.at).as_secs_f64();
    Ok(Drained {
        rows_per_s,
        txn_per_s: rows_per_s * part.transactions as f64 / part.rows as f64,
        seconds_with_start: (last - began).as_secs_f64(),
        cpu_s: usage.cpu.as_secs_f64(),
        peak_rss_mib: usage.peak_mib,
        bytes_per_row: bytes as f64 / part.rows as f64,
    })
}

/// The first time that rows were seen, and their number.
struct First {
    at: Instant,
    rows: i64,
}

/// Waits for the whole part. Returns when rows were first seen, and when all were there.
async fn watch(
    contender: &mut Contender,
    part: &Part,
    broker: &Broker,
    before: i64,
) -> Result<(First, Instant)> {
    let deadline = Instant::now() + DRAINED_MAX;
    let mut first = None;
    let mut looked = Instant::now();
    loop {
        let rows = broker.held(&contender.topic).await? - before;
        let at = Instant::now();
        if rows > 0 {
            // If all rows appear at one poll, they took at most the time since the previous poll.
            let first = first.get_or_insert(First { at: looked, rows: 0 });
            if rows >= part.rows {
                return Ok((First { ..*first }, at));
            }
            if first.rows == 0 {
                *first = First { at, rows };
            }
        }
        contender.check()?;
        let missing = part.rows - rows;
        ensure!(at < deadline, "{missing} rows of {} are still missing", contender.name);
        looked = at;
        sleep(LOOK_EVERY).await;
    }
}

/// The median run by rate.
pub fn median(mut runs: Vec<Drained>) -> Option<Drained> {
    runs.sort_by(|one, other| one.rows_per_s.total_cmp(&other.rows_per_s));
    runs.get(runs.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_in_the_middle_counts() {
        let run = |rows_per_s| Drained {
            rows_per_s,
            txn_per_s: 0.0,
            seconds_with_start: 0.0,
            cpu_s: 0.0,
            peak_rss_mib: 0.0,
            bytes_per_row: 0.0,
        };
        let rate = |runs: &[f64]| median(runs.iter().copied().map(run).collect());
        assert_eq!(rate(&[3.0, 1.0, 2.0]).unwrap().rows_per_s.to_bits(), 2f64.to_bits());
        assert_eq!(rate(&[2.0, 1.0]).unwrap().rows_per_s.to_bits(), 1f64.to_bits(), "the slower");
        assert!(rate(&[]).is_none());
    }
}

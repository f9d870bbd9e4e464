//! Single changes on an idle platform: time from a commit's answer until a consumer has its message.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use shopper::Latency;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{
    arrivals::Arrivals,
    broker::Broker,
    contender::{Contender, Mode},
    load::Load,
};

/// Pause between two commits: long enough for the previous change to be done.
const APART: Duration = Duration::from_millis(20);

/// Changes before the measured ones, to warm up connections and compilers.
const WARM_UP: usize = 100;

/// How long to wait for a change before making another one, while a contender starts.
const START_LOOK: Duration = Duration::from_millis(500);

/// How long a contender may take to start, and the last message to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the contender and measures `changes` changes.
///
/// # Errors
/// The contender ends, or a change does not arrive.
pub async fn measure(
    contender: &mut Contender,
    load: &mut Load,
    broker: &Broker,
    changes: usize,
) -> Result<Latency> {
    let arrivals = Arrivals::follow(broker, &contender.topic)?;
    start(contender, load, &arrivals, Mode::Idle).await?;
    run(contender, load, &arrivals, WARM_UP).await?;
    let latency = run(contender, load, &arrivals, changes).await?;
    contender.stop().await?;
    Ok(latency)
}

/// Runs the contender until it has delivered a change and saved a position before all parts.
///
/// # Errors
/// The contender ends, or a change does not arrive.
pub async fn seed(contender: &mut Contender, load: &mut Load, broker: &Broker) -> Result<()> {
    let arrivals = Arrivals::follow(broker, &contender.topic)?;
    start(contender, load, &arrivals, Mode::Backlog).await?;
    contender.stop().await
}

/// Starts the contender and makes changes until one of them arrives.
async fn start(
    contender: &mut Contender,
    load: &mut Load,
    arrivals: &Arrivals,
    mode: Mode,
) -> Result<()> {
    contender.spawn(&load.place().await?, mode)?;
    contender.ready().await?;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let id = load.one().await?;
        if arrivals.all(&[id], START_LOOK).await? {
            return Ok(());
        }
        contender.check()?;
    }
    bail!("{} brings no changes", contender.name)
}

async fn run(
    contender: &mut Contender,
    load: &mut Load,
    arrivals: &Arrivals,
    changes: usize,
) -> Result<Latency> {
    let mut committed = Vec::with_capacity(changes);
    let mut ticks = interval(APART);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..changes {
        ticks.tick().await;
        let id = load.one().await?;
        committed.push((id, Instant::now()));
    }
    let ids: Vec<i64> = committed.iter().map(|(id, _)| *id).collect();
    let came = arrivals.all(&ids, PATIENCE).await?;
    contender.check()?;
    ensure!(came, "changes did not come from {}", contender.name);
    let mut latency = Latency::default();
    for (id, at) in committed {
        // A message that arrived before the commit's answer counts as zero.
        let came = arrivals.at(id).unwrap_or(at);
        latency.record(came.saturating_duration_since(at));
    }
    Ok(latency)
}

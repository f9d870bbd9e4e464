//! Single changes with nothing else going on: from a commit's answer to its message in a consumer's hands.

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

/// Pause between two commits: nothing of the one before is under way any more.
const APART: Duration = Duration::from_millis(20);

/// Changes before the measured ones: connections and compilers warm up.
const WARM_UP: usize = 100;

/// How long a change may take before another one is made, while a contender starts.
const START_LOOK: Duration = Duration::from_millis(500);

/// How long a contender may take to start, and the last message to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the contender and measures so many changes.
///
/// # Errors
/// It ends, or a change does not come.
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

/// Runs the contender until it has brought a change, so that its position is saved: all parts lie behind.
///
/// # Errors
/// It ends, or a change does not come.
pub async fn seed(contender: &mut Contender, load: &mut Load, broker: &Broker) -> Result<()> {
    let arrivals = Arrivals::follow(broker, &contender.topic)?;
    start(contender, load, &arrivals, Mode::Backlog).await?;
    contender.stop().await
}

/// Starts the contender and makes changes until one of them comes.
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
        // One that came before the commit's own answer took no time.
        let came = arrivals.at(id).unwrap_or(at);
        latency.record(came.saturating_duration_since(at));
    }
    Ok(latency)
}

//! `./dev bench capacity`: the CPU time that a claim takes of each part at a steady rate, and what ten thousand, a hundred
//! thousand and a million claims a second need: the table of docs/operate/capacity.md. Exit code 1: something failed, or an
//! invariant is broken afterwards.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]

use std::{path::Path, time::Duration};

use anyhow::Result;
use serde::Serialize;
use shopper::Latency;
use tokio::time::sleep;

use crate::{
    claims::{
        arrivals::{self, Rate},
        hot, spread,
    },
    machine::{
        cpu::Cpu,
        needs::{self, ClaimUs, Loads, Part},
    },
    queued::accept,
    report::{self, Machine, conclude, quantiles, row},
    stage::{BareServers, Stage},
};

/// Claims before the measurements: enough for the broker's JVM to have compiled what it runs most.
const WARM_UP: i64 = 100_000;

/// Claims whose rate is the capacity.
const CLAIMS: i64 = 30_000;

/// The share of the capacity at which CPU time is measured. Queued claims and many templates have a lower capacity, of at
/// least 0.58 of it in every run so far, and are still below theirs.
const STEADY: f64 = 0.5;

/// How long each load lasts. The kernel counts CPU time in hundredths of a second, and the least busy part takes half a
/// second of it.
const LENGTH: Duration = Duration::from_secs(30);

/// How long what is behind the last answer may take before CPU time is read. At half of the capacity it takes milliseconds,
/// while the check for rest would read every coupon, which costs MySQL and the broker more than thousands of claims.
const BEHIND: Duration = Duration::from_secs(2);

/// The first user of the warm-up of many templates; those of the loads have far smaller ids.
const FIRST_WARM: i64 = 1 << 40;

/// The figures and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    capacity_per_s: f64,
    claims_per_s: f64,
    /// Microseconds by process; `crowd` is in no part.
    cpu_us: Loads,
    parts: Vec<Part>,
}

/// Runs it.
pub async fn run(json: Option<&Path>) -> Result<()> {
    let servers = BareServers::start_for_minutes().await?;
    let machine = report::machine(&servers)?;
    let mut stage = servers.platform().await?;
    let warm = hot::warm_up(&stage, None, WARM_UP, CLAIMS).await?;
    let capacity_per_s = hot::sell(&stage, warm, CLAIMS).await?.landed_per_s;
    let claims_per_s = STEADY * capacity_per_s;
    row("capacity", &format!("{capacity_per_s:.0}/s landed over HTTP, one template"));
    row("each load", &format!("{claims_per_s:.0}/s for {} s", LENGTH.as_secs()));
    stage.at_rest().await?;
    let one_template = one_template(&servers, &mut stage, claims_per_s).await?;
    let queued = queued(&servers, &mut stage, claims_per_s).await?;
    // Last, because a thousand published templates cause work in an api as long as they exist.
    let many_templates = many_templates(&servers, &mut stage, claims_per_s).await?;
    let cpu_us = Loads { one_template, many_templates, queued };
    let parts = needs::parts(&cpu_us);
    println!("\n{}", needs::table(&parts));

    let invariants = stage.verify().await?;
    stage.platform.stop().await?;
    servers.end().await?;
    let figures = Figures { machine, capacity_per_s, claims_per_s, cpu_us, parts };
    conclude(json, &figures, &invariants)
}

async fn one_template(servers: &BareServers, stage: &mut Stage, per_s: f64) -> Result<ClaimUs> {
    let before = Cpu::read(servers, stage)?;
    let answered = arrivals::at_rate(stage, per_s, LENGTH).await?;
    row("one template, answered", &quantiles(&answered));
    since(&before, &answered, servers, stage).await
}

/// After the gate, so that the relay publishes the claims: after the topic, the api does.
async fn queued(servers: &BareServers, stage: &mut Stage, per_s: f64) -> Result<ClaimUs> {
    let before = Cpu::read(servers, stage)?;
    let answered = accept::at_rate(stage, "gate", per_s, LENGTH).await?;
    row("queued, answered", &quantiles(&answered));
    since(&before, &answered, servers, stage).await
}

async fn many_templates(servers: &BareServers, stage: &mut Stage, per_s: f64) -> Result<ClaimUs> {
    let templates = spread::publish_warm(stage, &mut (FIRST_WARM..)).await?;
    let before = Cpu::read(servers, stage)?;
    let rate = Rate::for_length(per_s, LENGTH);
    let answered = arrivals::send(stage, templates.into_iter().cycle(), rate).await?.answered;
    row("1,000 templates, answered", &quantiles(&answered));
    since(&before, &answered, servers, stage).await
}

/// The CPU time of each of these claims since `before`. Then waits for rest, so that the next load begins with it.
async fn since(
    before: &Cpu,
    answered: &Latency,
    servers: &BareServers,
    stage: &mut Stage,
) -> Result<ClaimUs> {
    sleep(BEHIND).await;
    let after = Cpu::read(servers, stage)?;
    stage.at_rest().await?;
    Ok(after.per_claim(before, i64::try_from(answered.count())?))
}

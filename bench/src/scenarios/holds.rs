//! `./dev bench holds`: coupons whose holds end in the same second, beside claims; a lone lapse until its unit has a new owner; payments;
//! the rebuild of a gate with many users; landings of held coupons beside others. Exit code 1: something failed, or an
//! invariant is broken afterwards.

use std::{path::Path, time::Duration};

use crate::{
    claims::hot,
    holds,
    report::{self, Machine, conclude, quantiles, row},
    stage::{BareServers, Stage},
    storm::Claims,
};
use anyhow::Result;
use chrono::TimeDelta;
use clap::Args;
use serde::Serialize;
use shopper::Latency;

/// How long claims alone are measured, once before the storm and once after it.
const BASELINE: Duration = Duration::from_secs(30);

/// The first user of the storms; smaller ids belong to what goes before.
const FIRST: i64 = 10_000_000;

/// Measures lapses per second beside claims, a lone lapse, payments, a rebuild, and landings of held coupons.
#[derive(Args)]
pub struct Cli {
    /// Holds that end in the same second, rounded up to a multiple of 10,000.
    #[arg(long, default_value_t = 100_000)]
    holds: i64,
    /// Claims per second beside them.
    #[arg(long, default_value_t = 500.0)]
    claims_per_s: f64,
}

/// The figures and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    landed_per_s: f64,
    landed_held_per_s: f64,
    landed_held_over_landed: f64,
    lone_p50_ms: f64,
    lone_p99_ms: f64,
    paid_per_s: f64,
    paid_p50_ms: f64,
    paid_p99_ms: f64,
    paid_beside_claims_per_s: f64,
    holds: i64,
    rebuild_s: f64,
    lapses_per_s: f64,
    on_sale_after_s: f64,
    beside_lapses_per_s: f64,
    beside_on_sale_after_s: f64,
    claims_per_s: f64,
    claims_p99_alone_ms: f64,
    claims_p99_beside_ms: f64,
    claims_p99_ratio: f64,
}

/// Runs it.
pub async fn run(cli: Cli, json: Option<&Path>) -> Result<()> {
    let servers = BareServers::start_as_installed().await?;
    let machine = report::machine(&servers)?;
    let mut stage = servers.platform().await?;
    let (landed_per_s, landed_held_per_s) = landings(&stage).await?;
    let landed_held_over_landed = landed_held_per_s / landed_per_s;
    let lone = holds::lone(&stage).await?;
    row("a lone lapse, sold again", &quantiles(&lone));
    let paid = holds::pay(&stage).await?;
    let per_s = paid.per_s;
    row("payments beside claims", &format!("{per_s:.0}/s, {}", quantiles(&paid.answered)));

    let held = holds::prepare(&mut stage, FIRST, cli.holds).await?;
    let rebuild = holds::rebuild(&stage, &held).await?;
    row("a gate's rebuild", &format!("{:.2} s with as many users", rebuild.as_secs_f64()));
    let alone = holds::lapse(&mut stage, &held).await?;
    say("holds that end together", &alone);
    let Beside { lapsed: beside, claims, alone: baseline } =
        beside_claims(&mut stage, &cli).await?;
    row("claims alone", &quantiles(&baseline));
    row("claims beside lapses", &quantiles(&claims));
    say("  the lapses", &beside);

    let invariants = stage.verify().await?;
    stage.platform.stop().await?;
    servers.end().await?;
    let p99 = baseline.ms(0.99);
    let p99_beside = claims.ms(0.99);
    let figures = Figures {
        machine,
        landed_per_s,
        landed_held_per_s,
        landed_held_over_landed,
        lone_p50_ms: lone.ms(0.5),
        lone_p99_ms: lone.ms(0.99),
        paid_per_s: paid.per_s,
        paid_p50_ms: paid.answered.ms(0.5),
        paid_p99_ms: paid.answered.ms(0.99),
        paid_beside_claims_per_s: holds::BESIDE_PER_S,
        holds: crate::storm::rounded(cli.holds),
        rebuild_s: rebuild.as_secs_f64(),
        lapses_per_s: alone.per_s,
        on_sale_after_s: alone.on_sale_after.as_secs_f64(),
        beside_lapses_per_s: beside.per_s,
        beside_on_sale_after_s: beside.on_sale_after.as_secs_f64(),
        claims_per_s: cli.claims_per_s,
        claims_p99_alone_ms: p99,
        claims_p99_beside_ms: p99_beside,
        claims_p99_ratio: p99_beside / p99,
    };
    row("  p99, over p99 alone", &format!("{:.2}", figures.claims_p99_ratio));
    conclude(json, &figures, &invariants)
}

/// Landings per second without and with holds. In the order plain, held, held, plain, since a machine changes with time.
async fn landings(stage: &Stage) -> Result<(f64, f64)> {
    let hold = Some(TimeDelta::minutes(30));
    let mut rates = [0.0; 4];
    for (rate, hold) in rates.iter_mut().zip([None, hold, hold, None]) {
        *rate = hot::measure_held(stage, hold).await?.landed_per_s;
        stage.at_rest().await?;
    }
    let [plain, held] = [(rates[0] + rates[3]) / 2.0, (rates[1] + rates[2]) / 2.0];
    row("claims landed", &format!("{plain:.0}/s over HTTP"));
    row("  held ones", &format!("{held:.0}/s, {:.2} of the others", held / plain));
    Ok((plain, held))
}

fn say(name: &str, lapsed: &holds::Lapsed) {
    let per_s = lapsed.per_s;
    let after = lapsed.on_sale_after.as_secs_f64();
    row(name, &format!("{per_s:.0} lapses/s; all on sale again {after:.2} s later"));
}

/// Lapses, and claims during them and without them.
struct Beside {
    lapsed: holds::Lapsed,
    claims: Latency,
    alone: Latency,
}

async fn beside_claims(stage: &mut Stage, cli: &Cli) -> Result<Beside> {
    let first = FIRST + crate::storm::rounded(cli.holds);
    let held = holds::prepare(stage, first, cli.holds).await?;
    let mut alone = claims_alone(stage, cli.claims_per_s).await?;
    let claims = Claims::start(stage, cli.claims_per_s).await?;
    let lapsed = holds::lapse(stage, &held).await;
    let claims = claims.end().await?.answered;
    alone.add(&claims_alone(stage, cli.claims_per_s).await?);
    Ok(Beside { lapsed: lapsed?, claims, alone })
}

async fn claims_alone(stage: &Stage, per_second: f64) -> Result<Latency> {
    let claims = Claims::start(stage, per_second).await?;
    tokio::time::sleep(BASELINE).await;
    Ok(claims.end().await?.answered)
}

//! `./dev bench expiry`: a million coupons that end in the same second, alone and next to claims; lone
//! deadlines; millions of waiting coupons. Exit code 1: something failed, or a coupon ended
//! wrongly.

use std::{path::Path, time::Duration};

use crate::{
    claims::hot,
    lone, pending,
    report::{self, Machine, quantiles, row, write_json},
    stage::{BareServers, Stage},
    storm::{self, Claimed, Claims},
};
use anyhow::{Result, ensure};
use clap::Args;
use coupon::UserId;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use mysql_store::{connect, verify::bad_ends};
use serde::Serialize;
use shopper::{CouponQuery, Latency};

/// How long claims alone are measured, once before the storm next to them and once after it: other
/// load on the machine changes within minutes.
const BASELINE: Duration = Duration::from_secs(30);

/// The first user of the storms; smaller ids belong to the warm-up.
const FIRST: i64 = 10_000_000;

/// Lists read concurrently.
const CONNECTIONS: usize = 64;

/// Measures flips per second next to a raw update, lateness, memory and start.
#[derive(Args)]
pub struct Cli {
    /// Coupons that end in the same second, rounded up to a multiple of 10,000.
    #[arg(long, default_value_t = 1_000_000)]
    coupons: i64,
    /// Users with a view in each storm after the first.
    #[arg(long, default_value_t = 100_000)]
    views: i64,
    /// Claims per second next to the last storm.
    #[arg(long, default_value_t = 500.0)]
    claims_per_s: f64,
    /// Coupons that wait for a month while memory and start are measured; 0 skips this.
    #[arg(long, default_value_t = 10_000_000)]
    pending: i64,
}

/// The figures and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    coupons: i64,
    ceiling_per_s: f64,
    /// Worker and MySQL have the machine for themselves, as for the ceiling.
    worker_flips_per_s: f64,
    worker_over_ceiling: f64,
    worker_clean_after_s: f64,
    /// Tailer, broker, consumer and view follow on the same machine.
    flips_per_s: f64,
    flips_over_ceiling: f64,
    clean_after_s: f64,
    claims_per_s: f64,
    claims_p99_alone_ms: f64,
    claims_p99_beside_ms: f64,
    claims_p99_ratio: f64,
    beside_flips_per_s: f64,
    beside_clean_after_s: f64,
    lone_p50_ms: f64,
    lone_p99_ms: f64,
    pending: Option<Waiting>,
}

#[derive(Serialize)]
struct Waiting {
    coupons: i64,
    resident_before_mib: f64,
    resident_mib: f64,
    first_flip_s: f64,
    all_shards_s: f64,
    kernel_caches_dropped: bool,
}

/// Runs it.
pub async fn run(cli: Cli, json: Option<&Path>) -> Result<()> {
    let mut servers = BareServers::start_as_installed().await?;
    let machine = report::machine(&servers)?;
    let ceiling_url = servers.stack.endpoints().url_of_database("ceiling");
    let ceiling_per_s = storm::ceiling(&ceiling_url, cli.coupons).await?;
    row("raw chunked updates", &format!("{ceiling_per_s:.0}/s, trigger and indexes included"));

    let mut stage = servers.platform().await?;
    // The broker's JVM compiles its code in its first seconds.
    hot::measure(&stage).await?;
    let lone = lone::measure(&stage).await?;
    row("a lone deadline, how late", &quantiles(&lone));

    let size = storm::rounded(cli.coupons);
    let prepared = storm::prepare(&mut stage, FIRST, cli.coupons).await?;
    let flipped = storm::run_by_itself(&mut stage, &prepared).await?;
    let by_itself = storm::until_view_is_clean(&stage, &prepared, flipped).await?;
    say_storm("the worker by itself", &by_itself, ceiling_per_s);

    open_lists(&stage, FIRST + size, cli.views).await?;
    let prepared = storm::prepare(&mut stage, FIRST + size, cli.coupons).await?;
    let flipped = storm::run(&mut stage, &prepared).await?;
    let alone = storm::until_view_is_clean(&stage, &prepared, flipped).await?;
    say_storm("a storm alone, all at work", &alone, ceiling_per_s);

    let third = FIRST + 2 * size;
    open_lists(&stage, third, cli.views).await?;
    let Beside { storm: beside, claims, alone: baseline } =
        storm_beside(&mut stage, third, &cli).await?;
    row("claims alone", &quantiles(&baseline));
    row("claims beside a storm", &quantiles(&claims));
    say_storm("  the storm", &beside, ceiling_per_s);

    let waiting = match cli.pending {
        0 => None,
        coupons => {
            let first = third + size;
            Some(wait(&mut servers, &mut stage, first, coupons).await?)
        }
    };
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    let bad = bad_ends(&mut connection, stage.clock.now()).await?;
    drop(connection);
    stage.platform.stop().await?;
    servers.end().await?;
    ensure!(bad.is_empty(), "coupons ended wrongly: {bad:?}");

    let p99 = baseline.ms(0.99);
    let p99_beside = claims.ms(0.99);
    let figures = Figures {
        machine,
        coupons: size,
        ceiling_per_s,
        worker_flips_per_s: by_itself.flips_per_s,
        worker_over_ceiling: by_itself.flips_per_s / ceiling_per_s,
        worker_clean_after_s: by_itself.clean_after.as_secs_f64(),
        flips_per_s: alone.flips_per_s,
        flips_over_ceiling: alone.flips_per_s / ceiling_per_s,
        clean_after_s: alone.clean_after.as_secs_f64(),
        claims_per_s: cli.claims_per_s,
        claims_p99_alone_ms: p99,
        claims_p99_beside_ms: p99_beside,
        claims_p99_ratio: p99_beside / p99,
        beside_flips_per_s: beside.flips_per_s,
        beside_clean_after_s: beside.clean_after.as_secs_f64(),
        lone_p50_ms: lone.ms(0.5),
        lone_p99_ms: lone.ms(0.99),
        pending: waiting,
    };
    row("  p99, over p99 alone", &format!("{:.2}", figures.claims_p99_ratio));
    write_json(json, &figures)
}

fn say_storm(name: &str, storm: &storm::Storm, ceiling_per_s: f64) {
    let flips = storm.flips_per_s;
    let clean = storm.clean_after.as_secs_f64();
    let of_raw = flips / ceiling_per_s;
    let figure = format!("{flips:.0} flips/s, {of_raw:.2} of raw; view clean {clean:.1} s later");
    row(name, &figure);
}

/// Reads the lists of `views` users from `first` on, so that their views are warm.
async fn open_lists(stage: &Stage, first: i64, views: i64) -> Result<()> {
    stream::iter(first..first + views)
        .map(async |user| {
            let shopper = stage.api.shopper(UserId(user))?;
            shopper.coupons(&CouponQuery::default()).await.map(drop)
        })
        .buffer_unordered(CONNECTIONS)
        .try_for_each(async |()| Ok(()))
        .await?;
    Ok(())
}

/// A storm, and claims during it and without it.
struct Beside {
    storm: storm::Storm,
    claims: Latency,
    alone: Latency,
}

async fn storm_beside(stage: &mut Stage, first: i64, cli: &Cli) -> Result<Beside> {
    let prepared = storm::prepare(stage, first, cli.coupons).await?;
    let Claimed { answered: mut alone, landed: before } =
        claims_alone(stage, cli.claims_per_s).await?;
    let claims = Claims::start(stage, cli.claims_per_s).await?;
    let storm = storm::run(stage, &prepared).await;
    let Claimed { answered, landed } = claims.end().await?;
    let prepared = prepared.with_claims(before + landed);
    let storm = storm::until_view_is_clean(stage, &prepared, storm?).await?;
    alone.add(&claims_alone(stage, cli.claims_per_s).await?.answered);
    Ok(Beside { storm, claims: answered, alone })
}

async fn claims_alone(stage: &Stage, per_second: f64) -> Result<Claimed> {
    let claims = Claims::start(stage, per_second).await?;
    tokio::time::sleep(BASELINE).await;
    claims.end().await
}

async fn wait(
    servers: &mut BareServers,
    stage: &mut Stage,
    first: i64,
    coupons: i64,
) -> Result<Waiting> {
    let waiting = pending::measure(servers, stage, first, coupons).await?;
    let [first_flip_s, all_shards_s] =
        [waiting.first_flip, waiting.all_shards].map(|took| took.as_secs_f64());
    let before = waiting.resident_before_mib;
    let with = waiting.resident_mib;
    row("coupons that wait", &format!("{coupons}"));
    row("  the worker's memory", &format!("{with:.1} MiB ({before:.1} with few)"));
    let caches = if waiting.cold { "cold caches" } else { "MySQL's cache cold" };
    row(
        "  from start to work",
        &format!("first flip {first_flip_s:.2} s, all shards {all_shards_s:.2} s, {caches}"),
    );
    Ok(Waiting {
        coupons: storm::rounded(coupons),
        resident_before_mib: before,
        resident_mib: with,
        first_flip_s,
        all_shards_s,
        kernel_caches_dropped: waiting.cold,
    })
}

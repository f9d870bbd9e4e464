//! `./dev bench view`: how soon a coupon is visible, lists per second, how fast lost views are rebuilt, and page latency of a very
//! long list. Exit code 1: something failed, or an invariant is broken afterwards.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]

use std::path::Path;

use crate::{
    bare,
    claims::hot,
    lists::{self, List, ListFigures, Pages},
    report::{self, Machine, conclude, quantiles, row},
    stage::{BareServers, Stage},
    visible,
};
use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use shopper::Latency;

/// Measures commit to visible at a quarter and half of capacity, lists next to a bare route, rebuilds per second, and
/// pages of ten thousand coupons next to those of ten.
#[derive(Args)]
pub struct Cli {
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Subcommand)]
enum Part {
    /// Run the bare route in this process.
    #[command(hide = true)]
    Bare(bare::Options),
}

/// The figures and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    landed_per_s: f64,
    quarter_load_per_s: f64,
    visible_quarter_p50_ms: f64,
    visible_quarter_p99_ms: f64,
    visible_quarter_p999_ms: f64,
    half_load_per_s: f64,
    visible_p50_ms: f64,
    visible_p99_ms: f64,
    visible_p999_ms: f64,
    my_coupons_per_s: f64,
    bare_per_s: f64,
    my_coupons_over_bare: f64,
    rebuilds_per_s: f64,
    /// Of a user with few coupons, and of one with ten thousand.
    pages: [ListFigures; 2],
    /// The short list's first page while the long list is rebuilt repeatedly.
    page_beside_rebuilds_p50_ms: f64,
    page_beside_rebuilds_p99_ms: f64,
    api_peak_before_rebuilds_mib: f64,
    api_peak_mib: f64,
}

/// Runs it.
pub async fn run(cli: Cli, json: Option<&Path>) -> Result<()> {
    match cli.part {
        Some(Part::Bare(options)) => bare::serve(options).await,
        None => measure(json).await,
    }
}

async fn measure(json: Option<&Path>) -> Result<()> {
    let servers = BareServers::start().await?;
    let machine = report::machine(&servers)?;
    let mut stage = servers.platform().await?;
    let landed_per_s = hot::measure(&stage).await?.landed_per_s;
    row("claims landed, one template", &format!("{landed_per_s:.0}/s over HTTP"));
    let quarter = visible_at(&stage, "quarter", landed_per_s / 4.0).await?;
    let half = visible_at(&stage, "half", landed_per_s / 2.0).await?;
    let lists = lists::measure(&stage).await?;
    let ratio = lists.per_s / lists.bare_per_s;
    row("my coupons", &format!("{:.0}/s, {ratio:.2} of a bare route", lists.per_s));
    row("  a bare route, same reads", &format!("{:.0}/s", lists.bare_per_s));
    row("views rebuilt", &format!("{:.0}/s", lists.rebuilds_per_s));
    let pages = lists::time_pages(&stage).await?;
    say_pages(&pages);
    let invariants = stage.verify().await?;
    stage.platform.stop().await?;
    servers.end().await?;

    let figures = Figures {
        machine,
        landed_per_s,
        quarter_load_per_s: landed_per_s / 4.0,
        visible_quarter_p50_ms: quarter.ms(0.5),
        visible_quarter_p99_ms: quarter.ms(0.99),
        visible_quarter_p999_ms: quarter.ms(0.999),
        half_load_per_s: landed_per_s / 2.0,
        visible_p50_ms: half.ms(0.5),
        visible_p99_ms: half.ms(0.99),
        visible_p999_ms: half.ms(0.999),
        my_coupons_per_s: lists.per_s,
        bare_per_s: lists.bare_per_s,
        my_coupons_over_bare: ratio,
        rebuilds_per_s: lists.rebuilds_per_s,
        pages: [pages.short.figures(), pages.long.figures()],
        page_beside_rebuilds_p50_ms: pages.beside_rebuilds.ms(0.5),
        page_beside_rebuilds_p99_ms: pages.beside_rebuilds.ms(0.99),
        api_peak_before_rebuilds_mib: pages.api_peak_mib[0],
        api_peak_mib: pages.api_peak_mib[1],
    };
    conclude(json, &figures, &invariants)
}

fn say_pages(pages: &Pages) {
    for List { coupons, cold, first, last } in [&pages.short, &pages.long] {
        println!("  pages of a user with {coupons} coupons");
        row("  first, its view gone", &quantiles(cold));
        row("  first", &quantiles(first));
        row("  last", &quantiles(last));
    }
    row("  the few, beside rebuilds", &quantiles(&pages.beside_rebuilds));
    let [before, after] = pages.api_peak_mib;
    row("  most memory of the api", &format!("{before:.1} MiB before them, {after:.1} after"));
}

/// Starts when the platform is at rest, so that no backlog of the previous figure is measured.
async fn visible_at(stage: &Stage, share: &str, claims_per_s: f64) -> Result<Latency> {
    stage.at_rest().await?;
    let visible = visible::measure(stage, claims_per_s).await?;
    row(&format!("201 to visible, {share} load"), &quantiles(&visible));
    Ok(visible)
}

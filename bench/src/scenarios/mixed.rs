//! `./dev bench mixed`: an ordinary day, in which as many coupons and holds end as are claimed: how late they end, and what that costs
//! the claims. Exit code 1: something failed, or an invariant is broken afterwards.

use std::path::Path;

use crate::{
    claims::hot,
    mixed::{self, CLAIMS_PER_S, Mixed},
    report::{self, Machine, conclude, quantiles, row},
    stage::BareServers,
};
use anyhow::Result;
use clap::Args;
use devstack::Flavor;
use serde::Serialize;

/// Measures how late coupons and holds end in an ordinary load, and the claims beside them.
#[derive(Args)]
pub struct Cli {
    /// The database server.
    #[arg(long, value_enum, default_value_t)]
    flavor: Flavor,
}

/// The figures and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    server: String,
    claims_per_s: f64,
    ends_per_s: f64,
    expired_p50_ms: f64,
    expired_p99_ms: f64,
    expired_max_ms: f64,
    lapsed_p50_ms: f64,
    lapsed_p99_ms: f64,
    lapsed_max_ms: f64,
    claims_p99_alone_ms: f64,
    claims_p99_ms: f64,
    claims_p99_ratio: f64,
}

/// Runs it.
pub async fn run(cli: Cli, json: Option<&Path>) -> Result<()> {
    let servers = BareServers::start_as_installed_of(cli.flavor).await?;
    let machine = report::machine(&servers)?;
    let mut stage = servers.platform().await?;
    // The broker's JVM compiles its code in its first seconds.
    hot::measure(&stage).await?;
    stage.at_rest().await?;
    let Mixed { expired, lapsed, claims, claims_alone, ends_per_s } =
        mixed::measure(&stage).await?;
    row("claims, and ends", &format!("{CLAIMS_PER_S}/s, {ends_per_s:.0}/s on {}", cli.flavor));
    row("coupons expired late by", &quantiles(&expired));
    row("holds lapsed late by", &quantiles(&lapsed));
    row("claims, while none ends", &quantiles(&claims_alone));
    row("claims beside the ends", &quantiles(&claims));
    let [p99_alone, p99] = [&claims_alone, &claims].map(|latency| latency.ms(0.99));
    row("  p99, over p99 alone", &format!("{:.2}", p99 / p99_alone));
    let invariants = stage.verify().await?;
    stage.platform.stop().await?;
    servers.end().await?;

    let figures = Figures {
        machine,
        server: cli.flavor.to_string(),
        claims_per_s: CLAIMS_PER_S,
        ends_per_s,
        expired_p50_ms: expired.ms(0.5),
        expired_p99_ms: expired.ms(0.99),
        expired_max_ms: expired.ms(1.0),
        lapsed_p50_ms: lapsed.ms(0.5),
        lapsed_p99_ms: lapsed.ms(0.99),
        lapsed_max_ms: lapsed.ms(1.0),
        claims_p99_alone_ms: p99_alone,
        claims_p99_ms: p99,
        claims_p99_ratio: p99 / p99_alone,
    };
    conclude(json, &figures, &invariants)
}

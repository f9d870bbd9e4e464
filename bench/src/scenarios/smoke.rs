//! `./dev bench smoke`: the most important figures, in a minute. Exit code 1: something failed, or an invariant is broken
//! afterwards.

use std::path::Path;

use crate::{
    claims::{hot, thin},
    report::{self, Machine, conclude, quantiles, row},
    stage::BareServers,
    tailer_alone, visible,
};
use anyhow::Result;
use runtime::Clock;
use serde::Serialize;

/// The figures and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    thin_per_s: f64,
    landed_per_s: f64,
    landed_over_thin: f64,
    answer_p50_ms: f64,
    answer_p99_ms: f64,
    visible_p50_ms: f64,
    visible_p99_ms: f64,
    tailer_rows_per_s: f64,
}

/// Runs it.
pub async fn run(json: Option<&Path>) -> Result<()> {
    let servers = BareServers::start().await?;
    let machine = report::machine(&servers)?;
    let thin_url = servers.stack.endpoints().url_of_database("thin");
    let thin_per_s = thin::per_second(&thin_url, Clock::system().now()).await?;
    row("thin transactions", &format!("{thin_per_s:.0}/s, one claim each, 64 connections"));

    let mut stage = servers.platform().await?;
    let hot = hot::measure(&stage).await?;
    let ratio = hot.landed_per_s / thin_per_s;
    let landed = format!("{:.0}/s over HTTP, {ratio:.1} × thin", hot.landed_per_s);
    row("claims landed, one template", &landed);
    row("  answered", &quantiles(&hot.run.answered));
    let visible = visible::measure(&stage, hot.landed_per_s / 2.0).await?;
    row("201 to visible, half load", &quantiles(&visible));
    let invariants = stage.verify().await?;
    let tailer_rows_per_s = tailer_alone::rows_per_second(&mut stage).await?;
    row("tailer into Kafka", &format!("{tailer_rows_per_s:.0} rows/s, a backlog of bulk rows"));
    stage.platform.stop().await?;
    servers.end().await?;

    let figures = Figures {
        machine,
        thin_per_s,
        landed_per_s: hot.landed_per_s,
        landed_over_thin: ratio,
        answer_p50_ms: hot.run.answered.ms(0.5),
        answer_p99_ms: hot.run.answered.ms(0.99),
        visible_p50_ms: visible.ms(0.5),
        visible_p99_ms: visible.ms(0.99),
        tailer_rows_per_s,
    };
    conclude(json, &figures, &invariants)
}

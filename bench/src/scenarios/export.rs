//! `./dev bench export`: rows per second of a template's coupons over HTTP, as CSV and as NDJSON, beside the same reads without HTTP in
//! the same run; and the api's memory. Exit code 1: something failed.

use std::path::Path;

use crate::{
    export::{self, ROWS},
    report::{self, Machine, row, write_json},
    stage::{BareServers, Stage},
};
use anyhow::{Context as _, Result};
use serde::Serialize;

/// The figures and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    rows: i64,
    bare_per_s: f64,
    csv_per_s: f64,
    csv_mib: f64,
    csv_over_bare: f64,
    ndjson_per_s: f64,
    ndjson_mib: f64,
    api_peak_before_mib: f64,
    api_peak_mib: f64,
}

/// Runs it.
pub async fn run(json: Option<&Path>) -> Result<()> {
    let servers = BareServers::start().await?;
    let machine = report::machine(&servers)?;
    let mut stage = servers.platform().await?;
    let url = servers.stack.endpoints().database_url;
    let template = export::prepare(&mut stage, &url).await?;
    let bare_per_s = export::bare(&url, template).await?;
    row("the same reads alone", &format!("{bare_per_s:.0} rows/s"));
    let api_peak_before_mib = peak_mib(&stage)?;
    let csv = export::measure(&stage, template, "text/csv").await?;
    let ratio = csv.rows_per_s / bare_per_s;
    let figure = format!("{:.0} rows/s, {:.1} MiB, {ratio:.2} of them", csv.rows_per_s, csv.mib);
    row("exported as CSV", &figure);
    let ndjson = export::measure(&stage, template, "application/x-ndjson").await?;
    let figure = format!("{:.0} rows/s, {:.1} MiB", ndjson.rows_per_s, ndjson.mib);
    row("exported as NDJSON", &figure);
    let api_peak_mib = peak_mib(&stage)?;
    let figure = format!("{api_peak_before_mib:.1} MiB before them, {api_peak_mib:.1} after");
    row("most memory of the api", &figure);
    stage.platform.stop().await?;
    servers.end().await?;

    let figures = Figures {
        machine,
        rows: ROWS,
        bare_per_s,
        csv_per_s: csv.rows_per_s,
        csv_mib: csv.mib,
        csv_over_bare: ratio,
        ndjson_per_s: ndjson.rows_per_s,
        ndjson_mib: ndjson.mib,
        api_peak_before_mib,
        api_peak_mib,
    };
    write_json(json, &figures)
}

fn peak_mib(stage: &Stage) -> Result<f64> {
    let api = stage.platform.apis.first().context("a platform without an api")?;
    api.peak_mib().context("the api does not run")
}

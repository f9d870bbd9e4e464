//! `./dev bench smoke`: the few figures that tell whether something got slow, each beside a baseline
//! of the same run.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};
use bench::{
    landed,
    machine::Machine,
    stage::{Stage, folder},
    tailed, thin,
};
use clap::Parser;
use serde_json::json;

/// Claims of the hot run: seconds of load.
const CLAIMS: i64 = 40_000;

/// Requests under way in the hot run: what fills a lander's batches on two cores.
const CONNECTIONS: usize = 256;

/// Claims and connections of the quiet run, in which winners watch their list.
const QUIET_CLAIMS: i64 = 2_000;
const QUIET_CONNECTIONS: usize = 2;
const WATCH_EVERY: usize = 10;

#[derive(Parser)]
#[command(about = "Claims landed, rows tailed, coupons seen: beside baselines, in one run")]
struct Flags {
    /// Write the figures to this file too.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    let machine = Machine::probe(&folder())?;
    println!("machine            {} cores, {}", machine.cores, machine.processor);
    println!(
        "fsync              p50 {:.2} ms, p99 {:.2} ms",
        machine.fsync_p50_ms, machine.fsync_p99_ms
    );
    println!("… starting servers and processes");
    let mut stage = Stage::start().await?;
    let endpoints = stage.servers.endpoints();
    println!("… one transaction per claim, at the database alone, 64 connections");
    let thin_url = endpoints.url_of_database("bench_thin");
    let thin = thin::landed_per_s(&thin_url, stage.clock.now()).await?;
    println!("thin               {thin:.0} claims/s");

    println!("… {CLAIMS} claims on one hot template over HTTP, {CONNECTIONS} connections");
    let hot = landed::claims(&stage, CLAIMS, CONNECTIONS, 0).await?;
    let landed = CLAIMS as f64 / hot.elapsed.as_secs_f64();
    let (p50, p99, p999) = (hot.answered.ms(0.5), hot.answered.ms(0.99), hot.answered.ms(0.999));
    println!("landed             {landed:.0} claims/s, {:.1} × thin (goal 3)", landed / thin);
    println!("claim              p50 {p50:.1} ms, p99 {p99:.1} ms, p99.9 {p999:.1} ms");

    println!(
        "… {QUIET_CLAIMS} claims, {QUIET_CONNECTIONS} connections, one winner in {WATCH_EVERY} watching"
    );
    let quiet = landed::claims(&stage, QUIET_CLAIMS, QUIET_CONNECTIONS, WATCH_EVERY).await?;
    let seen = (quiet.visible.ms(0.5), quiet.visible.ms(0.99), quiet.visible.ms(0.999));
    println!(
        "commit → visible   p50 {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms",
        seen.0, seen.1, seen.2
    );

    println!("… rows from the binlog into Kafka, in bulk");
    let rows = tailed::rows_per_s(&mut stage).await?;
    println!("tailer             {rows:.0} rows/s");
    stage.end().await?;

    let figures = json!({
        "machine": machine,
        "thin_per_s": thin,
        "landed_per_s": landed,
        "landed_over_thin": landed / thin,
        "claim_p50_ms": p50, "claim_p99_ms": p99, "claim_p999_ms": p999,
        "visible_p50_ms": seen.0, "visible_p99_ms": seen.1, "visible_p999_ms": seen.2,
        "tailer_rows_per_s": rows,
    });
    if let Some(path) = flags.json {
        let text = serde_json::to_string_pretty(&figures)?;
        fs::write(&path, text).with_context(|| format!("{}", path.display()))?;
    }
    Ok(())
}

//! Output of every bench: the machine, then a row per figure, and the same figures as JSON.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]
#![expect(clippy::print_stderr, reason = "and fails on standard error")]

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use shopper::Latency;
use verifier::Report;

use crate::{machine::hardware::Hardware, stage::BareServers};

/// The machine, as it appears in the JSON.
#[derive(Debug, Serialize)]
pub struct Machine {
    cores: usize,
    cpu: String,
    fsync_p50_ms: f64,
    fsync_p99_ms: f64,
}

/// Probes the machine and the disk of the servers, and prints the results.
///
/// # Errors
/// The probe's file cannot be written.
pub fn machine(servers: &BareServers) -> Result<Machine> {
    let Hardware { cores, cpu, fsync } = Hardware::probe(servers.stack.dir())?;
    println!("{cores} cores of {cpu}");
    row("4 KiB made durable", &quantiles(&fsync));
    Ok(Machine { cores, cpu, fsync_p50_ms: fsync.ms(0.5), fsync_p99_ms: fsync.ms(0.99) })
}

/// Prints one figure.
pub fn row(name: &str, figure: &str) {
    println!("  {name:<28} {figure}");
}

/// Formats count, median, 99th and 99.9th percentile.
pub fn quantiles(latency: &Latency) -> String {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|quantile| latency.ms(quantile));
    format!("p50 {p50:.2}, p99 {p99:.2}, p99.9 {p999:.2} ms ({} times)", latency.count())
}

/// Writes the figures to `file`, if given.
pub fn write_json(file: Option<&Path>, figures: &impl Serialize) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let json = serde_json::to_string_pretty(figures)? + "\n";
    fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))
}

/// Prints the invariants and writes the figures to `file`, if given.
///
/// # Errors
/// An invariant is broken, or the file cannot be written.
pub fn conclude(file: Option<&Path>, figures: &impl Serialize, invariants: &Report) -> Result<()> {
    println!("\n{invariants}");
    write_json(file, figures)?;
    ensure!(invariants.holds(), "an invariant is broken");
    Ok(())
}

/// Ends the bench `name`: prints its error, if it has one.
pub fn exit_code(name: &str, done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

//! Explores the protocols in the larger bounds of a soak, and prints a table. Exit code 0: every promise
//! holds; 1: one is broken, or a search was too large to be finished.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]

use std::{process::ExitCode, time::Instant};

use clap::{Parser, ValueEnum};
use model::{
    claim::{Protocol, configurations},
    search::{End, Model, explore},
    view::{self, View},
};

/// States, in GiB, that one search may hold by default: what a machine for development has to spare.
const MEMORY_GIB: usize = 8;

/// A depth is worth a line once it has this many states.
const PROGRESS_STATES: usize = 1_000_000;

/// Visits every state of the claim protocol and of the view within bounds.
#[derive(Parser)]
struct Cli {
    /// Which bounds.
    #[arg(value_enum, default_value_t = Size::Large)]
    size: Size,
    /// Only configurations whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Memory that the states of one search may take; it is given up beyond.
    #[arg(long, value_name = "GIB", default_value_t = MEMORY_GIB)]
    memory_gib: usize,
}

/// The bounds.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Size {
    /// Those of every test run.
    Small,
    /// Those of a soak.
    Large,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (claims, views) = match cli.size {
        Size::Small => (configurations::SMALL, view::SMALL),
        Size::Large => (configurations::LARGE, view::LARGE),
    };
    let mut table = Vec::new();
    for (name, bounds) in claims.iter().filter(|(name, _)| name.contains(&cli.only)) {
        let limits = format!("{}/{}", bounds.limit, bounds.total);
        table.push(row(&format!("{name} [{limits}]"), &Protocol::new(*bounds), cli.memory_gib));
    }
    for (name, bounds) in views.iter().filter(|(name, _)| name.contains(&cli.only)) {
        table.push(row(&format!("view: {name}"), &View::new(*bounds), cli.memory_gib));
    }
    println!("\n| configuration [limit/total] | states | steps | depth | MB | s | |");
    println!("|---|---|---|---|---|---|---|");
    for (line, _) in &table {
        println!("{line}");
    }
    if table.iter().all(|(_, holds)| *holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Explores, and answers its line of the table and whether every promise holds.
fn row<M: Model>(name: &str, model: &M, memory_gib: usize) -> (String, bool) {
    println!("── {name}");
    let started = Instant::now();
    let mut printed = 0;
    let explored = explore(model, memory_gib << 30, |states, new| {
        if states >= printed + PROGRESS_STATES {
            printed = states;
            println!("   {states} states, {new} to go on from, {} s", started.elapsed().as_secs());
        }
    });
    let (word, holds) = match &explored.end {
        End::Holds => ("holds", true),
        End::TooLarge => ("too large", false),
        End::Broken { promise, trace } => {
            println!("broken: {promise}\n{trace}");
            ("BROKEN", false)
        }
    };
    let seconds = started.elapsed().as_secs_f64();
    let (states, steps) = (explored.states, explored.steps);
    let (depth, megabytes) = (explored.depth, explored.bytes >> 20);
    println!("   {word}: {states} states in {seconds:.1} s");
    let line =
        format!("| {name} | {states} | {steps} | {depth} | {megabytes} | {seconds:.1} | {word} |");
    (line, holds)
}

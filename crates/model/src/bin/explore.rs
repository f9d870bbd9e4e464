//! Explores the protocols within the larger bounds of a soak, and prints a table. Exit code 0: every promise holds.
//! Exit code 1: one is broken, or a search was too large to finish.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]

use std::{process::ExitCode, time::Instant};

use clap::{Parser, ValueEnum};
use model::{
    claim::{Protocol, settings},
    reconcile::{self, Reconcile},
    search::{End, Model, explore},
    view::{self, View},
    worker::{self, Worker},
};

/// Default memory limit of one search, in GiB: what a development machine can spare.
const MEMORY_GIB: usize = 8;

/// Progress is printed after each depth that adds this many states.
const PROGRESS_STATES: usize = 1_000_000;

/// Visits every state of the claim protocol, of the view, of the reconciler and of worker numbers within bounds.
#[derive(Parser)]
struct Cli {
    /// Which set of bounds to explore.
    #[arg(value_enum, default_value_t = Size::Large)]
    size: Size,
    /// Explore only configurations whose name contains this text.
    #[arg(long, default_value = "")]
    only: String,
    /// Memory limit for the states of one search; a search beyond it is given up.
    #[arg(long, value_name = "GIB", default_value_t = MEMORY_GIB)]
    memory_gib: usize,
}

/// Sets of bounds.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Size {
    /// The small bounds of every test run.
    Small,
    /// The large bounds of a soak.
    Large,
}

impl Size {
    fn of<T>(self, small: T, large: T) -> T {
        match self {
            Self::Small => small,
            Self::Large => large,
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut table = Vec::new();
    for (subject, small, large) in settings::ALL {
        let configurations = cli.size.of(small, large);
        for (name, bounds) in *configurations {
            let name = format!("{subject}{name}");
            if name.contains(&cli.only) {
                let limits = format!("{}/{}", bounds.limit, bounds.total);
                let model = Protocol::new(*bounds);
                table.push(row(&format!("{name} [{limits}]"), &model, cli.memory_gib));
            }
        }
    }
    let views = cli.size.of(view::SMALL, view::LARGE);
    let workers = cli.size.of(worker::SMALL, worker::LARGE);
    for (name, bounds) in views.iter().filter(|(name, _)| name.contains(&cli.only)) {
        table.push(row(&format!("view: {name}"), &View::new(*bounds), cli.memory_gib));
    }
    for (name, bounds) in cli.size.of(reconcile::SMALL, reconcile::LARGE) {
        let name = format!("reconcile: {name}");
        if name.contains(&cli.only) {
            table.push(row(&name, &Reconcile::new(*bounds), cli.memory_gib));
        }
    }
    for (name, bounds) in workers {
        let name = format!("worker: {name}");
        if name.contains(&cli.only) {
            table.push(row(&name, &Worker::new(*bounds), cli.memory_gib));
        }
    }
    println!("\n| configuration [limit/total] | states | steps | depth | MB | s | |");
    println!("|---|---|---|---|---|---|---|");
    for (line, _) in &table {
        println!("{line}");
    }
    if table.iter().all(|(_, holds)| *holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Explores `model`. Returns its table row and whether every promise holds.
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
    let states = explored.states;
    let steps = explored.steps;
    let depth = explored.depth;
    let megabytes = explored.bytes >> 20;
    println!("   {word}: {states} states in {seconds:.1} s");
    let line =
        format!("| {name} | {states} | {steps} | {depth} | {megabytes} | {seconds:.1} | {word} |");
    (line, holds)
}

//! Explores the protocols within the larger bounds of a soak, and prints a table. Exit code 0: every promise holds.
//! Exit code 1: one is broken, or a search was too large to finish.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]

use std::{process::ExitCode, time::Instant};

use clap::{Parser, ValueEnum};
use model::{
    claim::{Protocol, configurations},
    holds, queued,
    search::{End, Model, explore},
    sold_out::{self, SoldOut},
    view::{self, View},
    worker::{self, Worker},
};

/// Default memory limit of one search, in GiB: what a development machine can spare.
const MEMORY_GIB: usize = 8;

/// Progress is printed after each depth that adds this many states.
const PROGRESS_STATES: usize = 1_000_000;

/// Visits every state of the claim protocol, of queued claims, of holds, of refusals from memory, of the view and of worker
/// numbers within bounds.
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

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (claims, queues, views) = match cli.size {
        Size::Small => (configurations::SMALL, queued::configurations::SMALL, view::SMALL),
        Size::Large => (configurations::LARGE, queued::configurations::LARGE, view::LARGE),
    };
    let held = match cli.size {
        Size::Small => holds::configurations::SMALL,
        Size::Large => holds::configurations::LARGE,
    };
    let sold_outs = match cli.size {
        Size::Small => sold_out::SMALL,
        Size::Large => sold_out::LARGE,
    };
    let workers = match cli.size {
        Size::Small => worker::SMALL,
        Size::Large => worker::LARGE,
    };
    let mut table = Vec::new();
    for (name, bounds) in claims.iter().filter(|(name, _)| name.contains(&cli.only)) {
        let limits = format!("{}/{}", bounds.limit, bounds.total);
        table.push(row(&format!("{name} [{limits}]"), &Protocol::new(*bounds), cli.memory_gib));
    }
    for (name, bounds) in queues {
        let name = format!("queued: {name} [{}/{}]", bounds.limit, bounds.total);
        if name.contains(&cli.only) {
            table.push(row(&name, &queued::Protocol::new(*bounds), cli.memory_gib));
        }
    }
    for (name, bounds) in held {
        let name = format!("holds: {name} [{}/{}]", bounds.limit, bounds.total);
        if name.contains(&cli.only) {
            table.push(row(&name, &holds::Protocol::new(*bounds), cli.memory_gib));
        }
    }
    for (name, bounds) in sold_outs.iter().filter(|(name, _)| name.contains(&cli.only)) {
        table.push(row(&format!("sold out: {name}"), &SoldOut::new(*bounds), cli.memory_gib));
    }
    for (name, bounds) in views.iter().filter(|(name, _)| name.contains(&cli.only)) {
        table.push(row(&format!("view: {name}"), &View::new(*bounds), cli.memory_gib));
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

//! `./dev bench curves`: draws the newest run in a results file. Exit code 1: there is none, or a file cannot be read or written.

use std::{fs, path::PathBuf};

use crate::{
    curves::{Run, answers, rates},
    report::row,
};
use anyhow::{Context as _, Result};
use clap::Args;
use devstack::project_root;

/// Draws what `./dev bench claims` measured: answers at shares of the capacity, and rates.
#[derive(Args)]
pub struct Cli {
    /// The results file, or one that `./dev bench claims --json` wrote.
    #[arg(long, value_name = "FILE", default_value_os_t = project_root().join("bench/results/claim_cost.json"))]
    from: PathBuf,
    /// The folder of the pictures.
    #[arg(long, value_name = "FOLDER", default_value_os_t = project_root().join("docs"))]
    to: PathBuf,
}

/// Draws.
pub fn run(cli: &Cli) -> Result<()> {
    let from = cli.from.display();
    let json = fs::read_to_string(&cli.from).with_context(|| format!("cannot read {from}"))?;
    let run = Run::newest(&json).with_context(|| format!("cannot draw {from}"))?;
    let pictures = [
        ("answers", "claims-latency.svg", Some(answers(&run)?)),
        ("rates", "claims-throughput.svg", rates(&run)?),
    ];
    for (name, file, svg) in pictures {
        let Some(svg) = svg else { continue };
        let file = cli.to.join(file);
        fs::write(&file, svg).with_context(|| format!("cannot write {}", file.display()))?;
        row(name, &file.display().to_string());
    }
    Ok(())
}

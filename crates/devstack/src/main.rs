//! `devstack`: starts and ends private servers and platforms that outlive the command.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use devstack::{EnvFile, Options, Servers, Tie, records};

/// Private servers and platforms of this project.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Only the servers: MariaDB, Redis (gate), Redis (view), Kafka.
    #[command(subcommand)]
    Servers(ServersVerb),
}

#[derive(Subcommand)]
enum ServersVerb {
    /// Starts them and writes their addresses to DIR/env.
    Up {
        /// Folder of data, logs and records.
        #[arg(long, default_value = ".dev/test")]
        dir: PathBuf,
        /// Begins with empty servers, whatever was there.
        #[arg(long)]
        fresh: bool,
    },
    /// Ends them; their data stays.
    Down {
        /// Folder of data, logs and records.
        #[arg(long, default_value = ".dev/test")]
        dir: PathBuf,
        /// Removes the folder too.
        #[arg(long)]
        wipe: bool,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    match Cli::parse().verb {
        Verb::Servers(ServersVerb::Up { dir, fresh }) => servers_up(&dir, fresh).await,
        Verb::Servers(ServersVerb::Down { dir, wipe }) => servers_down(&dir, wipe).await,
    }
}

async fn servers_up(dir: &Path, fresh: bool) -> Result<()> {
    records::end_all(dir).await?;
    if fresh && dir.exists() {
        std::fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))?;
    }
    let options = Options { tie: Tie::Detached, ..Options::default() };
    let mut servers = Servers::start(dir, &options).await?;
    let mut env = EnvFile::new(dir.join("env"));
    env.set_endpoints(&servers.endpoints());
    env.write()?;
    servers.let_go();
    println!("servers run; their addresses are in {}", env.path().display());
    Ok(())
}

async fn servers_down(dir: &Path, wipe: bool) -> Result<()> {
    let ended = records::end_all(dir).await?;
    println!(
        "ended: {}",
        if ended.is_empty() { "nothing ran".to_owned() } else { ended.join(", ") }
    );
    if wipe && dir.exists() {
        std::fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))?;
    }
    Ok(())
}

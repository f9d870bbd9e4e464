//! `devstack`: starts and stops private servers and platforms that outlive the command. `./dev` calls it.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]
#![expect(clippy::print_stderr, reason = "and fails on standard error")]

mod failover;
mod servers;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use devstack::{EnvFile, Flavor, Replication, token};

/// `up` writes the addresses and keys here, and `token` reads them.
const ENV_FILE: &str = ".dev/env";

/// Manages private servers and platforms of this project.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Starts servers and the six processes, and leaves them running.
    Up {
        /// Folder of data, logs and records.
        #[arg(long, default_value = ".dev/stack")]
        dir: PathBuf,
        /// File to write addresses and keys to.
        #[arg(long, default_value = ENV_FILE)]
        env_file: PathBuf,
        /// Database server to run; by default the one that the data in the folder belongs to, or else MariaDB.
        #[arg(long, value_enum)]
        flavor: Option<Flavor>,
        /// Gives the database server a replica, for `devstack failover`; a stack that has one keeps it.
        #[arg(long, value_enum, value_name = "KIND")]
        #[arg(num_args = 0..=1, default_missing_value = "semi-sync")]
        replica: Option<Replication>,
        /// Also holds a small sale every two minutes, until `devstack down`, so that the console moves.
        #[arg(long)]
        rehearse: bool,
    },
    /// Kills the database server, and lets its replica take over at the same address.
    Failover {
        /// Folder of data, logs and records.
        #[arg(long, default_value = ".dev/stack")]
        dir: PathBuf,
        /// File with addresses and keys.
        #[arg(long, default_value = ENV_FILE)]
        env_file: PathBuf,
    },
    /// Stops servers and processes; keeps their data.
    Down {
        /// Folder of data, logs and records.
        #[arg(long, default_value = ".dev/stack")]
        dir: PathBuf,
        /// File with addresses and keys; it is removed.
        #[arg(long, default_value = ENV_FILE)]
        env_file: PathBuf,
        /// Removes the data too.
        #[arg(long)]
        wipe: bool,
    },
    /// Manages the servers alone: MariaDB or MySQL, Redis (gate), Redis (view), Kafka.
    #[command(subcommand)]
    Servers(ServersVerb),
    /// Prints a user's token for the running stack.
    Token(TokenArgs),
}

#[derive(Subcommand)]
enum ServersVerb {
    /// Starts the servers, writes their addresses to DIR/env and leaves them running.
    Up {
        /// Folder of data, logs and records.
        #[arg(long, default_value = ".dev/test")]
        dir: PathBuf,
        /// Removes existing data first.
        #[arg(long)]
        fresh: bool,
        /// Database server to run.
        #[arg(long, value_enum, default_value_t)]
        flavor: Flavor,
        /// For all tests: runs a MySQL besides, if it is installed, and makes Kafka start faster from then on.
        #[arg(long)]
        for_all_tests: bool,
    },
    /// Starts the servers, prints their process ids, and stops them when this command ends.
    Run {
        /// Folder of data, logs and records.
        #[arg(long)]
        dir: PathBuf,
    },
    /// Stops servers that were left running; keeps their data.
    Down {
        /// Folder of data, logs and records.
        #[arg(long, default_value = ".dev/test")]
        dir: PathBuf,
        /// Removes the data too.
        #[arg(long)]
        wipe: bool,
    },
}

#[derive(Args)]
struct TokenArgs {
    /// The user's id: a positive number.
    #[arg(value_parser = clap::value_parser!(i64).range(1..))]
    user_id: i64,
    /// How long the token is valid, in seconds.
    #[arg(long, default_value_t = 86_400, value_parser = clap::value_parser!(i64).range(1..))]
    ttl_seconds: i64,
    /// File with the signing secret.
    #[arg(long, default_value = ENV_FILE)]
    env_file: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Cli::parse().verb).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("devstack: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(verb: Verb) -> Result<()> {
    match verb {
        Verb::Up { dir, env_file, flavor, replica, rehearse } => {
            up::up(&dir, &env_file, up::Wanted { flavor, replica, rehearse }).await
        }
        Verb::Failover { dir, env_file } => failover::failover(&dir, &env_file).await,
        Verb::Down { dir, env_file, wipe } => up::down(&dir, &env_file, wipe).await,
        Verb::Servers(ServersVerb::Up { dir, fresh, flavor, for_all_tests }) => {
            servers::up(&dir, fresh, flavor, for_all_tests).await
        }
        Verb::Servers(ServersVerb::Run { dir }) => servers::run(&dir).await,
        Verb::Servers(ServersVerb::Down { dir, wipe }) => servers::down(&dir, wipe).await,
        Verb::Token(arguments) => print_token(&arguments),
    }
}

fn print_token(arguments: &TokenArgs) -> Result<()> {
    let file = EnvFile::read(&arguments.env_file)
        .map_err(|error| anyhow::Error::new(error).context("no stack runs: `./dev up` first"))?;
    let now_s = runtime::Clock::system().now().timestamp();
    let secret = file.get("JWT_SECRET")?;
    println!("{}", token::sign(secret, arguments.user_id, now_s, arguments.ttl_seconds)?);
    Ok(())
}

//! `devstack`: starts and ends private servers and platforms that outlive the command. `./dev` calls it.
#![expect(clippy::print_stdout, reason = "a command answers on standard output")]
#![expect(clippy::print_stderr, reason = "and fails on standard error")]

mod servers;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use devstack::{EnvFile, Flavor, token};

/// Where `up` writes the addresses and keys, and `token` reads them.
const ENV_FILE: &str = ".dev/env";

/// Private servers and platforms of this project.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Starts servers and the four processes, and leaves them running.
    Up {
        /// Folder of data, logs and records.
        #[arg(long, default_value = ".dev/stack")]
        dir: PathBuf,
        /// File that gets addresses and keys.
        #[arg(long, default_value = ENV_FILE)]
        env_file: PathBuf,
        /// Which server is the truth; absent: whose data there is, else MariaDB.
        #[arg(long, value_enum)]
        flavor: Option<Flavor>,
    },
    /// Ends them; their data stays.
    Down {
        /// Folder of data, logs and records.
        #[arg(long, default_value = ".dev/stack")]
        dir: PathBuf,
        /// File that had addresses and keys.
        #[arg(long, default_value = ENV_FILE)]
        env_file: PathBuf,
        /// Removes the data too.
        #[arg(long)]
        wipe: bool,
    },
    /// Only the servers: MariaDB or MySQL, Redis (gate), Redis (view), Kafka.
    #[command(subcommand)]
    Servers(ServersVerb),
    /// Prints a user's token for the running stack.
    Token(TokenArgs),
}

#[derive(Subcommand)]
enum ServersVerb {
    /// Starts them, writes their addresses to DIR/env and leaves them running.
    Up {
        /// Folder of data, logs and records.
        #[arg(long, default_value = ".dev/test")]
        dir: PathBuf,
        /// Begins with empty servers, whatever was there.
        #[arg(long)]
        fresh: bool,
        /// Which server is the truth.
        #[arg(long, value_enum, default_value_t)]
        flavor: Flavor,
    },
    /// Starts them, prints their process ids and ends them with this command.
    Run {
        /// Folder of data, logs and records.
        #[arg(long)]
        dir: PathBuf,
    },
    /// Ends those that were left running; their data stays.
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
    /// The user: a positive number.
    #[arg(value_parser = clap::value_parser!(i64).range(1..))]
    user_id: i64,
    /// How long it is good.
    #[arg(long, default_value_t = 86_400, value_parser = clap::value_parser!(i64).range(1..))]
    ttl_seconds: i64,
    /// File with the secret that signs.
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
        Verb::Up { dir, env_file, flavor } => up::up(&dir, &env_file, flavor).await,
        Verb::Down { dir, env_file, wipe } => up::down(&dir, &env_file, wipe).await,
        Verb::Servers(ServersVerb::Up { dir, fresh, flavor }) => {
            servers::up(&dir, fresh, flavor).await
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

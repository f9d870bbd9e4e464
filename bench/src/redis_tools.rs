//! `redis-cli` and `redis-benchmark`, which Debian's redis-tools has.

use std::{net::SocketAddr, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

/// Concurrency of redis-benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub requests: u32,
    pub connections: u32,
    /// Requests that a connection sends before it waits for their answers.
    pub pipelined: u32,
}

/// Number of different values of `__rand_int__`. It is the largest that redis-benchmark takes, so that hardly any user
/// comes twice.
const RANDOM: &str = "2147483647";

/// Field of redis-benchmark's CSV line with the requests per second, counted from the end: the first field is the
/// command itself.
const RPS_FROM_END: usize = 6;

/// Sends one command, and returns its answer.
///
/// # Errors
/// redis-cli is not installed, or the answer is an error.
pub async fn ask(server: SocketAddr, command: &[&str]) -> Result<String> {
    let mut cli = of("redis-cli", server);
    // With -e, redis-cli fails on an error.
    answer(cli.arg("-e").args(command)).await
}

/// Sends a command repeatedly, with new numbers for its `__rand_int__`, and returns how many are answered per second.
///
/// # Errors
/// redis-benchmark is not installed, or an answer is an error.
pub async fn per_second(server: SocketAddr, load: Load, command: &[&str]) -> Result<f64> {
    let Load { requests, connections, pipelined } = load;
    let mut benchmark = of("redis-benchmark", server);
    benchmark.args(["--csv", "-r", RANDOM, "-n", &requests.to_string()]);
    benchmark.args(["-c", &connections.to_string(), "-P", &pipelined.to_string()]);
    let csv = answer(benchmark.args(command)).await?;
    rps(&csv).with_context(|| format!("redis-benchmark printed {csv}"))
}

fn of(program: &str, server: SocketAddr) -> Command {
    let mut command = Command::new(program);
    command.args(["-h", &server.ip().to_string(), "-p", &server.port().to_string()]);
    command
}

async fn answer(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().await.context("is redis-tools installed?")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", errors.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

fn rps(csv: &str) -> Option<f64> {
    csv.lines().last()?.rsplit("\",\"").nth(RPS_FROM_END)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_behind_a_command_with_any_characters() {
        let line = r#""EVALSHA ea11 1 k{1:0} x",""7","249999.98","0.231","0.048","0.167","0.2","2.7","2.7""#;
        assert_eq!(rps(&format!("\"test\",\"rps\"\n{line}\n")), Some(249_999.98));
    }
}

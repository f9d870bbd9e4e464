//! `devstack servers …`: the servers alone, for tests and manual experiments.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use devstack::{
    EnvFile, Flavor, Options, Servers, Survives, TestServers, Tie, archive_kafka_classes,
    mysql_beside, records,
};
use tokio::signal::unix::{SignalKind, signal};

/// Starts the servers detached, unless they already run.
pub(crate) async fn up(dir: &Path, fresh: bool, flavor: Flavor, for_all_tests: bool) -> Result<()> {
    let env_file = dir.join("env");
    let running = records::running(dir)?;
    let runs = |flavor: Flavor| running.iter().any(|name| name == flavor.name());
    let whole = running.len() >= records::SERVERS
        && runs(flavor)
        && (!for_all_tests || runs(Flavor::Mysql));
    if whole && !fresh && env_file.exists() {
        println!("servers run already; their addresses are in {}", env_file.display());
        return Ok(());
    }
    records::end_all(dir).await?;
    if fresh {
        wipe_folder(dir)?;
    }
    if for_all_tests {
        archive_kafka_classes()?;
    }
    let survives = Survives::Kill;
    let options = Options { tie: Tie::Detached, flavor, survives, ..Options::default() };
    let mut servers = Servers::start(dir, &options).await?;
    let mut env = EnvFile::new(env_file);
    env.set_endpoints(&servers.endpoints());
    if for_all_tests && flavor == Flavor::Mariadb {
        match mysql_beside(dir).await {
            Ok(url) => env.set(TestServers::MYSQL_URL, &url),
            Err(error) => println!("  without MySQL: {error}"),
        }
    }
    env.write()?;
    servers.let_go();
    println!("servers run; their addresses are in {}", env.path().display());
    Ok(())
}

/// Starts the servers tied to this command and stops them on SIGTERM or Ctrl-C.
pub(crate) async fn run(dir: &Path) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut servers = Servers::start(dir, &Options::default()).await?;
    let pids = [&servers.database, &servers.gate, &servers.view, &servers.kafka]
        .map(|server| format!("{}={}", server.name(), server.pid().unwrap_or_default()));
    println!("{}", pids.join(" "));
    tokio::select! {
        _ = terminate.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    Ok(servers.stop().await?)
}

/// Stops servers that were left running.
pub(crate) async fn down(dir: &Path, wipe: bool) -> Result<()> {
    let ended = records::end_all(dir).await?;
    println!("{}", ended_line(&ended));
    if wipe { wipe_folder(dir) } else { Ok(()) }
}

pub(crate) fn ended_line(ended: &[String]) -> String {
    if ended.is_empty() { "nothing ran".to_owned() } else { format!("ended {}", ended.join(", ")) }
}

/// Removes a stack's folder with its data.
pub(crate) fn wipe_folder(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("could not remove {}", dir.display()))?;
    }
    Ok(())
}

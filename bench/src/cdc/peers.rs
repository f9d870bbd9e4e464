//! Fetches the peers, and describes where contenders run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, anyhow};
use devstack::{Endpoints, project_root};
use reqwest::Url;

/// A contender's access to the servers, and its own folder.
#[derive(Debug, Clone)]
pub struct ServerAccess {
    /// MariaDB's host.
    pub host: String,
    /// MariaDB's port.
    pub port: u16,
    /// MariaDB's user.
    pub user: String,
    pub password: String,
    /// The followed database.
    pub database: String,
    /// Kafka's addresses.
    pub brokers: String,
    /// Its working folder, which gets its log and its position.
    pub folder: PathBuf,
    /// The template of Debezium's settings.
    pub debezium_properties: PathBuf,
    /// A port for a peer's status page, which cannot be disabled.
    pub http_port: u16,
}

impl ServerAccess {
    /// Creates the folder `name` under `folder`.
    ///
    /// # Errors
    /// The URL is invalid, no port is free, or the folder cannot be created.
    pub fn new(endpoints: &Endpoints, folder: &Path, name: &str) -> Result<Self> {
        let url = Url::parse(&endpoints.database_url)?;
        let folder = folder.join(name);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self {
            host: url.host_str().context("a URL without a host")?.to_owned(),
            port: url.port().context("a URL without a port")?,
            user: url.username().to_owned(),
            password: url.password().unwrap_or_default().to_owned(),
            database: endpoints.database().to_owned(),
            brokers: endpoints.kafka_brokers.clone(),
            folder,
            debezium_properties: script("debezium/application.properties"),
            http_port: free_port()?,
        })
    }
}

/// Builds the hand-written tailer and returns its binary.
///
/// # Errors
/// The reason why it is not available, in a sentence.
pub fn fetch_go_mysql() -> Result<PathBuf> {
    let lines = fetch("go-mysql.sh")?;
    lines.into_iter().next().context("go-mysql.sh names no binary")
}

/// Builds the hand-written tailer in Rust and returns its binary.
///
/// # Errors
/// The reason why it is not available, in a sentence.
pub fn fetch_rust_connector() -> Result<PathBuf> {
    let lines = fetch("rust-connector.sh")?;
    lines.into_iter().next().context("rust-connector.sh names no binary")
}

/// Fetches Debezium Server. Returns a Java binary to run it, and its folder.
///
/// # Errors
/// The reason why it is not available, in a sentence.
pub fn fetch_debezium() -> Result<(PathBuf, PathBuf)> {
    let mut lines = fetch("debezium.sh")?.into_iter();
    lines.next().zip(lines.next()).context("debezium.sh names no java and folder")
}

/// Runs a script of `bench/peers` and returns the paths that it prints; the error is its last line.
fn fetch(name: &str) -> Result<Vec<PathBuf>> {
    let script = script(name);
    let output = Command::new(&script)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    if output.status.success() {
        let printed = String::from_utf8(output.stdout)?;
        return Ok(printed.lines().map(PathBuf::from).collect());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(anyhow!("{}", said.lines().last().unwrap_or("it failed without a word")))
}

fn script(name: &str) -> PathBuf {
    project_root().join("bench/peers").join(name)
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}

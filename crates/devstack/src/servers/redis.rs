//! The two Redis servers: the gate keeps its data, the view may lose any of it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::process::child::LOOK_EVERY;
use crate::process::probe::Probe;
use crate::process::{Process, tail};
use crate::{Error, Options, Result, Tie, paths, process::ports};

/// Memory limit of each: far above the needs of demo and tests, far below a small machine's memory.
const MAX_MEMORY: &str = "256mb";

/// The gate refuses writes when full, and appends each write to a file that is synced every second.
const GATE: &[&str] =
    &["--maxmemory-policy", "noeviction", "--appendonly", "yes", "--appendfsync", "everysec"];
/// The view is a cache of the database.
const VIEW: &[&str] = &["--maxmemory-policy", "allkeys-lru", "--appendonly", "no"];

/// Longest wait for a replica's first copy of an empty master, or for nodes to discover each other.
const FOUND_WITHIN: Duration = Duration::from_secs(60);

/// Prepares the gate of the stack in `dir`.
pub(crate) fn prepare_gate(dir: &Path, options: &Options) -> Result<Process> {
    prepare("redis-gate", GATE, dir, options)
}

/// Prepares the view of the stack in `dir`.
pub(crate) fn prepare_view(dir: &Path, options: &Options) -> Result<Process> {
    prepare("redis-view", VIEW, dir, options)
}

/// Prepares a server configured by a file; only its port and folder are set by us.
pub(crate) fn prepare_by_file(name: &str, file: &Path, dir: &Path) -> Result<Process> {
    let program = paths::program("redis-server")?;
    let home = dir.join(name);
    fs::create_dir_all(&home).map_err(Error::file("create", &home))?;
    let port = ports::free()?;
    let file = file.display().to_string();
    let home = home.display().to_string();
    let number = port.to_string();
    let arguments = [&file, "--port", &number, "--dir", &home].map(str::to_owned);
    let process = Process::new(name, program, dir, port, Probe::Redis, Tie::Owner);
    Ok(process.arguments(arguments))
}

/// Waits until a server's replication and cluster information satisfies `is_wanted`.
pub(crate) async fn until(server: &Process, is_wanted: impl Fn(&str) -> bool) -> Result<()> {
    let deadline = Instant::now() + FOUND_WITHIN;
    loop {
        let said = match said_by(server.address(), "INFO replication\r\nCLUSTER INFO").await {
            Ok(said) if is_wanted(&said) => return Ok(()),
            Ok(said) => format!("it answers {said:?}"),
            Err(error) => format!("it does not answer ({error})"),
        };
        if Instant::now() >= deadline {
            return Err(Error::NotReady {
                name: "a Redis among others".to_owned(),
                seconds: FOUND_WITHIN.as_secs(),
                said: said.into(),
                way_out: String::new(),
                tail: tail(&server.log()),
                log: server.log(),
            });
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Returns a node's id in its cluster.
pub(crate) async fn node_id(node: SocketAddr) -> Result<String> {
    let said = said_by(node, "CLUSTER MYID").await.map_err(Error::file("ask", node.to_string()))?;
    // The first line is the length.
    Ok(said.lines().nth(1).unwrap_or_default().to_owned())
}

/// Runs one command, given as a line, and returns its answer as Redis writes it.
pub(crate) async fn command(server: SocketAddr, line: &str) -> Result<String> {
    let asked = said_by(server, line).await.and_then(|said| match said.strip_prefix('-') {
        Some(refusal) => Err(io::Error::other(refusal.lines().next().unwrap_or_default())),
        // The answer to QUIT comes last.
        None => Ok(said.trim_end().trim_end_matches("+OK").to_owned()),
    });
    asked.map_err(Error::file("ask", server.to_string()))
}

async fn said_by(server: SocketAddr, commands: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(format!("{commands}\r\nQUIT\r\n").as_bytes()).await?;
    let mut said = String::new();
    stream.read_to_string(&mut said).await?;
    Ok(said)
}

fn prepare(name: &str, settings: &[&str], dir: &Path, options: &Options) -> Result<Process> {
    let program = paths::program("redis-server")?;
    let home = dir.join(name);
    fs::create_dir_all(&home).map_err(Error::file("create", &home))?;
    let port = ports::remembered(&home.join("port"))?;
    let arguments = ["--bind", "127.0.0.1", "--save", "", "--maxmemory", MAX_MEMORY, "--dir"]
        .into_iter()
        .map(str::to_owned)
        .chain([home.display().to_string(), "--port".to_owned(), port.to_string()])
        .chain(settings.iter().map(|&setting| setting.to_owned()));
    Ok(Process::new(name, program, dir, port, Probe::Redis, options.tie).arguments(arguments))
}

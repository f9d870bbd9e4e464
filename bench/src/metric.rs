//! A process's own figures: its metrics, its memory.

use std::fs;

use anyhow::{Context as _, Result};
use devstack::Process;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// What a metric says now; absent: the process does not answer, or has no such metric.
pub async fn of(process: &Process, name: &str) -> Option<f64> {
    let mut stream = TcpStream::connect(process.address()).await.ok()?;
    let request = b"GET /metrics HTTP/1.0\r\n\r\n";
    stream.write_all(request).await.ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// The memory that a process holds, in MiB.
///
/// # Errors
/// It does not run.
pub fn resident_mib(process: &Process) -> Result<f64> {
    let pid = process.pid().with_context(|| format!("{} does not run", process.name()))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    Ok(kib.context("no VmRSS in /proc")? / 1024.0)
}

//! Figures of a process: its metrics, and its memory as the kernel reports it.

use std::fs;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::Process;

impl Process {
    /// Returns the current value of a metric; `name` includes its labels. `None` if the process does not answer
    /// or has no such metric.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        let text = self.answer("/metrics").await?;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// Returns the response (head and body) from the process's admin address; `None` if there is none.
    pub async fn answer(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address()).await.ok()?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        Some(text)
    }

    /// Resident memory in MiB; `None` if the process does not run.
    pub fn resident_mib(&self) -> Option<f64> {
        memory_mib(self.pid()?, "VmRSS:")
    }

    /// Peak resident memory in MiB; `None` if the process does not run.
    pub fn peak_mib(&self) -> Option<f64> {
        peak_mib(self.pid()?)
    }
}

/// Peak resident memory of any process in MiB; `None` if it does not run.
pub fn peak_mib(pid: i32) -> Option<f64> {
    memory_mib(pid, "VmHWM:")
}

fn memory_mib(pid: i32, name: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

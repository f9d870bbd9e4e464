//! The machine that a bench ran on: without it a figure says nothing.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    time::Instant,
};

use anyhow::{Context as _, Result};
use serde::Serialize;
use shopper::Latency;

/// Flushes of the probe: a second on a slow disk, a blink on a fast one.
const FLUSHES: usize = 200;

/// Bytes before each flush: one page.
const PAGE: [u8; 4096] = [7; 4096];

/// Cores, processor, and how long a flush to disk takes.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Cores that the process may use.
    pub cores: usize,
    /// The processor's name.
    pub processor: String,
    /// Median time of a 4 KiB write and fdatasync, in milliseconds.
    pub fsync_p50_ms: f64,
    /// The time that 99 of 100 do not exceed.
    pub fsync_p99_ms: f64,
}

impl Machine {
    /// Looks at the machine, and flushes a file in `folder`, where the servers' data will be.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn probe(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        let path = folder.join("fsync-probe");
        let mut file = File::create(&path).context("the flush probe's file")?;
        let mut flushes = Latency::default();
        for _ in 0..FLUSHES {
            let started = Instant::now();
            file.write_all(&PAGE)?;
            file.sync_data()?;
            flushes.record(started.elapsed());
        }
        fs::remove_file(&path)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            cores,
            processor: processor(),
            fsync_p50_ms: flushes.ms(0.5),
            fsync_p99_ms: flushes.ms(0.99),
        })
    }
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or("unknown", |(_, name)| name.trim()).to_owned()
}

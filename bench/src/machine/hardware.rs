//! The machine that the figures were measured on.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result};
use shopper::Latency;

/// Syncs of the probe: enough for a 99th percentile, and done within a second on a slow disk.
const SYNCS: usize = 300;

/// Bytes written before each sync: the log of a small transaction.
const SYNC_BYTES: usize = 4096;

/// The machine, and the speed of its disk.
#[derive(Debug)]
pub struct Hardware {
    /// Cores that this process may use.
    pub cores: usize,
    /// The processor's name.
    pub cpu: String,
    /// Time to write 4 KiB durably.
    pub fsync: Latency,
}

impl Hardware {
    /// Reads the machine's properties and probes the disk of `folder`.
    ///
    /// # Errors
    /// The probe's file cannot be written.
    pub fn probe(folder: &Path) -> Result<Self> {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cpu = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Ok(Self {
            cores: thread::available_parallelism().map_or(1, usize::from),
            cpu: cpu.map_or("unknown", |(_, name)| name.trim()).to_owned(),
            fsync: fsync(folder)?,
        })
    }
}

fn fsync(folder: &Path) -> Result<Latency> {
    let path = folder.join("fsync-probe");
    let mut file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    let mut latency = Latency::default();
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&[0; SYNC_BYTES])?;
        file.sync_data()?;
        latency.record(began.elapsed());
    }
    fs::remove_file(path)?;
    Ok(latency)
}

//! CPU time that the processes of a platform, its servers and the crowd take per claim. The crowd shares the machine, but
//! not this figure.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;

use crate::{
    cdc::usage::Usage,
    stage::{BareServers, Stage},
};

/// This process: the clients.
pub const CROWD: &str = "crowd";

/// CPU time since the start of each process, by its name.
#[derive(Debug, Clone)]
pub struct Cpu(BTreeMap<String, Duration>);

impl Cpu {
    /// Reads the times of all processes.
    ///
    /// # Errors
    /// One of them does not run.
    pub fn read(servers: &BareServers, stage: &mut Stage) -> Result<Self> {
        let mut times = BTreeMap::from([(CROWD.to_owned(), Usage::of(std::process::id())?.cpu)]);
        for (name, pid) in stage.pids(servers)? {
            *times.entry(name).or_default() += Usage::of(pid)?.cpu;
        }
        Ok(Self(times))
    }

    /// Microseconds per claim since `before`, by process.
    pub fn per_claim(&self, before: &Self, claims: i64) -> BTreeMap<String, f64> {
        let since = |(name, time): (&String, &Duration)| {
            let before = before.0.get(name).copied().unwrap_or_default();
            let seconds = time.saturating_sub(before).as_secs_f64();
            (name.clone(), seconds * 1e6 / claims as f64)
        };
        self.0.iter().map(since).collect()
    }
}

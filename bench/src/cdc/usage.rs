//! Resource usage of a process, as counted by the kernel.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};

/// Clock ticks per second in `/proc`: a constant of the kernel's interface.
const TICKS_PER_S: f64 = 100.0;

/// Fields of `/proc/<pid>/stat`, counted after the name, with the time in user and in kernel mode.
const USER_TICKS: usize = 11;
const KERNEL_TICKS: usize = 12;

/// Usage since the process started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// CPU time of all its threads.
    pub cpu: Duration,
    /// Peak memory in MiB.
    pub peak_mib: f64,
}

impl Usage {
    /// Reads the usage of a running process.
    pub fn of(pid: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
        };
        let cpu = cpu(&read("stat")?).context("a stat line of another form")?;
        let peak_mib = mib(&read("status")?, "VmHWM:").context("a status without VmHWM")?;
        Ok(Self { cpu, peak_mib })
    }
}

/// Reads how much memory of a running process is resident, in MiB.
pub fn resident_mib(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    mib(&status, "VmRSS:").context("a status without VmRSS")
}

/// The name may contain any character, so fields are counted after it.
fn cpu(stat: &str) -> Option<Duration> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
    Some(Duration::from_secs_f64((ticks(USER_TICKS)? + ticks(KERNEL_TICKS)?) / TICKS_PER_S))
}

fn mib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_behind_a_name_with_any_characters() {
        let stat = "7 (a) b) R 1 7 7 0 -1 4194304 90 0 0 0 150 25 0 0 20 0 4 0 100 1 1";
        assert_eq!(cpu(stat), Some(Duration::from_millis(1750)));
    }

    #[test]
    fn this_process_has_held_some_memory() {
        let own = std::process::id();
        let peak = Usage::of(std::process::id()).unwrap().peak_mib;
        assert!(peak > 0.5);
        assert!(resident_mib(own).unwrap() > 0.5);
    }
}

//! A peer as a child process: tied to this one, with its output in a file.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::{Instant, sleep};

/// Polling interval for the end of the process.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long it may take to stop in order before it is killed.
const STOP_MAX: Duration = Duration::from_secs(20);

/// Lines of its output that an error quotes.
const TAIL_LINES: usize = 15;

/// A process that ends with this one, even if this one is killed.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
}

impl Child {
    /// Runs `program` with its output in `log`.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn spawn(program: &Command, log: &Path) -> Result<Self> {
        let output = File::create(log).with_context(|| format!("create {}", log.display()))?;
        // The kernel kills it when the thread that started it ends, so callers use the main thread.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program.get_program());
        command.args(program.get_args()).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output).process_group(0);
        if let Some(folder) = program.get_current_dir() {
            command.current_dir(folder);
        }
        let process = command.spawn().context("cannot run setpriv")?;
        Ok(Self { process })
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// The status cannot be read.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.process.try_wait()?)
    }

    /// Sends SIGTERM and waits for the end; sends SIGKILL after 20 s.
    ///
    /// # Errors
    /// The process could not be signalled.
    pub async fn stop(mut self) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.pid())?), Signal::SIGTERM)?;
        let deadline = Instant::now() + STOP_MAX;
        while self.ended()?.is_none() && Instant::now() < deadline {
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Errors mean that it has ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The end of a log, for an error.
pub fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

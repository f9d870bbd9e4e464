//! [`Process`]: a server or one of our six programs, with all operations of fault tests.

pub(crate) mod at_last;
pub(crate) mod child;
pub(crate) mod figures;
pub(crate) mod ports;
pub(crate) mod probe;
pub mod records;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::{Instant, sleep};

use crate::process::child::{Child, LOOK_EVERY};
use crate::process::probe::Probe;
use crate::tier::full_only;
use crate::{Error, Result, Tie};

/// Longest wait for readiness. The slowest server, Kafka, takes ten seconds on a loaded two-core machine.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Longest wait for an orderly end before SIGKILL: above the 30 s that our processes may drain.
const STOP_WITHIN: Duration = Duration::from_secs(40);
/// The variable by which a process arms its fail points.
const FAIL_POINTS: &str = "FAIL_POINTS";
/// Lines of a log that an error quotes.
const TAIL_LINES: usize = 15;

/// A program on one port of 127.0.0.1. Dropping the value kills it, unless `let_go` was called; a restart keeps
/// its port, data and environment.
#[derive(Debug)]
pub struct Process {
    name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: BTreeMap<String, String>,
    folder: PathBuf,
    address: SocketAddr,
    probe: Probe,
    tie: Tie,
    child: Option<Child>,
}

impl Process {
    /// Describes a program without starting it. Its log and record are in `folder`.
    pub(crate) fn new(
        name: &str,
        program: PathBuf,
        folder: &Path,
        port: u16,
        probe: Probe,
        tie: Tie,
    ) -> Self {
        Self {
            name: name.to_owned(),
            program,
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            folder: folder.to_path_buf(),
            address: (Ipv4Addr::LOCALHOST, port).into(),
            probe,
            tie,
            child: None,
        }
    }

    pub(crate) fn arguments(
        mut self,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    pub(crate) fn environment(mut self, environment: BTreeMap<String, String>) -> Self {
        self.environment = environment;
        self
    }

    /// Names the log and the record, and appears in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of its probe: a server's port, or a program's admin address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The log: standard output and standard error of all its runs.
    pub fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    /// Sets a variable for its next start.
    pub fn set_env(&mut self, variable: &str, value: &str) {
        if variable == FAIL_POINTS && !value.is_empty() {
            full_only("arms a fail point of a process");
        }
        self.environment.insert(variable.to_owned(), value.to_owned());
    }

    /// Replaces its arguments for its next start.
    pub fn set_arguments<const N: usize>(&mut self, arguments: [&str; N]) {
        self.arguments = arguments.map(OsString::from).into();
    }

    /// Replaces its program for its next start, for example by the same one of another version.
    pub fn set_program(&mut self, program: impl Into<PathBuf>) {
        self.program = program.into();
    }

    /// Adds an argument behind the present ones, from the next start on.
    pub fn add_argument(&mut self, argument: &str) {
        self.arguments.push(argument.into());
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<i32> {
        self.child.as_ref().map(Child::pid)
    }

    /// Starts it and waits until it is ready; does not restart a running one.
    ///
    /// # Errors
    /// It ended, or did not answer within a minute; the error contains the end of its log.
    pub async fn start(&mut self) -> Result<()> {
        self.spawn()?;
        self.ready().await
    }

    /// Starts it without waiting.
    ///
    /// # Errors
    /// The program could not be run.
    pub fn spawn(&mut self) -> Result<()> {
        if self.is_running() {
            return Ok(());
        }
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(&self.environment).current_dir(&self.folder);
        let child = Child::spawn(&command, self.tie, &self.log())
            .map_err(|source| Error::Spawn { name: self.name.clone(), source })?;
        if self.tie == Tie::Detached {
            records::write(&self.folder, &self.name, &child)?;
        }
        self.child = Some(child);
        Ok(())
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn ready(&mut self) -> Result<()> {
        self.answers(self.probe, self.address).await
    }

    /// Waits until `probe` succeeds at `address`, which may be another listener of the same process.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub(crate) async fn answers(&mut self, probe: Probe, address: SocketAddr) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if let Some(status) = self.status()? {
                self.forget();
                let (tail, way_out) = self.last_words();
                let name = self.name.clone();
                let log = self.log();
                return Err(Error::Ended { name, status, way_out, log, tail });
            }
            let Err(said) = probe.ask(address).await else { return Ok(()) };
            if Instant::now() >= deadline {
                let (tail, way_out) = self.last_words();
                let name = self.name.clone();
                let log = self.log();
                let seconds = READY_WITHIN.as_secs();
                let said = said.into();
                return Err(Error::NotReady { name, seconds, said, way_out, log, tail });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Whether the process exists (it may be paused, or not ready).
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.ended(), Ok(None)))
    }

    /// Whether it answers as ready right now.
    pub async fn is_ready(&self) -> bool {
        self.probe.ask(self.address).await.is_ok()
    }

    /// Sends SIGTERM and waits for the end; sends SIGKILL after 40 s. Returns the exit status; `None` if it did
    /// not run.
    ///
    /// # Errors
    /// It could not be signalled.
    pub async fn stop(&mut self) -> Result<Option<ExitStatus>> {
        let Some(mut child) = self.child.take() else { return Ok(None) };
        let name = &self.name;
        let signal = |source| Error::Signal { name: name.clone(), source };
        child.signal(Signal::SIGTERM).map_err(signal)?;
        let end = match child.wait(STOP_WITHIN).await.map_err(signal)? {
            Some(status) => status,
            None => {
                child.kill_now().map_err(signal)?;
                child.ended().map_err(signal)?.flatten()
            }
        };
        records::forget(&self.folder, &self.name);
        Ok(end)
    }

    /// Sends SIGKILL: no warning, no clean-up.
    pub fn kill(&mut self) -> Result<()> {
        full_only("kills a process");
        self.kill_now()
    }

    /// Kills it, if it runs, when its test is done with it: no fault, unlike [`Process::kill`].
    ///
    /// # Errors
    /// It could not be signalled.
    pub fn discard(&mut self) -> Result<()> {
        if self.child.is_some() { self.kill_now() } else { Ok(()) }
    }

    fn kill_now(&mut self) -> Result<()> {
        let mut child =
            self.child.take().ok_or_else(|| Error::NotRunning { name: self.name.clone() })?;
        child.kill_now().map_err(|source| Error::Signal { name: self.name.clone(), source })?;
        records::forget(&self.folder, &self.name);
        Ok(())
    }

    /// Sends SIGSTOP: it keeps its connections but does not respond.
    pub fn pause(&mut self) -> Result<()> {
        full_only("stops a process");
        self.signal(Signal::SIGSTOP)
    }

    /// Sends SIGCONT: it resumes where it was paused.
    pub fn resume(&mut self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Sends SIGUSR1, whose meaning depends on the process.
    pub fn ask(&self) -> Result<()> {
        let name = || self.name.clone();
        let pid = self.pid().ok_or_else(|| Error::NotRunning { name: name() })?;
        kill(Pid::from_raw(pid), Signal::SIGUSR1)
            .map_err(|errno| Error::Signal { name: name(), source: errno.into() })
    }

    /// Sends SIGTERM without waiting, for tests that watch the drain.
    pub fn terminate(&mut self) -> Result<()> {
        self.signal(Signal::SIGTERM)
    }

    /// Stops it if it runs, and starts it on the same port and data.
    ///
    /// # Errors
    /// As [`Process::stop`] and [`Process::start`].
    pub async fn restart(&mut self) -> Result<()> {
        self.stop().await?;
        self.start().await
    }

    /// Waits for it to end by itself.
    ///
    /// # Errors
    /// It does not run, or still runs after `within`.
    pub async fn wait_exit(&mut self, within: Duration) -> Result<ExitStatus> {
        let name = self.name.clone();
        let child = self.child.as_mut().ok_or_else(|| Error::NotRunning { name: name.clone() })?;
        let end = child
            .wait(within)
            .await
            .map_err(|source| Error::Signal { name: name.clone(), source })?;
        let seconds = within.as_secs();
        let status = end.flatten().ok_or(Error::StillRuns { name, seconds })?;
        self.forget();
        Ok(status)
    }

    /// Lets a detached process keep running when this value is dropped; its record stays.
    pub(crate) fn let_go(&mut self) {
        self.child = None;
    }

    /// Removes the handle and record of a process that ended by itself.
    fn forget(&mut self) {
        self.child = None;
        records::forget(&self.folder, &self.name);
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        let name = &self.name;
        let child = self.child.as_mut().ok_or_else(|| Error::NotRunning { name: name.clone() })?;
        child.signal(signal).map_err(|source| Error::Signal { name: name.clone(), source })
    }

    fn status(&mut self) -> Result<Option<ExitStatus>> {
        let name = &self.name;
        let child = self.child.as_mut().ok_or_else(|| Error::NotRunning { name: name.clone() })?;
        let end = child.ended().map_err(|source| Error::Signal { name: name.clone(), source })?;
        Ok(end.flatten())
    }

    /// Returns the end of the log, and what to do if it shows a known cause.
    fn last_words(&self) -> (String, String) {
        let tail = tail(&self.log());
        let folder = self.folder.display();
        let way_out = if tail.contains("Address already in use")
            || tail.contains("Bind on TCP/IP port")
        {
            format!(" Port {} was taken meanwhile: start again.", self.address.port())
        } else if tail.contains("No space left on device") {
            format!(" The disk of {folder} is full: free some space, then start again.")
        } else if tail.contains("Permission denied") {
            format!(" It may not write to {folder}: give the folder to this user, or use another.")
        } else if tail.contains("Cannot allocate memory") || tail.contains("insufficient memory") {
            " There is not enough memory: the servers take about 1 GB together.".to_owned()
        } else {
            String::new()
        };
        (tail, way_out)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A destructor cannot report errors; the kernel's parent-death signal is the second safeguard.
            drop(child.kill_now());
            records::forget(&self.folder, &self.name);
        }
    }
}

/// Returns the last lines of a log, indented for an error, or a placeholder if it is empty.
pub(crate) fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    if lines.is_empty() {
        return "  (it wrote nothing)".to_owned();
    }
    let from = lines.len().saturating_sub(TAIL_LINES);
    lines[from..].iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

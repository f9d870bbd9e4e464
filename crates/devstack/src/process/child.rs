//! One operating system process of ours: spawned (tied to its owner or detached from it), signalled, waited for.
//!
//! Tied children must not outlive their owner, even if it dies by SIGKILL. `setpriv --pdeathsig KILL` makes the
//! kernel ensure that. The kernel acts on the death of the spawning *thread*, so one thread that lives as long
//! as the process spawns all of them. A detached child gets its own process group and is identified by pid and start
//! time, so that a reused pid is never mistaken for it.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child as Handle, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

/// Poll interval for states without a notification (an exit, a port).
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What happens to a child when its owner ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tie {
    /// The child is killed with its owner.
    #[default]
    Owner,
    /// The child keeps running until `devstack down`.
    Detached,
}

/// A process identified by pid and start time; holds its handle if this process is the parent.
#[derive(Debug)]
pub(crate) struct Child {
    pid: i32,
    start_time: u64,
    handle: Option<Handle>,
}

impl Child {
    /// Spawns `command` (program, arguments and environment) and appends its output to `log`.
    pub(crate) fn spawn(command: &Command, tie: Tie, log: &Path) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let mut wrapped = match tie {
            Tie::Owner => {
                let mut setpriv = Command::new("setpriv");
                setpriv.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program());
                setpriv
            }
            // In the session of its owner: Linux shares the processor by sessions. A Kafka client that polled without a
            // pause (docs/decisions/0087) took it from servers in sessions of their own, for up to eight seconds.
            Tie::Detached => Command::new(command.get_program()),
        };
        wrapped.args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => wrapped.env(key, value),
                None => wrapped.env_remove(key),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            wrapped.current_dir(folder);
        }
        wrapped.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // Ctrl-C is meant for the owner, which ends its children in order.
        wrapped.process_group(0);
        let handle = spawn_on_lasting_thread(wrapped)?;
        let pid = i32::try_from(handle.id()).map_err(io::Error::other)?;
        let start_time = start_time(pid).unwrap_or_default();
        Ok(Self { pid, start_time, handle: Some(handle) })
    }

    /// Returns a process spawned by another process, if it still runs.
    pub(crate) fn find(pid: i32, start_time: u64) -> Option<Self> {
        let child = Self { pid, start_time, handle: None };
        child.runs_by_proc().then_some(child)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Start time in clock ticks since boot. Together with the pid it identifies a process forever.
    pub(crate) fn start_time(&self) -> u64 {
        self.start_time
    }

    /// Returns `None` while it runs; otherwise its exit status, which only a parent can read.
    pub(crate) fn ended(&mut self) -> io::Result<Option<Option<ExitStatus>>> {
        match &mut self.handle {
            Some(handle) => Ok(handle.try_wait()?.map(Some)),
            None => Ok((!self.runs_by_proc()).then_some(None)),
        }
    }

    /// Sends a signal. A process that has already ended is not an error.
    pub(crate) fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        kill(Pid::from_raw(self.pid), signal).map_err(io::Error::from)
    }

    /// Waits for the exit. Returns `Ok(None)` if it still runs after `within`.
    pub(crate) async fn wait(
        &mut self,
        within: Duration,
    ) -> io::Result<Option<Option<ExitStatus>>> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(end) = self.ended()? {
                return Ok(Some(end));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Sends SIGKILL and waits for the exit (which the kernel does not delay).
    pub(crate) fn kill_now(&mut self) -> io::Result<()> {
        self.signal(Signal::SIGKILL)?;
        match &mut self.handle {
            Some(handle) => handle.wait().map(drop),
            None => {
                while self.runs_by_proc() {
                    thread::sleep(LOOK_EVERY);
                }
                Ok(())
            }
        }
    }

    fn runs_by_proc(&self) -> bool {
        start_time(self.pid) == Some(self.start_time)
    }
}

/// Returns the start time of a process that is not a zombie: field 22 of its stat line, counted from behind the
/// name.
fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

type Order = (Command, mpsc::SyncSender<io::Result<Handle>>);

fn spawn_on_lasting_thread(command: Command) -> io::Result<Handle> {
    static SPAWNER: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in inbox {
                if let Err(mpsc::SendError(Ok(mut unwanted))) = answer.send(command.spawn()) {
                    drop(unwanted.kill());
                }
            }
        });
        orders
    });
    let (answer, answered) = mpsc::sync_channel(1);
    SPAWNER.send((command, answer)).map_err(io::Error::other)?;
    answered.recv().map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_is_found_by_pid_and_start_time_only() {
        let own = i32::try_from(std::process::id()).unwrap();
        let began = start_time(own).unwrap();
        assert!(Child::find(own, began).is_some());
        assert!(Child::find(own, began + 1).is_none());
    }
}

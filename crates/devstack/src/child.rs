//! One operating system process of ours: spawned tied to its owner or detached from it, signalled,
//! waited for.
//!
//! Tied children must not outlive their owner, even one that dies by SIGKILL. `setpriv --pdeathsig KILL`
//! arranges that in the kernel; since the kernel means the spawning *thread*, all of them are spawned by
//! one thread that lives as long as the process. A detached child gets a session of its own and is known
//! by pid and start time, so that a reused pid is never taken for it.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Child as Handle, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

/// How often a state that has no notification (an exit, a port) is looked at.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What becomes of a child when its owner ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tie {
    /// It is killed with the owner.
    #[default]
    Owner,
    /// It goes on, until `devstack down`.
    Detached,
}

/// A process known by pid and start time; with its handle if this process is the parent.
#[derive(Debug)]
pub(crate) struct Child {
    pid: i32,
    start_time: u64,
    handle: Option<Handle>,
}

impl Child {
    /// Spawns `command`, a program with its arguments and environment, writing to `log` (appended).
    pub(crate) fn spawn(command: &Command, tie: Tie, log: &Path) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let mut wrapped = match tie {
            Tie::Owner => {
                let mut setpriv = Command::new("setpriv");
                setpriv.args(["--pdeathsig", "KILL", "--"]);
                setpriv
            }
            Tie::Detached => Command::new("setsid"),
        };
        wrapped.arg(command.get_program()).args(command.get_args());
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
        if tie == Tie::Owner {
            // Ctrl-C is for the owner, which ends its children in its own order.
            // (Detached: setsid would fork if it were already the leader of a group.)
            use std::os::unix::process::CommandExt as _;
            wrapped.process_group(0);
        }
        let handle = spawn_on_lasting_thread(wrapped)?;
        let pid = i32::try_from(handle.id()).map_err(io::Error::other)?;
        let start_time = start_time(pid).unwrap_or_default();
        Ok(Self { pid, start_time, handle: Some(handle) })
    }

    /// A process spawned by somebody else, if it still runs.
    pub(crate) fn find(pid: i32, start_time: u64) -> Option<Self> {
        let child = Self { pid, start_time, handle: None };
        child.runs_by_proc().then_some(child)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Clock ticks since boot at which the process began; with the pid it names a process for ever.
    pub(crate) fn start_time(&self) -> u64 {
        self.start_time
    }

    /// `None` while it runs; else how it ended, as far as a parent can tell.
    pub(crate) fn ended(&mut self) -> io::Result<Option<Option<ExitStatus>>> {
        match &mut self.handle {
            Some(handle) => Ok(handle.try_wait()?.map(Some)),
            None => Ok((!self.runs_by_proc()).then_some(None)),
        }
    }

    /// Sends a signal; a process that is gone already is no error.
    pub(crate) fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        kill(Pid::from_raw(self.pid), signal).map_err(io::Error::from)
    }

    /// Waits for the end: `Ok(None)` if it still runs after `within`.
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

    /// SIGKILL, and its end awaited (the kernel needs no grace).
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

/// Start time of a process that is no zombie: field 22 of its stat line, counted behind the name.
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

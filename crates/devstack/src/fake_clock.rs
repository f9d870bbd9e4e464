//! [`FakeClock`]: a wrong clock for chosen processes, by libfaketime between them and the system's.
//!
//! Only the time of day is wrong. Monotonic time, by which timers run, stays as it is: so it is too
//! where somebody sets a machine's clock.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Process, Result, paths};

/// Debian keeps the library in a folder of this name below that of the architecture.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// A clock that is off by as much as its file says, at once for all processes that were given it.
#[derive(Debug)]
pub struct FakeClock {
    file: PathBuf,
    library: PathBuf,
}

impl FakeClock {
    /// A clock that is right for now; `file` says how far it is off, and lies in a folder that is there.
    ///
    /// # Errors
    /// libfaketime is not installed, or the file cannot be written.
    pub fn new(file: &Path) -> Result<Self> {
        let library = fs::read_dir("/usr/lib")
            .map_err(Error::file("read", Path::new("/usr/lib")))?
            .filter_map(|entry| Some(entry.ok()?.path().join(LIBRARY)))
            .find(|candidate| candidate.is_file())
            .ok_or_else(|| Error::NotInstalled {
                program: "faketime".to_owned(),
                by: paths::INSTALLER,
            })?;
        let clock = Self { file: paths::absolute(file)?, library };
        clock.set(0)?;
        Ok(clock)
    }

    /// Gives it to a process, from its next start on.
    pub fn give(&self, process: &mut Process) {
        let variables = [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            // Each look at the clock reads the file: a jump is a jump, for all at one moment.
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        for (name, value) in variables {
            process.set_env(name, &value);
        }
    }

    /// Sets it ahead of the true time by so many seconds, or behind it; running processes see it jump.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set(&self, seconds: i64) -> Result<()> {
        self.set_millis(seconds * 1_000)
    }

    /// [`FakeClock::set`] by milliseconds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_millis(&self, millis: i64) -> Result<()> {
        let sign = if millis < 0 { '-' } else { '+' };
        let (seconds, rest) = (millis.abs() / 1_000, millis.abs() % 1_000);
        // By a rename, so that nobody reads half of it.
        let fresh = self.file.with_extension("new");
        fs::write(&fresh, format!("{sign}{seconds}.{rest:03}\n"))
            .map_err(Error::file("write", &fresh))?;
        fs::rename(&fresh, &self.file).map_err(Error::file("write", &self.file))
    }
}

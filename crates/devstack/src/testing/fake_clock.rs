//! [`FakeClock`]: a wrong system clock for chosen processes, by preloading libfaketime.
//!
//! Only the time of day is wrong. Monotonic time, which drives timers, is unchanged, as when an administrator
//! sets a machine's clock.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tier::full_only;
use crate::{Error, Process, Result, paths};

/// Debian keeps the library under this name below the architecture's folder.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// A clock whose offset is read from a file, so that it changes at once for all processes that use it.
#[derive(Debug)]
pub struct FakeClock {
    file: PathBuf,
    library: PathBuf,
}

impl FakeClock {
    /// Creates a clock with offset 0. `file` stores the offset; its folder must exist.
    ///
    /// # Errors
    /// libfaketime is not installed, or the file cannot be written.
    pub fn new(file: &Path) -> Result<Self> {
        full_only("puts a clock wrong");
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

    /// Makes a process use this clock from its next start on.
    pub fn give(&self, process: &mut Process) {
        let variables = [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            // Every clock read reads the file, so all processes see a jump at the same moment.
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        for (name, value) in variables {
            process.set_env(name, &value);
        }
    }

    /// Sets the offset from true time, in seconds; negative is behind. Running processes see the clock jump.
    pub fn set(&self, seconds: i64) -> Result<()> {
        self.set_millis(seconds * 1_000)
    }

    /// Like [`FakeClock::set`], in milliseconds.
    pub fn set_millis(&self, millis: i64) -> Result<()> {
        let sign = if millis < 0 { '-' } else { '+' };
        let seconds = millis.abs() / 1_000;
        let rest = millis.abs() % 1_000;
        // Rename, so that no process reads a partial file.
        let fresh = self.file.with_extension("new");
        fs::write(&fresh, format!("{sign}{seconds}.{rest:03}\n"))
            .map_err(Error::file("write", &fresh))?;
        fs::rename(&fresh, &self.file).map_err(Error::file("write", &self.file))
    }
}

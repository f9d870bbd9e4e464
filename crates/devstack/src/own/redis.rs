//! [`OwnRedis`]: a Redis for a single test.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tier::full_only;
use crate::{Options, Process, Result, paths, servers::redis};

/// A Redis that a test may stop, fill, flush or promote. Dropping the value removes it and its data.
#[derive(Debug)]
pub struct OwnRedis {
    pub server: Process,
    dir: PathBuf,
}

impl OwnRedis {
    /// Starts a gate's server, in a folder called `name`. No other running test may use that name.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn gate(name: &str) -> Result<Self> {
        full_only("starts a Redis of its own");
        let dir = paths::own_folder(name)?;
        let mut server = redis::prepare_gate(&dir, &Options::default())?;
        server.start().await?;
        Ok(Self { server, dir })
    }

    /// Starts a view's server, in a folder called `name`. No other running test may use that name. `settings` are
    /// arguments of `redis-server` and override ours.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn view(name: &str, settings: &[&str]) -> Result<Self> {
        full_only("starts a Redis of its own");
        let dir = paths::own_folder(name)?;
        let server = redis::prepare_view(&dir, &Options::default())?;
        let mut server = server.arguments(settings.iter().copied());
        server.start().await?;
        Ok(Self { server, dir })
    }

    /// Starts a server configured by a file, for example as a gate; only its port and folder are set by us.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn by_file(name: &str, file: &Path) -> Result<Self> {
        full_only("starts a Redis of its own");
        let dir = paths::own_folder(name)?;
        let mut server = redis::prepare_by_file(name, file, &dir)?;
        server.start().await?;
        Ok(Self { server, dir })
    }

    /// Its folder, with that of its data.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.server.address())
    }
}

impl Drop for OwnRedis {
    fn drop(&mut self) {
        // A destructor cannot report errors; the next run overwrites leftovers.
        drop(self.server.discard());
        drop(fs::remove_dir_all(&self.dir));
    }
}

//! [`OwnView`]: a view's Redis of one test alone.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Options, Process, Result, paths, redis};

/// A view's Redis that a test may stop, fill, flush or promote. Dropped, it is gone with its data.
#[derive(Debug)]
pub struct OwnView {
    /// The server.
    pub server: Process,
    dir: PathBuf,
}

impl OwnView {
    /// Starts one; its folder bears `name`, which no other running test may use. `settings` are
    /// arguments of `redis-server` that win over ours.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn start(name: &str, settings: &[&str]) -> Result<Self> {
        let dir = paths::own_folder(name)?;
        let server = redis::prepare_view(&dir, &Options::default())?;
        let mut server = server.arguments(settings.iter().copied());
        server.start().await?;
        Ok(Self { server, dir })
    }

    /// Starts one that is set by a configuration file, as a gate perhaps; only its port and folder are ours.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn by_file(name: &str, file: &Path) -> Result<Self> {
        let dir = paths::own_folder(name)?;
        let mut server = redis::prepare_by_file(name, file, &dir)?;
        server.start().await?;
        Ok(Self { server, dir })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://{}", self.server.address())
    }
}

impl Drop for OwnView {
    fn drop(&mut self) {
        // Nobody is left to tell; what stays is overwritten by the next run.
        drop(self.server.kill());
        drop(fs::remove_dir_all(&self.dir));
    }
}

//! [`OwnSentinel`]: a Redis Sentinel for a single test.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::tier::full_only;
use crate::{Error, Process, Result, paths, servers::redis};

/// Time until an unresponsive master counts as down. Short, as tests wait for it.
const DOWN_AFTER_MS: u32 = 500;

/// A sentinel with a quorum of one. Dropping the value removes it and its state.
#[derive(Debug)]
pub struct OwnSentinel {
    pub server: Process,
    dir: PathBuf,
}

impl OwnSentinel {
    /// Starts a sentinel, in a folder called `name`, that monitors the master at `address` as `called`. No
    /// other running test may use that folder name. `settings` are further arguments of `redis-server`.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn start(
        name: &str,
        called: &str,
        address: SocketAddr,
        settings: &[String],
    ) -> Result<Self> {
        full_only("starts a Redis Sentinel");
        let dir = paths::own_folder(name)?;
        let file = dir.join("sentinel.conf");
        let text = format!(
            "bind 127.0.0.1\n\
             sentinel monitor {called} {} {} 1\n\
             sentinel down-after-milliseconds {called} {DOWN_AFTER_MS}\n",
            address.ip(),
            address.port()
        );
        fs::write(&file, text).map_err(Error::file("write", &file))?;
        let server = redis::prepare_by_file("sentinel", &file, &dir)?;
        let mut server = server.arguments(settings).arguments(["--sentinel"]);
        server.start().await?;
        Ok(Self { server, dir })
    }
}

impl Drop for OwnSentinel {
    fn drop(&mut self) {
        // A destructor cannot report errors; the next run overwrites leftovers.
        drop(self.server.discard());
        drop(fs::remove_dir_all(&self.dir));
    }
}

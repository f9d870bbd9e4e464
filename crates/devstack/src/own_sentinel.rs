//! [`OwnSentinel`]: a Redis Sentinel of one test alone.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::{Error, Process, Result, paths, redis};

/// After how long a silent master counts as down: a test waits for it.
const DOWN_AFTER_MS: u32 = 500;

/// A sentinel that decides alone. Dropped, it is gone with what it remembers.
#[derive(Debug)]
pub struct OwnSentinel {
    /// The process.
    pub server: Process,
    dir: PathBuf,
}

impl OwnSentinel {
    /// Starts one that watches the master at `address` under the name `called`; its folder bears `name`,
    /// which no other running test may use. `settings` are further arguments of `redis-server`.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub async fn start(
        name: &str,
        called: &str,
        address: SocketAddr,
        settings: &[String],
    ) -> Result<Self> {
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
        // Nobody is left to tell; what stays is overwritten by the next run.
        drop(self.server.kill());
        drop(fs::remove_dir_all(&self.dir));
    }
}

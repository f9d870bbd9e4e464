//! Servers and a platform of the bench's own, in a folder that is fresh at the start.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};
use devstack::{Options, Platform, PlatformOptions, Servers, project_root};
use runtime::Clock;
use shopper::Api;

/// Everything that a bench plays on.
pub struct Stage {
    /// A client of the api.
    pub api: Api,
    /// Where time is read.
    pub clock: Clock,
    /// The four processes.
    pub platform: Platform,
    /// The servers behind them.
    pub servers: Servers,
}

/// Where the servers' data lies.
pub fn folder() -> PathBuf {
    project_root().join(".dev/bench")
}

impl Stage {
    /// Starts everything.
    ///
    /// # Errors
    /// A server or process does not start; the message says which and shows its log.
    pub async fn start() -> Result<Self> {
        wipe()?;
        let servers = Servers::start(&folder(), &Options::default()).await?;
        let options = PlatformOptions::new(folder());
        let platform = Platform::start(servers.endpoints(), options).await?;
        let clock = Clock::system();
        let options = &platform.options;
        let api = Api::new(
            platform.api_url(),
            &options.jwt_secret,
            &options.operator_key,
            clock.clone(),
        )?;
        Ok(Self { api, clock, platform, servers })
    }

    /// Ends everything and removes the data.
    ///
    /// # Errors
    /// A process or server does not stop.
    pub async fn end(mut self) -> Result<()> {
        self.platform.stop().await?;
        self.servers.stop().await?;
        wipe()
    }
}

fn wipe() -> Result<()> {
    let folder = folder();
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(())
}

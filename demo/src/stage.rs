//! Private servers with a platform, in a folder that is empty at the start and removed at the end.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};
use devstack::{Flavor, Options, Platform, PlatformOptions, Servers, project_root};
use runtime::Clock;
use shopper::Api;
use verifier::{Settings, Sources};

/// The folder for the demo's data and logs.
pub(crate) fn folder() -> PathBuf {
    project_root().join(".dev/demo")
}

/// The demo's servers, platform and clients.
pub(crate) struct Stage {
    pub(crate) api: Api,
    pub(crate) sources: Sources,
    pub(crate) clock: Clock,
    platform: Platform,
    servers: Servers,
}

impl Stage {
    pub(crate) async fn start(flavor: Flavor) -> Result<Self> {
        wipe()?;
        let options = Options { flavor, ..Options::default() };
        let servers = Servers::start(&folder(), &options).await?;
        let endpoints = servers.endpoints();
        let options = PlatformOptions::new(folder());
        let platform = Platform::start(endpoints.clone(), options).await?;
        let settings = Settings {
            database_url: endpoints.database_url.parse()?,
            gate_redis_url: endpoints.gate_redis_url.parse()?,
            view_redis_url: endpoints.view_redis_url.parse()?,
            kafka_brokers: endpoints.kafka_brokers,
            key_prefix: platform.options.key_prefix.clone(),
            topic_prefix: platform.options.topic_prefix.clone(),
        };
        let clock = Clock::system();
        let options = &platform.options;
        let api = Api::new(
            platform.api_url(),
            &options.jwt_secret,
            &options.operator_key,
            clock.clone(),
        )?;
        let sources = Sources::connect(&settings).await?;
        Ok(Self { api, sources, clock, platform, servers })
    }

    /// The console's address.
    pub(crate) fn console_url(&self) -> String {
        format!("{}/console", self.platform.api_url())
    }

    /// The key to sign in with.
    pub(crate) fn console_key(&self) -> &str {
        &self.platform.options.operator_key
    }

    /// Stops the processes, then the servers. If `wiped`, also removes data and logs; they are kept
    /// for a failed demo.
    pub(crate) async fn end(&mut self, wiped: bool) -> Result<()> {
        self.platform.stop().await?;
        self.servers.stop().await?;
        if wiped { wipe() } else { Ok(()) }
    }
}

fn wipe() -> Result<()> {
    let folder = folder();
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

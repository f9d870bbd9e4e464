//! Private servers and a platform on them, in a folder that is fresh at the start and gone at the end.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};
use devstack::{Flavor, Options, Platform, PlatformOptions, Servers, project_root};
use runtime::Clock;
use shopper::Api;
use verifier::{Settings, Sources};

/// Where data and logs of the demo lie.
pub(crate) fn folder() -> PathBuf {
    project_root().join(".dev/demo")
}

/// Everything that the demo plays on.
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

    /// Ends the processes before the servers; data and logs go too, unless they have something to tell.
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

//! Private servers with a platform, in a folder that is empty at the start and emptied at the end.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result};
use devstack::{Flavor, Options, Platform, PlatformOptions, Servers, project_root};
use runtime::Clock;
use shopper::Api;
use verifier::{Report, Settings, Sources, at_rest, verify};

use crate::redis_tools::ask;

/// Longest wait for a platform to come to rest. Behind the largest load it takes minutes; longer, and it hangs.
const REST_MAX: Duration = Duration::from_secs(600);

/// Memory and log of the database server as in ops/mysql.cnf, for benches of a million coupons: with their indexes they
/// fit in.
fn sizes_as_installed(flavor: Flavor) -> Vec<String> {
    let log = match flavor {
        Flavor::Mariadb => "--innodb-log-file-size=1G",
        Flavor::Mysql => "--innodb-redo-log-capacity=1G",
    };
    ["--innodb-buffer-pool-size=1G", log].map(str::to_owned).to_vec()
}

/// Memory of each Redis, as in its file in ops/.
const REDIS_MEMORY: &str = "1gb";

/// Servers without a platform.
#[derive(Debug)]
pub struct BareServers {
    pub stack: Servers,
    folder: PathBuf,
}

/// A platform on the servers of a [`BareServers`].
pub struct Stage {
    /// The six processes.
    pub platform: Platform,
    /// A client of the api.
    pub api: Api,
    /// The verifier's connections.
    pub sources: Sources,
    pub clock: Clock,
}

impl BareServers {
    /// Starts the servers with empty data.
    pub async fn start() -> Result<Self> {
        Self::start_with(&Options::default()).await
    }

    /// Like [`BareServers::start`], with MySQL's memory as in ops/mysql.cnf.
    pub async fn start_as_installed() -> Result<Self> {
        Self::start_as_installed_of(Flavor::default()).await
    }

    /// Like [`BareServers::start_as_installed`], of this kind of database server.
    pub async fn start_as_installed_of(flavor: Flavor) -> Result<Self> {
        let database_arguments = sizes_as_installed(flavor);
        Self::start_with(&Options { flavor, database_arguments, ..Options::default() }).await
    }

    /// Like [`BareServers::start_as_installed`], also with the memory that ops/redis-gate.conf and ops/redis-view.conf
    /// give to Redis, and the broker's usual compilers: for benches of a million claims, and load that lasts for minutes.
    pub async fn start_for_minutes() -> Result<Self> {
        let database_arguments = sizes_as_installed(Flavor::default());
        let options = Options { database_arguments, kafka_optimised: true, ..Options::default() };
        let servers = Self::start_with(&options).await?;
        for redis in [&servers.stack.gate, &servers.stack.view] {
            ask(redis.address(), &["CONFIG", "SET", "maxmemory", REDIS_MEMORY]).await?;
        }
        Ok(servers)
    }

    /// Like [`BareServers::start`], with other options.
    pub async fn start_with(options: &Options) -> Result<Self> {
        let folder = project_root().join(".dev/bench");
        wipe(&folder)?;
        let stack = Servers::start(&folder, options).await?;
        // As in the platform's processes: the crowd opens as many connections as they accept. Servers that are started
        // later inherit it, which changes nothing for those that do not ask for huge pages.
        runtime::use_small_pages();
        Ok(Self { stack, folder })
    }

    /// Starts a platform.
    pub async fn platform(&self) -> Result<Stage> {
        self.platform_of(1).await
    }

    /// Starts a platform with this many apis. The stage's client uses the first.
    pub async fn platform_of(&self, apis: usize) -> Result<Stage> {
        self.start_platform(apis, &[]).await
    }

    /// Starts a platform with these settings.
    pub async fn platform_with(&self, settings: &[(&str, &str)]) -> Result<Stage> {
        self.start_platform(1, settings).await
    }

    async fn start_platform(&self, apis: usize, settings: &[(&str, &str)]) -> Result<Stage> {
        let endpoints = self.stack.endpoints();
        let mut options =
            PlatformOptions::new(self.folder.join("platform")).with_env("RUST_LOG", "warn");
        for (name, value) in settings {
            options = options.with_env(name, value);
        }
        let options = PlatformOptions { apis, ..options };
        let platform = Platform::start(endpoints.clone(), options).await?;
        let clock = Clock::system();
        let options = &platform.options;
        let url = platform.api_url();
        let secret = &options.jwt_secret;
        let api = Api::new(url, secret, &options.operator_key, clock.clone())?;
        let settings = Settings {
            database_url: endpoints.database_url.parse()?,
            gate_redis_url: endpoints.gate_redis_url.parse()?,
            view_redis_url: endpoints.view_redis_url.parse()?,
            kafka_brokers: endpoints.kafka_brokers,
            key_prefix: options.key_prefix.clone(),
            topic_prefix: options.topic_prefix.clone(),
        };
        let sources = Sources::connect(&settings).await?;
        Ok(Stage { platform, api, sources, clock })
    }

    /// Stops the servers and removes their data.
    ///
    /// # Errors
    /// A server could not be signalled, or the folder cannot be removed.
    pub async fn end(mut self) -> Result<()> {
        self.stack.stop().await?;
        wipe(&self.folder)
    }
}

impl Stage {
    /// Process ids of the servers and of the platform, by name.
    pub fn pids(&mut self, servers: &BareServers) -> Result<Vec<(String, u32)>> {
        let servers = &servers.stack;
        let servers = [&servers.database, &servers.gate, &servers.view, &servers.kafka];
        let servers = servers.map(|server| (server.name().to_owned(), server.pid()));
        let processes = self.platform.processes();
        let processes = processes.map(|process| (process.name().to_owned(), process.pid()));
        let all = servers.into_iter().chain(processes);
        all.map(|(name, pid)| {
            let pid = pid.with_context(|| format!("{name} does not run"))?;
            Ok((name, u32::try_from(pid)?))
        })
        .collect()
    }

    /// Waits until nothing is in flight, so that the next figure has the machine for itself.
    ///
    /// # Errors
    /// Something is still in flight after ten minutes.
    pub async fn at_rest(&self) -> Result<()> {
        Ok(at_rest(&self.sources, &self.clock, REST_MAX).await?)
    }

    /// Checks every invariant at rest.
    ///
    /// # Errors
    /// The platform does not come to rest, or a server does not answer.
    pub async fn verify(&self) -> Result<Report> {
        self.at_rest().await?;
        Ok(verify(&self.sources, None, self.clock.now()).await?)
    }
}

fn wipe(folder: &PathBuf) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

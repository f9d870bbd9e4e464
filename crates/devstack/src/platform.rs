//! [`Platform`]: the six processes on given servers, in the order of the data flow.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::process::probe::Probe;
use crate::process::{Process, tail};
use crate::{Endpoints, Error, Result, Scope, Tie, paths, process::ports};

/// Settings of a platform.
#[derive(Clone, Debug)]
pub struct PlatformOptions {
    /// Folder of logs and records.
    pub dir: PathBuf,
    /// Whether the processes end with this one.
    pub tie: Tie,
    /// Prefix of every key in both Redis servers.
    pub key_prefix: String,
    /// Prefix of every topic.
    pub topic_prefix: String,
    /// Number of api processes.
    pub apis: usize,
    /// Whether the relay and the lander run. Without them a queued claim waits; direct ones need neither.
    pub queue: bool,
    /// Signs users' tokens.
    pub jwt_secret: String,
    /// Signs the receipts of queued claims.
    pub receipt_secret: String,
    pub operator_key: String,
    /// Extra environment variables of every process; they override ours.
    pub environment: BTreeMap<String, String>,
}

/// Age at which a coupon without a wake-up counts as lost: longer than the worker takes to read a woken shard a
/// second time, because that read counts.
const LOST_AFTER_SECONDS: &str = "15";

impl PlatformOptions {
    /// One api, no key prefix, the default topic prefix, random secrets; logs in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            tie: Tie::Owner,
            key_prefix: String::new(),
            topic_prefix: "coupon".to_owned(),
            apis: 1,
            queue: true,
            jwt_secret: random_key(),
            receipt_secret: random_key(),
            operator_key: random_key(),
            environment: BTreeMap::new(),
        }
    }

    /// Options for one test's names; logs in `.dev/test/platforms/<database>`. The expiry worker sweeps only on
    /// request: at rest, wake-ups must have covered every change that is not recent.
    pub fn of_test(scope: &Scope) -> Self {
        let options = Self {
            key_prefix: scope.key_prefix.clone(),
            topic_prefix: scope.topic_prefix.clone(),
            ..Self::new(paths::project_root().join(".dev/test/platforms").join(&scope.database))
        };
        options
            .with_env("SWEEP_SECONDS", "86400")
            .with_env("LOST_AFTER_SECONDS", LOST_AFTER_SECONDS)
    }

    /// Adds a variable to the environment of every process.
    #[must_use]
    pub fn with_env(mut self, variable: &str, value: &str) -> Self {
        self.environment.insert(variable.to_owned(), value.to_owned());
        self
    }
}

/// The six processes. Dropping the value kills them.
#[derive(Debug)]
pub struct Platform {
    /// The api processes, in the order of [`Platform::api_urls`].
    pub apis: Vec<Process>,
    /// Publishes queued claims from the gate's outboxes.
    pub relay: Process,
    /// Lands queued claims in MySQL.
    pub lander: Process,
    /// Publishes the binlog to the topics.
    pub cdc_tailer: Process,
    /// Applies the topics to the view.
    pub sync_consumer: Process,
    /// Expires due coupons.
    pub expiry_worker: Process,
    /// Addresses of the servers.
    pub endpoints: Endpoints,
    /// Options that it was started with.
    pub options: PlatformOptions,
    api_urls: Vec<String>,
}

impl Platform {
    /// Migrates the database of `endpoints`, then starts all processes at once and waits until each is ready.
    ///
    /// # Errors
    /// A binary is not built, the migration failed, or a process ended or was not ready within a minute.
    pub async fn start(endpoints: Endpoints, options: PlatformOptions) -> Result<Self> {
        let mut platform = Self::prepare(endpoints, options)?;
        platform.migrate_with(&paths::binary("api")?).await?;
        platform.run().await?;
        Ok(platform)
    }

    /// Starts all processes at once, on a migrated database, and waits until each is ready.
    ///
    /// # Errors
    /// A process ended or was not ready within a minute.
    pub async fn run(&mut self) -> Result<()> {
        for process in self.processes() {
            process.spawn()?;
        }
        for process in self.processes() {
            process.ready().await?;
        }
        Ok(())
    }

    /// Describes the processes and chooses their ports; starts none and does not migrate.
    ///
    /// # Errors
    /// A binary is not built, or the folder cannot be created.
    pub fn prepare(endpoints: Endpoints, mut options: PlatformOptions) -> Result<Self> {
        options.dir = paths::absolute(&options.dir)?;
        fs::create_dir_all(&options.dir).map_err(Error::file("create", &options.dir))?;
        let environment = environment(&endpoints, &options);
        let mut apis = Vec::with_capacity(options.apis);
        let mut api_urls = Vec::with_capacity(options.apis);
        for number in 1..=options.apis {
            let name = if number == 1 { "api".to_owned() } else { format!("api-{number}") };
            let port = port(&options, &format!("{name}.listen"))?;
            let listen = format!("127.0.0.1:{port}");
            api_urls.push(format!("http://{listen}"));
            let mut api = process(&name, "api", &options, &environment)?;
            api.set_env("LISTEN", &listen);
            apis.push(api);
        }
        let mut platform = Self {
            apis,
            relay: process("outbox-relay", "outbox-relay", &options, &environment)?,
            lander: process("claim-lander", "claim-lander", &options, &environment)?,
            cdc_tailer: process("cdc-tailer", "cdc-tailer", &options, &environment)?,
            sync_consumer: process("sync-consumer", "sync-consumer", &options, &environment)?,
            expiry_worker: process("expiry-worker", "expiry-worker", &options, &environment)?,
            endpoints,
            options,
            api_urls,
        };
        platform.introduce();
        Ok(platform)
    }

    /// Tells each api the admin addresses of all other processes, and which process each is.
    fn introduce(&mut self) {
        let peer = |process: &mut Process| {
            let name = if process.name().starts_with("api") { "api" } else { process.name() };
            format!("{name}={}", process.address())
        };
        let addresses: Vec<String> = self.processes().map(peer).collect();
        for (own, api) in self.apis.iter_mut().enumerate() {
            let others = addresses.iter().enumerate().filter(|(at, _)| *at != own);
            let others: Vec<&str> = others.map(|(_, address)| address.as_str()).collect();
            api.set_env("ADMIN_PEERS", &others.join(","));
        }
    }

    /// Describes another tailer, configured like the first except for its name; does not start it.
    ///
    /// # Errors
    /// The binary is not built.
    pub fn another_tailer(&self, name: &str) -> Result<Process> {
        process(name, "cdc-tailer", &self.options, &environment(&self.endpoints, &self.options))
    }

    /// Describes another relay, configured like the first except for its name; does not start it.
    ///
    /// # Errors
    /// The binary is not built.
    pub fn another_relay(&self, name: &str) -> Result<Process> {
        process(name, "outbox-relay", &self.options, &environment(&self.endpoints, &self.options))
    }

    /// Describes another lander, configured like the first except for its name; does not start it.
    ///
    /// # Errors
    /// The binary is not built.
    pub fn another_lander(&self, name: &str) -> Result<Process> {
        process(name, "claim-lander", &self.options, &environment(&self.endpoints, &self.options))
    }

    pub fn api_url(&self) -> &str {
        self.api_urls.first().map_or("", String::as_str)
    }

    pub fn api_urls(&self) -> &[String] {
        &self.api_urls
    }

    /// All processes that run, api first.
    pub fn processes(&mut self) -> impl Iterator<Item = &mut Process> {
        let queue = self.options.queue.then_some([&mut self.relay, &mut self.lander]);
        self.apis.iter_mut().chain(queue.into_iter().flatten()).chain([
            &mut self.cdc_tailer,
            &mut self.sync_consumer,
            &mut self.expiry_worker,
        ])
    }

    /// Stops all processes at the same time; each drains in its own order.
    ///
    /// # Errors
    /// A process could not be signalled.
    pub async fn stop(&mut self) -> Result<()> {
        for process in self.processes() {
            process.terminate().or_else(ignore_not_running)?;
        }
        for process in self.processes() {
            process.stop().await?;
        }
        Ok(())
    }

    /// Leaves detached processes running when this value is dropped.
    pub fn let_go(&mut self) {
        self.processes().for_each(Process::let_go);
    }

    /// Runs `--migrate` of this api, which may be of another version, to its end. The processes may run meanwhile.
    ///
    /// # Errors
    /// It could not be run, or failed; the error contains the end of its log.
    pub async fn migrate_with(&self, api: &Path) -> Result<()> {
        let log = self.options.dir.join("migrate.log");
        let output = File::create(&log).map_err(Error::file("create", &log))?;
        let errors = output.try_clone().map_err(Error::file("create", &log))?;
        let status = Command::new(api)
            .arg("--migrate")
            .envs(environment(&self.endpoints, &self.options))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .kill_on_drop(true)
            .status()
            .await
            .map_err(|source| Error::Spawn { name: "api --migrate".to_owned(), source })?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Failed { name: "api --migrate".to_owned(), status, tail: tail(&log), log })
    }
}

/// Returns 256 bits, good enough for a platform on a private address; `./dev up` takes its keys from the system.
fn random_key() -> String {
    format!("{:032x}{:032x}", fastrand::u128(..), fastrand::u128(..))
}

fn ignore_not_running(error: Error) -> Result<()> {
    match error {
        Error::NotRunning { .. } => Ok(()),
        other => Err(other),
    }
}

/// Partitions of the keyed topics: enough that every process has several, few enough that one broker on a small
/// machine creates them at once.
const PARTITIONS: &str = "8";

/// How long a killed tailer keeps its leadership: the minimum that our broker allows.
const LEADER_TIMEOUT_MS: &str = "1000";

/// Rate limit of one user's claims and reads. Simulated crowds are few users who claim as fast as they can, so
/// no limit meant for people may stop them; requests are still counted.
const PER_USER: &str = "1000000";

fn environment(endpoints: &Endpoints, options: &PlatformOptions) -> BTreeMap<String, String> {
    // The tailer registers as a replica: two with the same id disconnect each other.
    let server_id = fastrand::u32(1_000..=2_000_000_000).to_string();
    let ours = [
        ("KEY_PREFIX", options.key_prefix.as_str()),
        ("TOPIC_PREFIX", &options.topic_prefix),
        ("TOPIC_PARTITIONS", PARTITIONS),
        ("JWT_SECRET", &options.jwt_secret),
        ("RECEIPT_SECRET", &options.receipt_secret),
        ("OPERATOR_KEY", &options.operator_key),
        ("CLAIMS_PER_USER_SECOND", PER_USER),
        ("CLAIMS_PER_USER_MINUTE", PER_USER),
        ("READS_PER_USER_SECOND", PER_USER),
        ("READS_PER_USER_MINUTE", PER_USER),
        ("SERVER_ID", &server_id),
        ("LEADER_TIMEOUT_MS", LEADER_TIMEOUT_MS),
        // No balancer is before them.
        ("DRAIN_SECONDS", "0"),
    ];
    let mut environment: BTreeMap<String, String> = endpoints
        .variables()
        .into_iter()
        .chain(ours)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    environment.extend(options.environment.clone());
    environment
}

fn process(
    name: &str,
    program: &str,
    options: &PlatformOptions,
    environment: &BTreeMap<String, String>,
) -> Result<Process> {
    let port = port(options, &format!("{name}.admin"))?;
    let mut process =
        Process::new(name, paths::binary(program)?, &options.dir, port, Probe::Readyz, options.tie)
            .environment(environment.clone());
    process.set_env("ADMIN_LISTEN", &format!("127.0.0.1:{port}"));
    Ok(process)
}

/// Detached stacks keep their ports from one `up` to the next; others choose new ones.
fn port(options: &PlatformOptions, name: &str) -> Result<u16> {
    match options.tie {
        Tie::Owner => ports::free(),
        Tie::Detached => ports::remembered(&options.dir.join(format!("{name}.port"))),
    }
}

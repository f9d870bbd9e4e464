//! Foundation of the pipeline tests: a [`World`] is a platform of six processes with its own database, key
//! prefix and topics, on the shared test servers.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

pub mod claim_campaign;
mod claim_faults;
pub mod damage;
mod draw;
pub mod failover;
pub mod held_sale;
pub mod history_faults;
pub mod mixed_load;
pub mod promises;
pub mod replay;
pub mod server_binlog;
pub mod tail;
pub mod tail_campaign;
mod tailer_faults;
pub mod topic_contents;
pub mod view_campaign;
mod view_load;

pub use draw::{MODES, Mode};
pub use testkit::{STATE_MAX, until, until_within};

use std::{fs, time::Duration};

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::{Flavor, Platform, PlatformOptions, Scope, TestServers};
use mysql_store::{
    MySqlConnection, connect,
    verify::{self as store, CouponCounts},
};
use runtime::Clock;
use shopper::{Api, Crowd, NewTemplate, Run};
use topic::{TopicLayout, TopicNames, ensure_topics};
use verifier::{History, Report, Settings, Sources, at_rest, verify};

/// Partitions of the keyed topics: enough for three members of a group to share, few enough to create at once.
const PARTITIONS: i32 = 3;
/// Longest time that the platform may take to come to rest after the last fault (I12).
pub const REST_MAX: Duration = Duration::from_secs(60);
/// Connections of a test's crowd.
const CONNECTIONS: usize = 128;
/// How long a test's user retries: longer than any restart.
const PATIENCE: Duration = Duration::from_secs(60);

/// The platform of one test.
pub struct World {
    pub platform: Platform,
    /// One client for each api process.
    pub apis: Vec<Api>,
    /// The verifier's connections.
    pub sources: Sources,
    /// The system's clock.
    pub clock: Clock,
    /// The test's names.
    pub scope: Scope,
}

fn settings_of(scope: &Scope) -> Settings {
    Settings {
        database_url: scope.endpoints.database_url.parse().unwrap(),
        gate_redis_url: scope.endpoints.gate_redis_url.parse().unwrap(),
        view_redis_url: scope.endpoints.view_redis_url.parse().unwrap(),
        kafka_brokers: scope.endpoints.kafka_brokers.clone(),
        key_prefix: scope.key_prefix.clone(),
        topic_prefix: scope.topic_prefix.clone(),
    }
}

/// Creates a test's topics.
async fn ensure(scope: &Scope) {
    let topics = TopicNames::new(scope.topic_prefix.clone());
    let layout = TopicLayout { partitions: PARTITIONS, replication: 1 };
    ensure_topics(&scope.endpoints.kafka_brokers, &topics, &layout).await.unwrap();
}

impl World {
    /// Starts a platform with one api, without relay and lander.
    pub async fn start(name: &str) -> Self {
        Self::start_with(name, |options| options).await
    }

    /// Starts a platform with options modified by `change`, without relay and lander: two processes fewer for each of
    /// some two hundred tests that queue no claims.
    pub async fn start_with(
        name: &str,
        change: impl FnOnce(PlatformOptions) -> PlatformOptions,
    ) -> Self {
        let change = |options| change(PlatformOptions { queue: false, ..options });
        Self::start_on(&TestServers::shared(), name, change).await
    }

    /// Starts a whole platform with one api.
    pub async fn start_queued(name: &str) -> Self {
        Self::start_queued_with(name, |options| options).await
    }

    /// Starts a whole platform with options modified by `change`.
    pub async fn start_queued_with(
        name: &str,
        change: impl FnOnce(PlatformOptions) -> PlatformOptions,
    ) -> Self {
        Self::start_on(&TestServers::shared(), name, change).await
    }

    /// Starts a platform with one api, without relay and lander, on the shared MariaDB or the shared MySQL, with options
    /// modified by `change`. `None` if MySQL is not installed.
    pub async fn start_on_flavor(
        flavor: Flavor,
        name: &str,
        change: impl FnOnce(PlatformOptions) -> PlatformOptions,
    ) -> Option<Self> {
        let servers = TestServers::on(flavor)?;
        let change = |options| change(PlatformOptions { queue: false, ..options });
        Some(Self::start_on(&servers, name, change).await)
    }

    /// Starts a platform on the given servers.
    pub async fn start_on(
        servers: &TestServers,
        name: &str,
        change: impl FnOnce(PlatformOptions) -> PlatformOptions,
    ) -> Self {
        let scope = servers.scope(name);
        store::copy_schema(&scope.endpoints.database_url).await.unwrap();
        let options = change(PlatformOptions::of_test(&scope));
        let platform = Platform::prepare(scope.endpoints.clone(), options).unwrap();
        Self::run(platform, scope).await
    }

    /// Starts a platform whose processes `change` modifies one by one, on an existing schema.
    pub async fn start_as(scope: Scope, change: impl FnOnce(&mut Platform)) -> Self {
        Self::start_as_with(scope, |options| options, change).await
    }

    /// Like [`World::start_as`], with options modified by `options`.
    pub async fn start_as_with(
        scope: Scope,
        options: impl FnOnce(PlatformOptions) -> PlatformOptions,
        change: impl FnOnce(&mut Platform),
    ) -> Self {
        let options = options(PlatformOptions::of_test(&scope));
        let mut platform = Platform::prepare(scope.endpoints.clone(), options).unwrap();
        change(&mut platform);
        Self::run(platform, scope).await
    }

    async fn run(mut platform: Platform, scope: Scope) -> Self {
        ensure(&scope).await;
        platform.run().await.unwrap_or_else(|error| panic!("{error}"));
        Self::around(platform, scope).await
    }

    /// Makes the world of a platform that runs, on the schema of this version.
    ///
    /// # Panics
    /// The schema is another one, or a server cannot be reached.
    pub async fn around(platform: Platform, scope: Scope) -> Self {
        let clock = Clock::system();
        let apis = clients_of(&platform, &clock);
        let sources = Sources::connect(&settings_of(&scope)).await.unwrap();
        Self { platform, apis, sources, clock, scope }
    }

    /// Settings for a verifier of this platform.
    pub fn settings(&self) -> Settings {
        settings_of(&self.scope)
    }

    pub fn api(&self) -> &Api {
        &self.apis[0]
    }

    /// A crowd that uses all apis.
    pub fn crowd(&self) -> Crowd {
        Crowd::new(self.apis.clone(), CONNECTIONS, PATIENCE)
    }

    /// Publishes a template of `stock` coupons, valid for an hour unless `change` modifies it.
    pub async fn template(
        &self,
        stock: i64,
        change: impl FnOnce(NewTemplate) -> NewTemplate,
    ) -> TemplateId {
        let new = NewTemplate::simple("A sale", stock, self.clock.now(), TimeDelta::hours(1));
        let draft = self.api().create(&change(new)).await.unwrap().id;
        // On a crowded machine the gate may not answer in time: the template is published, and its gate not loaded yet.
        let publish = async || self.api().turn(draft, "publish").await;
        until(publish, Result::is_ok).await.unwrap().id
    }

    /// Opens a connection that may write; the verifier's connections are read-only.
    pub async fn mysql(&self) -> MySqlConnection {
        connect::single(&self.scope.endpoints.database_url).await.unwrap()
    }

    /// Counts the coupons of a template in MySQL by status.
    pub async fn count(&self, template: TemplateId) -> CouponCounts {
        let mut connection = connect::acquire(&self.sources.pool).await.unwrap();
        store::count_coupons(&mut connection, Some(template), self.clock.now()).await.unwrap()
    }

    /// Polls MySQL's coupon counts of a template until they satisfy `is_there`.
    pub async fn until(
        &self,
        template: TemplateId,
        is_there: impl Fn(&CouponCounts) -> bool,
    ) -> CouponCounts {
        let look = async || self.count(template).await;
        until(look, is_there).await
    }

    /// Reads users' lists, so that their views are warm from then on.
    pub async fn warm_views(&self, users: impl IntoIterator<Item = i64>) {
        for user in users {
            self.api().shopper(UserId(user)).unwrap().all_coupons().await.unwrap();
        }
    }

    /// Returns how many coupons the expiry worker's sweeps have found since its start.
    pub async fn sweep_finds(&self) -> f64 {
        let worker = &self.platform.expiry_worker;
        worker.metric("expiry_worker_sweep_finds_total").await.unwrap_or(0.0)
    }

    /// Makes the expiry worker sweep, if it runs.
    ///
    /// # Panics
    /// It does not sweep within [`STATE_MAX`].
    pub async fn sweep(&self) {
        let worker = &self.platform.expiry_worker;
        if worker.pid().is_none() {
            return;
        }
        let sweeps = async || worker.metric("expiry_worker_sweeps_total").await.unwrap_or(0.0);
        let before = sweeps().await;
        // A worker that has just started ignores requests until it has compared the clocks, so the request is
        // repeated.
        let asked = async || {
            worker.ask().unwrap();
            sweeps().await
        };
        until(asked, |now| *now > before).await;
    }

    /// Waits for rest and checks every invariant.
    ///
    /// # Panics
    /// The platform does not come to rest, an invariant is violated, or a wake-up was lost.
    pub async fn assert_sound(&self, history: Option<&History>) -> Report {
        if let Err(unrest) = at_rest(&self.sources, &self.clock, REST_MAX).await {
            panic!("{unrest}");
        }
        let report = verify(&self.sources, history, self.clock.now()).await.unwrap();
        assert!(report.holds(), "\n{report}");
        self.sweep().await;
        let finds = self.sweep_finds().await;
        assert!(finds < 1.0, "the sweep found {finds} coupons that no wake-up announced");
        report
    }

    /// Stops the processes and checks their logs for panics.
    ///
    /// # Panics
    /// A process panicked, or does not end with success on SIGTERM.
    pub async fn end(mut self) {
        for process in self.platform.processes() {
            process.terminate().unwrap();
        }
        for process in self.platform.processes() {
            let name = process.name().to_owned();
            let status = process.stop().await.unwrap();
            assert!(status.is_none_or(|status| status.success()), "{name} ended with {status:?}");
            assert_no_panic(&fs::read_to_string(process.log()).unwrap());
        }
        fs::remove_dir_all(&self.platform.options.dir).unwrap();
        // Otherwise the broker that all tests share gets slower with each of them. A private one may be away by now.
        let brokers = &self.scope.endpoints.kafka_brokers;
        if *brokers == TestServers::shared().endpoints().kafka_brokers {
            let names = TopicNames::new(&self.scope.topic_prefix);
            topic::verify::remove_all(brokers, &names).await.unwrap();
        }
    }
}

/// Makes one client for each api process of a platform.
pub fn clients_of(platform: &Platform, clock: &Clock) -> Vec<Api> {
    let options = &platform.options;
    let client = |url: &String| {
        Api::new(url, &options.jwt_secret, &options.operator_key, clock.clone()).unwrap()
    };
    platform.api_urls().iter().map(client).collect()
}

/// Merges the histories of all runs.
pub fn histories(runs: Vec<Run>) -> History {
    History { records: runs.into_iter().flat_map(|run| run.history.records).collect() }
}

/// Asserts that a log contains no panic.
///
/// # Panics
/// It contains one.
pub fn assert_no_panic(log: &str) {
    let panicked: Vec<&str> = log.lines().filter(|line| line.contains("panicked")).collect();
    assert!(panicked.is_empty(), "{panicked:#?}");
}

//! The campaign of alerts: a Prometheus with ops/alerts.yaml watches a platform on servers of its own, each worry is
//! made once, and its alert must fire. The rules' `for` is left out, since the worry itself is tried, not how long it
//! must last; ops/alerts.test.yaml tries that. `steps.rs` says which step provokes which alerts.

mod api;
mod claims;
mod defects;
mod holds;
mod load;
mod prometheus;
mod queue;
mod servers;
mod steps;
mod views;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicI64},
    time::Duration,
};

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::{FakeClock, Options, Platform, PlatformOptions, Servers, project_root};
use mysql_store::{connect, migrate, verify as store};
use runtime::Clock;
use shopper::{Api, NewTemplate};
use testkit::until;
use tokio::{
    process::{Child, Command},
    task::JoinHandle,
    time::{Instant, sleep},
};
use topic::TopicNames;

use self::steps::{STEPS, Step};

/// Longest wait for an alert: some are about what lasts a minute, and are looked for every ten seconds.
const FIRES_WITHIN: Duration = Duration::from_secs(120);

/// Interval between looks at Prometheus, and between requests that fail.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// First user of the loads. The steps' own users have small numbers.
const LOAD_USERS: i64 = 1_000_000;

/// Where the api waits while a step holds it: without a restart, since Prometheus would see one.
const HELD_AT: [&str; 4] =
    ["claims.after_gate", "resolver.before_fence", "landing.before_begin", "settler.before_settle"];

struct Stage {
    dir: PathBuf,
    servers: Servers,
    platform: Platform,
    clock: FakeClock,
    api: Api,
    names: TopicNames,
    prometheus: String,
    fired: BTreeSet<String>,
    next_user: Arc<AtomicI64>,
    /// Ends with this value.
    _watching: Child,
}

/// Holds the api at a fail point, until it is dropped.
struct Hold(PathBuf);

impl Hold {
    fn at(file: PathBuf) -> Self {
        fs::write(&file, "").unwrap();
        Self(file)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// The names of the steps.
pub fn steps() -> impl Iterator<Item = &'static str> {
    STEPS.iter().map(|step| step.name)
}

/// Makes each worry once, or only those of the steps `only`, and reports each through `say`. Returns the number of
/// alerts that fired.
///
/// # Panics
/// An alert does not fire.
pub async fn run(only: &[String], say: impl Fn(String)) -> usize {
    let dir = project_root().join(".dev/alerts");
    drop(fs::remove_dir_all(&dir));
    fs::create_dir_all(&dir).unwrap();
    let mut stage = Stage::begin(&dir).await;
    for step in &STEPS {
        if only.is_empty() || only.iter().any(|name| name == step.name) {
            say(step.name.to_owned());
            stage.take(step, &say).await;
        }
    }
    say(format!("the logs are in {}", stage.dir.display()));
    let fired = stage.fired.len();
    stage.platform.stop().await.unwrap();
    stage.servers.stop().await.unwrap();
    fired
}

impl Stage {
    async fn begin(dir: &Path) -> Self {
        let servers = Servers::start(dir, &Options::default()).await.unwrap();
        let endpoints = servers.endpoints();
        migrate::run(&endpoints.database_url).await.unwrap();
        let options = PlatformOptions::new(dir.join("platform")).with_env("TRUSTED_PROXIES", "");
        let mut platform = Platform::prepare(endpoints, options).unwrap();
        let clock = FakeClock::new(&dir.join("clock")).unwrap();
        clock.give(&mut platform.expiry_worker);
        platform.apis[0].set_env("FAIL_POINTS", &fail_points(dir));
        let mut targets = Vec::new();
        for process in platform.processes() {
            process.spawn().unwrap();
            targets.push((process.name().to_owned(), process.address()));
        }
        for process in platform.processes() {
            process.ready().await.unwrap();
        }
        let PlatformOptions { jwt_secret, operator_key, topic_prefix, .. } = &platform.options;
        let api = Api::new(platform.api_url(), jwt_secret, operator_key, Clock::system()).unwrap();
        let names = TopicNames::new(topic_prefix.clone());
        let (watching, prometheus) = prometheus::watch(dir, &targets);
        // A counter that rose before Prometheus first scraped it shows no increase.
        until(async || prometheus::watched(&prometheus).await, |seen| *seen == targets.len()).await;
        Self {
            dir: dir.to_owned(),
            servers,
            platform,
            clock,
            api,
            names,
            prometheus,
            fired: BTreeSet::new(),
            next_user: Arc::new(AtomicI64::new(LOAD_USERS)),
            _watching: watching,
        }
    }

    /// Takes a step, and compares the alerts that fired with those that it names.
    async fn take(&mut self, Step { name, provokes }: &Step, say: &impl Fn(String)) {
        let before = self.fired.clone();
        match *name {
            "abandoned_admission" => self.abandoned_admission(say).await,
            "kafka_away" => self.kafka_away(say).await,
            "processes_away" => self.processes_away(say).await,
            "wrong_clock" => self.wrong_clock(say).await,
            "foreign_messages" => self.foreign_messages(say).await,
            "bad_payments" => self.bad_payments(say).await,
            "late_holds" => self.late_holds(say).await,
            "locked_hold" => self.locked_hold(say).await,
            "lost_wake_up" => self.lost_wake_up(say).await,
            "wrong_gates" => self.wrong_gates(say).await,
            "refused_rows" => self.refused_rows(say).await,
            "held_claims" => self.held_claims(say).await,
            "locked_table" => self.locked_table(say).await,
            "full_outbox" => self.full_outbox(say).await,
            "names_taken" => self.names_taken(say).await,
            "draining_gate" => self.draining_gate(say).await,
            "old_job" => self.old_job(say).await,
            "damaged_view" => self.damaged_view(say).await,
            "forgetful_view" => self.forgetful_view(say).await,
            "cold_views" => self.cold_views(say).await,
            "view_away" => self.view_away(say).await,
            "forgotten_messages" => self.forgotten_messages(say).await,
            "broken_binlog_streams" => self.broken_binlog_streams(say).await,
            "too_long_row" => self.too_long_row(say).await,
            "left_prepared" => self.left_prepared(say).await,
            "unversioned_update" => self.unversioned_update(say).await,
            "gate_not_loaded" => self.gate_not_loaded(say).await,
            "busy_api" => self.busy_api(say).await,
            "mysql_away" => self.mysql_away(say).await,
            _ => panic!("no step is called {name}"),
        }
        let fired: BTreeSet<&str> = self.fired.difference(&before).map(String::as_str).collect();
        assert_eq!(fired, provokes.iter().copied().collect(), "the alerts of {name}");
    }

    /// Holds the api at a fail point of [`HELD_AT`].
    fn hold(&self, point: &str) -> Hold {
        Hold::at(self.dir.join(point))
    }

    /// Waits until these alerts fire.
    async fn fires(&mut self, alerts: &[&str], say: &impl Fn(String)) {
        let begun = Instant::now();
        for alert in alerts {
            loop {
                let firing = prometheus::firing(&self.prometheus).await;
                if firing.contains(*alert) {
                    break;
                }
                let waited = begun.elapsed();
                assert!(waited < FIRES_WITHIN, "{alert} does not fire: {firing:?}");
                sleep(LOOK_EVERY).await;
            }
            say(format!("{alert:<26} fired after {:.1} s", begun.elapsed().as_secs_f64()));
            self.fired.insert((*alert).to_owned());
        }
    }

    async fn all_ready(&mut self) {
        for process in self.platform.processes() {
            process.ready().await.unwrap();
        }
    }

    /// Publishes a template of an hour with this stock.
    async fn template(
        &self,
        stock: i64,
        change: impl FnOnce(NewTemplate) -> NewTemplate,
    ) -> TemplateId {
        let now = self.api.clock().now();
        let new = change(NewTemplate::simple("A sale", stock, now, TimeDelta::hours(1)));
        self.api.publish_new(&new).await.unwrap().id
    }

    /// Claims once, and asserts the status.
    async fn claim(&self, template: TemplateId, user: i64, status: u16) {
        let shopper = self.api.shopper(UserId(user)).unwrap();
        let answer = shopper.claim(template, None, 1).await.unwrap();
        assert_eq!(answer.status, status, "{answer:?}");
    }

    /// Claims without waiting for the answer.
    fn claim_aside(&self, template: TemplateId, user: i64) -> JoinHandle<()> {
        let shopper = self.api.shopper(UserId(user)).unwrap();
        tokio::spawn(async move { drop(shopper.claim(template, None, 1).await) })
    }

    /// Restarts the api with other settings.
    async fn set_api(&mut self, settings: &[(&str, &str)]) {
        let api = &mut self.platform.apis[0];
        for (name, value) in settings {
            api.set_env(name, value);
        }
        api.restart().await.unwrap();
    }

    async fn number(&self, query: &str) -> i64 {
        let url = self.servers.endpoints().database_url;
        let mut connection = connect::single(&url).await.unwrap();
        store::number(&mut connection, query).await.unwrap()
    }

    async fn sql(&self, statement: &str) {
        let url = self.servers.endpoints().database_url;
        let mut connection = connect::single(&url).await.unwrap();
        store::execute(&mut connection, statement).await.unwrap();
    }
}

/// The api's fail points: it waits where [`Stage::hold`] holds it.
fn fail_points(dir: &Path) -> String {
    let points = HELD_AT.map(|point| format!("{point}=hold:{}", dir.join(point).display()));
    points.join(",")
}

/// Sends a command to a Redis, and returns its answer.
async fn redis(url: &str, words: &[&str]) -> String {
    let output =
        Command::new("redis-cli").args(["-e", "-u", url]).args(words).output().await.unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

//! The campaign of alerts: a Prometheus with ops/alerts.yaml watches a platform on servers of its own, each worry that can be
//! made in minutes is made once, and its alert must fire. The rules' `for` is left out, since the worry itself is tried, not
//! how long it must last; ops/alerts.test.yaml tries that. Alerts that no step provokes are named with the reason in
//! `excuses.rs`.

mod defects;
mod excuses;
mod holds;
mod prometheus;
mod queue;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
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
    net::TcpStream,
    process::{Child, Command},
    task::JoinHandle,
    time::{Instant, sleep},
};
use topic::{Producer, ProducerOptions, TopicNames};

/// Longest wait for an alert: outages show within seconds, and counters with the next scrape.
const FIRES_WITHIN: Duration = Duration::from_secs(90);

/// Interval between looks at Prometheus, and between requests that fail.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Limit of connections of one address at first, how many are opened, and later the limit of all: fewer than one in ten
/// is free then.
const CONNECTIONS: usize = 16;
const CONNECTIONS_OPENED: usize = 64;
const CONNECTIONS_MAX: usize = 68;

/// Failures of a gate's rebuild in a row: more than the rule allows.
const REBUILDS_FAILED: usize = 8;

struct Stage {
    dir: PathBuf,
    servers: Servers,
    platform: Platform,
    clock: FakeClock,
    api: Api,
    names: TopicNames,
    prometheus: String,
    fired: BTreeSet<String>,
    /// Ends with this value.
    _watching: Child,
}

/// The steps, in their order: what stands behind one finds the platform whole again.
pub const STEPS: [&str; 20] = [
    "kafka_away",
    "processes_away",
    "wrong_clock",
    "foreign_messages",
    "bad_payments",
    "late_holds",
    "locked_hold",
    "wrong_gates",
    "refused_rows",
    "full_outbox",
    "draining_gate",
    "damaged_view",
    "view_away",
    "forgotten_messages",
    "broken_binlog_streams",
    "too_long_row",
    "left_prepared",
    "unversioned_update",
    "gate_not_loaded",
    "busy_api",
];

/// Makes each worry once, or only those of the steps `only`, and reports each through `say`. Returns the number of alerts
/// that fired.
///
/// # Panics
/// An alert does not fire, or one of ops/alerts.yaml is neither provoked nor excused.
pub async fn run(only: &[String], say: impl Fn(String)) -> usize {
    let dir = project_root().join(".dev/alerts");
    drop(fs::remove_dir_all(&dir));
    fs::create_dir_all(&dir).unwrap();
    let mut stage = Stage::begin(&dir).await;
    for step in STEPS {
        if only.is_empty() || only.iter().any(|name| name == step) {
            stage.take(step, &say).await;
        }
    }
    if only.is_empty() {
        stage.assert_all_known(&say);
    }
    say(format!("the logs are in {}", stage.dir.display()));
    let fired = stage.fired.len();
    stage.platform.stop().await.unwrap();
    stage.servers.stop().await.unwrap();
    fired
}

/// The names of ops/alerts.yaml.
fn alerts() -> Vec<String> {
    let rules = fs::read_to_string(project_root().join("ops/alerts.yaml")).unwrap();
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    names.map(str::to_owned).collect()
}

impl Stage {
    async fn begin(dir: &Path) -> Self {
        let servers = Servers::start(dir, &Options::default()).await.unwrap();
        let endpoints = servers.endpoints();
        migrate::run(&endpoints.database_url).await.unwrap();
        let options = PlatformOptions::new(dir.join("platform"))
            .with_env("TRUSTED_PROXIES", "")
            .with_env("CONNECTIONS_PER_ADDRESS", &CONNECTIONS.to_string());
        let mut platform = Platform::prepare(endpoints, options).unwrap();
        let clock = FakeClock::new(&dir.join("clock")).unwrap();
        clock.give(&mut platform.expiry_worker);
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
        // What is counted before the first look at it is no increase.
        until(async || prometheus::watched(&prometheus).await, |seen| *seen == targets.len()).await;
        let fired = BTreeSet::new();
        let dir = dir.to_owned();
        Self { dir, servers, platform, clock, api, names, prometheus, fired, _watching: watching }
    }

    async fn take(&mut self, step: &str, say: &impl Fn(String)) {
        match step {
            "kafka_away" => self.kafka_away(say).await,
            "processes_away" => self.processes_away(say).await,
            "wrong_clock" => self.wrong_clock(say).await,
            "foreign_messages" => self.foreign_messages(say).await,
            "bad_payments" => self.bad_payments(say).await,
            "late_holds" => self.late_holds(say).await,
            "locked_hold" => self.locked_hold(say).await,
            "wrong_gates" => self.wrong_gates(say).await,
            "refused_rows" => self.refused_rows(say).await,
            "full_outbox" => self.full_outbox(say).await,
            "draining_gate" => self.draining_gate(say).await,
            "damaged_view" => self.damaged_view(say).await,
            "view_away" => self.view_away(say).await,
            "forgotten_messages" => self.forgotten_messages(say).await,
            "broken_binlog_streams" => self.broken_binlog_streams(say).await,
            "too_long_row" => self.too_long_row(say).await,
            "left_prepared" => self.left_prepared(say).await,
            "unversioned_update" => self.unversioned_update(say).await,
            "gate_not_loaded" => self.gate_not_loaded(say).await,
            "busy_api" => self.busy_api(say).await,
            _ => panic!("no step is called {step}"),
        }
    }

    fn assert_all_known(&self, say: &impl Fn(String)) {
        for (alert, why) in excuses::NOT_PROVOKED {
            say(format!("{alert:<26} not provoked: {why}"));
        }
        let excused: BTreeSet<&str> =
            excuses::NOT_PROVOKED.iter().map(|(alert, _)| *alert).collect();
        for alert in alerts() {
            let is_known = excused.contains(alert.as_str()) != self.fired.contains(&alert);
            assert!(is_known, "{alert} is neither provoked nor excused, or both");
        }
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

    async fn kafka_away(&mut self, say: &impl Fn(String)) {
        let queued = self.template(5, |new| new.in_mode("queued", "topic")).await;
        self.servers.kafka.kill().unwrap();
        // Nobody knows whether it is accepted; it stays in the outbox, and the relay tries again and again.
        let claim = self.claim_aside(queued, 1);
        let alerts = [
            "ServerAway",
            "ReadinessLost",
            "LagUnknown",
            "ClaimAppendsFail",
            "OutboxNotRelayed",
            "QueuedClaimsLate",
        ];
        self.fires(&alerts, say).await;
        claim.abort();
        self.servers.kafka.start().await.unwrap();
        self.all_ready().await;
    }

    async fn processes_away(&mut self, say: &impl Fn(String)) {
        self.platform.cdc_tailer.kill().unwrap();
        self.platform.expiry_worker.kill().unwrap();
        self.fires(&["ProcessDown", "TailerNoLeader", "ExpiryShardsUnowned"], say).await;
        self.platform.cdc_tailer.start().await.unwrap();
        self.platform.expiry_worker.start().await.unwrap();
    }

    async fn wrong_clock(&mut self, say: &impl Fn(String)) {
        self.clock.set(10).unwrap();
        self.fires(&["ClocksApart", "ExpiryStopped"], say).await;
        self.clock.set(0).unwrap();
        self.all_ready().await;
    }

    async fn foreign_messages(&mut self, say: &impl Fn(String)) {
        let brokers = self.servers.endpoints().kafka_brokers;
        let producer = Producer::connect(&brokers, ProducerOptions::default()).await.unwrap();
        let names = &self.names;
        for topic in [names.user_coupon(), names.stock_movement(), names.expiry(), names.claims()] {
            producer.send(&topic, None, b"1", b"{", &[]).await.unwrap();
        }
        let alerts =
            ["ConsumerDeadLetters", "MovementsUnreadable", "ExpiryUnreadable", "QueuedClaimsFail"];
        self.fires(&alerts, say).await;
    }

    async fn unversioned_update(&mut self, say: &impl Fn(String)) {
        let template = self.template(5, |new| new).await;
        self.claim(template, 1, 201).await;
        self.sql("drop trigger user_coupon_version").await;
        self.sql("update user_coupon set changed_at = changed_at + interval 1 second").await;
        self.fires(&["TailerUnversioned"], say).await;
    }

    async fn gate_not_loaded(&mut self, say: &impl Fn(String)) {
        let points = ["rebuild.before_open=error"; REBUILDS_FAILED].join(",");
        self.restart_api(&points).await;
        let now = self.api.clock().now();
        let new = NewTemplate::simple("Without a gate", 5, now, TimeDelta::hours(1));
        // The change is made, and the answer says that its gate is not loaded.
        drop(self.api.publish_new(&new).await);
        self.fires(&["GateNotLoaded", "GateRebuildsFail"], say).await;
        self.restart_api("").await;
    }

    async fn restart_api(&mut self, fail_points: &str) {
        self.set_api(&[("FAIL_POINTS", fail_points)]).await;
    }

    /// Restarts the api with other settings.
    async fn set_api(&mut self, settings: &[(&str, &str)]) {
        let api = &mut self.platform.apis[0];
        api.stop().await.unwrap();
        for (name, value) in settings {
            api.set_env(name, value);
        }
        api.start().await.unwrap();
    }

    /// Has one address open too many connections, then all of them, then lets nothing reach MySQL.
    async fn busy_api(&mut self, say: &impl Fn(String)) {
        let open = self.open_connections().await;
        self.fires(&["ApiAddressAtItsLimit"], say).await;
        drop(open);
        let all = CONNECTIONS_OPENED.to_string();
        let most = CONNECTIONS_MAX.to_string();
        self.set_api(&[("CONNECTIONS_PER_ADDRESS", &all), ("CONNECTIONS_MAX", &most)]).await;
        let open = self.open_connections().await;
        self.fires(&["ApiConnectionsNearlyAll"], say).await;
        drop(open);
        self.servers.database.kill().unwrap();
        let api = self.api.clone();
        let asking = tokio::spawn(async move {
            loop {
                drop(api.template(TemplateId(1)).await);
                sleep(LOOK_EVERY).await;
            }
        });
        self.fires(&["ApiErrors"], say).await;
        asking.abort();
        self.servers.database.start().await.unwrap();
        self.all_ready().await;
    }

    async fn open_connections(&self) -> Vec<TcpStream> {
        let address = self.platform.api_url().trim_start_matches("http://").to_owned();
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS_OPENED {
            // One too many may be closed before we know that it was open.
            open.extend(TcpStream::connect(&address).await);
        }
        open
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

/// Sends a command to a Redis, and returns what it says.
async fn redis(url: &str, words: &[&str]) -> String {
    let output =
        Command::new("redis-cli").args(["-e", "-u", url]).args(words).output().await.unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

//! The campaign of alerts: a Prometheus with ops/alerts.yaml watches a platform on servers of its own, each worry that can be
//! made in minutes is made once, and its alert must fire. The rules' `for` is left out, since the worry itself is tried, not
//! how long it must last; ops/alerts.test.yaml tries that. Alerts that no step provokes are named with the reason.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use chrono::TimeDelta;
use coupon::UserId;
use devstack::{FakeClock, Options, Platform, PlatformOptions, Servers, free_port, project_root};
use mysql_store::{connect, migrate, verify as store};
use runtime::Clock;
use serde_json::Value;
use shopper::{Api, NewTemplate};
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{Instant, sleep},
};
use topic::{Producer, ProducerOptions, TopicNames};

/// Longest wait for an alert: outages show within seconds, and counters with the next scrape.
const FIRES_WITHIN: Duration = Duration::from_secs(90);

/// Interval between looks at Prometheus, and between requests that fail.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Limit of connections of one address, and how many are opened.
const CONNECTIONS: usize = 16;
const CONNECTIONS_OPENED: usize = 40;

/// Failures of a gate's rebuild in a row: more than the rule allows.
const REBUILDS_FAILED: usize = 8;

/// Alerts that no step provokes, and why.
const NOT_PROVOKED: [(&str, &str); 24] = [
    ("GateDisagreesWithMysql", OF_A_DEFECT),
    ("GateHoldsTooLittle", OF_A_DEFECT),
    ("GateUnreadable", OF_A_DEFECT),
    ("ClaimsStuck", OF_LOAD),
    ("ClaimsShed", OF_LOAD),
    ("LandingQueued", OF_LOAD),
    ("LandingSlow", OF_LOAD),
    ("LandingRefused", OF_A_DEFECT),
    ("SettlingBehind", OF_LOAD),
    ("ClaimStatsLost", OF_HOURS),
    ("JobStuck", OF_HOURS),
    ("ApiPoolEmpty", OF_LOAD),
    ("ApiRequestsHeld", OF_LOAD),
    ("ApiConnectionsNearlyAll", OF_LOAD),
    ("TailerBehind", OF_LOAD),
    ("TailerBinlogExpires", OF_HOURS),
    ("TailerReconnects", OF_HOURS),
    ("TailerDeadLetters", OF_A_DEFECT),
    ("ConsumerBehind", OF_LOAD),
    ("ConsumerRetries", OF_LOAD),
    ("ConsumerGap", OF_HOURS),
    ("ViewLosesWrites", OF_A_DEFECT),
    ("ViewDamaged", OF_A_DEFECT),
    ("ViewTooSmall", OF_LOAD),
];
const OF_A_DEFECT: &str = "a defect or a foreign writer: see the tests of that defect";
const OF_LOAD: &str = "a load or a slowness that this machine does not make: see the unit test";
const OF_HOURS: &str = "hours, or many minutes: see the unit test";

/// The same for expiry, whose worries come from a storm or an old message.
const EXPIRY_NOT_PROVOKED: [(&str, &str); 3] =
    [("ExpiryLate", OF_LOAD), ("ExpirySweepFinds", OF_HOURS), ("ExpiryRetries", OF_LOAD)];

/// The same for queued claims.
const QUEUE_NOT_PROVOKED: [(&str, &str); 6] = [
    ("QueuedClaimsLate", OF_HOURS),
    ("OutboxNotRelayed", OF_HOURS),
    ("ClaimLanderBehind", OF_HOURS),
    ("GateDrains", OF_HOURS),
    ("QueuedClaimsUnknown", OF_LOAD),
    ("QueuedGateWrong", OF_A_DEFECT),
];

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

/// Makes each worry once, and reports each through `say`. Returns the alerts that fired.
///
/// # Panics
/// An alert does not fire, or one of ops/alerts.yaml is neither provoked nor excused.
pub async fn run(say: impl Fn(String)) -> usize {
    let dir = project_root().join(".dev/alerts");
    drop(fs::remove_dir_all(&dir));
    fs::create_dir_all(&dir).unwrap();
    let mut stage = Stage::begin(&dir).await;
    stage.kafka_away(&say).await;
    stage.processes_away(&say).await;
    stage.wrong_clock(&say).await;
    stage.foreign_messages(&say).await;
    stage.unversioned_update(&say).await;
    stage.too_many_connections(&say).await;
    stage.gate_not_loaded(&say).await;
    stage.mysql_away(&say).await;
    let excused = NOT_PROVOKED.iter().chain(&EXPIRY_NOT_PROVOKED).chain(&QUEUE_NOT_PROVOKED);
    for (alert, why) in excused.clone() {
        say(format!("{alert:<26} not provoked: {why}"));
    }
    let known: BTreeSet<String> = excused.map(|(alert, _)| (*alert).to_owned()).collect();
    for alert in alerts() {
        let is_known = known.contains(&alert) || stage.fired.contains(&alert);
        assert!(is_known, "no step provokes {alert}, and nothing says why");
    }
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
        let (watching, prometheus) = watch(dir, &targets);
        let fired = BTreeSet::new();
        let dir = dir.to_owned();
        Self { dir, servers, platform, clock, api, names, prometheus, fired, _watching: watching }
    }

    /// Waits until these alerts fire.
    async fn fires(&mut self, alerts: &[&str], say: &impl Fn(String)) {
        let begun = Instant::now();
        for alert in alerts {
            loop {
                let firing = firing(&self.prometheus).await;
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
        self.servers.kafka.kill().unwrap();
        self.fires(&["ServerAway", "ReadinessLost", "LagUnknown"], say).await;
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
        let now = self.api.clock().now();
        let new = NewTemplate::simple("A sale", 5, now, TimeDelta::hours(1));
        let template = self.api.publish_new(&new).await.unwrap().id;
        let shopper = self.api.shopper(UserId(1)).unwrap();
        assert_eq!(shopper.claim(template, None, 1).await.unwrap().status, 201);
        let url = self.servers.endpoints().database_url;
        let mut connection = connect::single(&url).await.unwrap();
        for sql in [
            "drop trigger user_coupon_version",
            "update user_coupon set changed_at = changed_at + interval 1 second",
        ] {
            store::execute(&mut connection, sql).await.unwrap();
        }
        self.fires(&["TailerUnversioned"], say).await;
    }

    async fn too_many_connections(&mut self, say: &impl Fn(String)) {
        let address = self.platform.api_url().trim_start_matches("http://").to_owned();
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS_OPENED {
            open.push(TcpStream::connect(&address).await.unwrap());
        }
        self.fires(&["ApiAddressAtItsLimit"], say).await;
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
        let api = &mut self.platform.apis[0];
        api.stop().await.unwrap();
        api.set_env("FAIL_POINTS", fail_points);
        api.start().await.unwrap();
    }

    async fn mysql_away(&mut self, say: &impl Fn(String)) {
        self.servers.database.kill().unwrap();
        let api = self.api.clone();
        let asking = tokio::spawn(async move {
            loop {
                drop(api.template(coupon::TemplateId(1)).await);
                sleep(LOOK_EVERY).await;
            }
        });
        self.fires(&["ApiErrors"], say).await;
        asking.abort();
        self.servers.database.start().await.unwrap();
        self.all_ready().await;
        say(format!("the logs are in {}", self.dir.display()));
    }
}

/// Starts a Prometheus that scrapes these processes each second. Returns it with its address.
fn watch(dir: &Path, targets: &[(String, SocketAddr)]) -> (Child, String) {
    let rules = fs::read_to_string(project_root().join("ops/alerts.yaml")).unwrap();
    let rules: Vec<&str> = rules.lines().filter(|line| !line.trim().starts_with("for: ")).collect();
    fs::write(dir.join("alerts.yaml"), rules.join("\n")).unwrap();
    let mut config = "global: {scrape_interval: 1s, evaluation_interval: 1s}\n\
                      rule_files: [alerts.yaml]\nscrape_configs:\n  - job_name: coupon\n    \
                      static_configs:\n"
        .to_owned();
    for (process, address) in targets {
        config.push_str(&format!(
            "      - {{targets: [\"{address}\"], labels: {{process: {process}}}}}\n"
        ));
    }
    fs::write(dir.join("prometheus.yml"), config).unwrap();
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let log = fs::File::create(dir.join("prometheus.log")).unwrap();
    let child = Command::new("prometheus")
        .arg(format!("--config.file={}", dir.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("prometheus").display()))
        .arg(format!("--web.listen-address={address}"))
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .expect("prometheus runs: `ops/install.sh --for-tests` installs it");
    (child, format!("http://{address}"))
}

/// Returns the names of the alerts that fire now; none while Prometheus starts.
async fn firing(prometheus: &str) -> BTreeSet<String> {
    let answer = async {
        let answer = reqwest::get(format!("{prometheus}/api/v1/alerts")).await.ok()?;
        answer.json::<Value>().await.ok()
    };
    let answer = answer.await.unwrap_or_default();
    let alerts = answer.pointer("/data/alerts").and_then(Value::as_array).into_iter().flatten();
    let firing = alerts.filter(|alert| alert["state"] == "firing");
    firing.filter_map(|alert| Some(alert["labels"]["alertname"].as_str()?.to_owned())).collect()
}

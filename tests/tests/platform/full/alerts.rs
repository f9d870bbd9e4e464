//! Three alerts from their cause to their firing, under a real Prometheus with ops/alerts.yaml: a process that is gone, a
//! counter and a comparison. ops/alerts.test.yaml tries every rule, and how long it waits; here `for` is left out.

use std::{
    collections::BTreeSet, fs, io::ErrorKind, net::SocketAddr, path::Path, process::Stdio,
    time::Duration,
};

use coupon::UserId;
use devstack::{free_port, not_checked, project_root};
use pipeline_tests::{World, until, until_within};
use serde_json::Value;
use tokio::process::{Child, Command};
use topic::{Producer, ProducerOptions, TopicNames};

use crate::queued::{gate_command, gate_key};

/// A Prometheus that scrapes each second. It ends with this value.
struct Prometheus {
    address: String,
    _child: Child,
}

impl Prometheus {
    /// `None` if Prometheus is not installed.
    fn watch(dir: &Path, targets: &[(String, SocketAddr)]) -> Option<Self> {
        let rules = fs::read_to_string(project_root().join("ops/alerts.yaml")).unwrap();
        // Neither waits nor paces of their own: it evaluates each second.
        let is_of_time = |line: &&str| {
            ["for: ", "interval: "].iter().any(|field| line.trim().starts_with(field))
        };
        let rules: Vec<&str> = rules.lines().filter(|line| !is_of_time(line)).collect();
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
        let started = Command::new("prometheus")
            .arg(format!("--config.file={}", dir.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("prometheus").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(dir.join("prometheus.log")).unwrap())
            .kill_on_drop(true)
            .spawn();
        match started {
            Ok(child) => Some(Self { address, _child: child }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                not_checked("alerts from cause to firing: prometheus is not on this machine");
                None
            }
            Err(error) => panic!("prometheus: {error}"),
        }
    }

    /// Returns the elements of a list in an answer of its API; none while it starts.
    async fn list(&self, path: &str, pointer: &str) -> Vec<Value> {
        let answer = async {
            let url = format!("http://{}/api/v1/{path}", self.address);
            reqwest::get(url).await.ok()?.json::<Value>().await.ok()
        };
        let answer = answer.await.unwrap_or_default();
        answer.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
    }

    /// Returns the number of processes that it has scraped.
    async fn scraped(&self) -> usize {
        let targets = self.list("targets", "/data/activeTargets").await;
        targets.iter().filter(|target| target["health"] == "up").count()
    }

    /// Returns the names of the alerts that fire now and tell somebody.
    async fn firing(&self) -> BTreeSet<String> {
        let alerts = self.list("alerts", "/data/alerts").await;
        let firing = alerts
            .iter()
            .filter(|alert| alert["state"] == "firing" && alert["labels"]["severity"] != "none");
        firing.filter_map(|alert| Some(alert["labels"]["alertname"].as_str()?.to_owned())).collect()
    }
}

#[tokio::test]
async fn a_dead_process_a_foreign_message_and_a_wrong_gate_each_fire_their_alert() {
    let mut world = World::start("alerts").await;
    let mut targets = Vec::new();
    for process in world.platform.processes() {
        targets.push((process.name().to_owned(), process.address()));
    }
    let Some(prometheus) = Prometheus::watch(&world.platform.options.dir, &targets) else {
        return world.end().await;
    };
    // A counter that rose before Prometheus first scraped it shows no increase.
    until(async || prometheus.scraped().await, |seen| *seen == targets.len()).await;
    // Rules that count processes fire until it has scraped them.
    until(async || prometheus.firing().await, BTreeSet::is_empty).await;

    let brokers = &world.scope.endpoints.kafka_brokers;
    let producer = Producer::connect(brokers, ProducerOptions::default()).await.unwrap();
    let topic = TopicNames::new(&world.scope.topic_prefix).user_coupon();
    producer.send(&topic, None, b"1", b"{", &[]).await.unwrap();
    fires(&prometheus, "ConsumerDeadLetters").await;

    promise_what_mysql_does_not_have(&world).await;
    fires(&prometheus, "GateDisagreesWithMysql").await;

    world.platform.expiry_worker.kill().unwrap();
    fires(&prometheus, "ProcessDown").await;
    world.platform.expiry_worker.start().await.unwrap();
    world.end().await;
}

async fn fires(prometheus: &Prometheus, alert: &str) {
    let fires_within = Duration::from_secs(60);
    until_within(fires_within, async || prometheus.firing().await, |firing| firing.contains(alert))
        .await;
}

/// Has a gate admit one claim more than its template has coupons. A keeper that looks at the gate just then ends the lie,
/// and the claim is refused without MySQL; then another template's gate lies.
async fn promise_what_mysql_does_not_have(world: &World) {
    let api = &world.platform.apis[0];
    let short = "coupon_gate_db_rejections_total{decision=\"short\"}";
    let rejections = async || api.metric(short).await.unwrap_or(0.0);
    while rejections().await < 1.0 {
        let template = world.template(1, |new| new).await;
        for (user, status) in [(1, 201), (2, 409)] {
            let shopper = world.api().shopper(UserId(user)).unwrap();
            let answer = shopper.claim(template, None, 1).await.unwrap();
            assert_eq!(answer.status, status, "{answer:?}");
            let meta = gate_key(world, template, "meta");
            gate_command(world, &["HSET", &meta, "stock", "5"]).await;
        }
    }
}

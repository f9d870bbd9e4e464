//! A test's own database and topics, and tailers to start and stop.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::{
    io::Write as _,
    process::{Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use cdc_tailer::Config;
use clap::Parser as _;
use devstack::{Flavor, OwnDatabase, Scope, TestServers, if_installed};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use runtime::{Clock, Health};
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use topic::{Event, FencedWriter, Message, TableReader, TopicNames, UserCouponRow};

/// Time after which a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes the server ids of this test run unique.
static SERVER_ID: AtomicU32 = AtomicU32::new(1);

/// The counters of all tailers in this process.
static METRICS: LazyLock<PrometheusHandle> =
    LazyLock::new(|| PrometheusBuilder::new().install_recorder().unwrap());

pub(crate) struct Harness {
    pub(crate) names: TopicNames,
    pub(crate) config: Config,
    scope: Scope,
    /// Its server, if it is not shared.
    _own: Option<OwnDatabase>,
}

/// A tailer running in this process.
pub(crate) struct Running {
    task: JoinHandle<anyhow::Result<()>>,
    stop: CancellationToken,
    health: Health,
}

/// Returns a statement that inserts a coupon.
pub(crate) fn coupon(id: i64, user: i64) -> String {
    format!(
        "insert into user_coupon values ({id}, 7, {user}, {id}, 9, 1, 0, 1, 200, '2026-01-02', \
         '2026-01-02', '2026-01-01', '2026-02-01', null, null, null)"
    )
}

impl Harness {
    pub(crate) async fn new(name: &str) -> Self {
        Self::in_scope(TestServers::shared().scope(name), None).await
    }

    /// Creates a harness on every server that tests run on: the shared one, and MySQL if it is installed.
    pub(crate) async fn on_all(name: &str) -> Vec<Self> {
        let shared = Self::new(name).await;
        let mysql = match shared.is_mariadb() {
            true => Self::on_own(name, Flavor::Mysql, &[]).await,
            false => None,
        };
        [shared].into_iter().chain(mysql).collect()
    }

    /// Creates a harness on its own server; `None` if MySQL is not installed, which `if_installed` reports.
    pub(crate) async fn on_own(name: &str, flavor: Flavor, settings: &[&str]) -> Option<Self> {
        let folder = format!("tailer-{name}-{}", flavor.name()).replace(' ', "-");
        let own = if_installed(OwnDatabase::start(&folder, flavor, settings).await, &folder)?;
        let mut scope = TestServers::shared().scope(name);
        scope.endpoints.database_url = own.url();
        scope.endpoints = scope.endpoints.with_database(&scope.database);
        Some(Self::in_scope(scope, Some(own)).await)
    }

    /// Creates a harness on its own MariaDB and one on its own MySQL.
    pub(crate) async fn on_own_of_each(name: &str, settings: &[&str]) -> Vec<Self> {
        let mut all = Vec::new();
        for flavor in [Flavor::Mariadb, Flavor::Mysql] {
            all.extend(Self::on_own(name, flavor, settings).await);
        }
        all
    }

    async fn in_scope(scope: Scope, own: Option<OwnDatabase>) -> Self {
        LazyLock::force(&METRICS);
        let url = &scope.endpoints.database_url;
        mysql_store::migrate::run(url).await.unwrap();
        let server_id = std::process::id() * 64 + SERVER_ID.fetch_add(1, Ordering::Relaxed);
        let config = Config::parse_from([
            "cdc-tailer",
            "--database-url",
            url,
            "--kafka-brokers",
            &scope.endpoints.kafka_brokers,
            "--topic-prefix",
            &scope.topic_prefix,
            "--topic-partitions",
            "1",
            "--server-id",
            &server_id.to_string(),
        ]);
        Self { names: TopicNames::new(&scope.topic_prefix), config, scope, _own: own }
    }

    /// Returns the value of a counter.
    pub(crate) fn counted(name: &str) -> u64 {
        let text = METRICS.render();
        let value = |line: &str| line.strip_prefix(name)?.trim().parse::<u64>().ok();
        text.lines().filter_map(value).sum()
    }

    /// From now on the tailer and [`Harness::sql`] connect with these options, `ssl-mode=…`.
    pub(crate) fn reach_by(&mut self, options: &str) {
        let url = format!("{}?{options}", self.scope.endpoints.database_url);
        self.config.database_url = url.parse().unwrap();
        self.scope.endpoints.database_url = url;
    }

    /// Starts a tailer and waits until it follows.
    pub(crate) async fn start(&self) -> Running {
        self.start_following(self.config.clone()).await
    }

    /// The same with another configuration.
    pub(crate) async fn start_following(&self, config: Config) -> Running {
        self.start_with(config).following().await
    }

    pub(crate) fn start_with(&self, config: Config) -> Running {
        let (stop, health) = (CancellationToken::new(), Health::default());
        let (token, part) = (stop.clone(), health.part("binlog"));
        let task =
            tokio::spawn(
                async move { cdc_tailer::run(&config, &Clock::system(), &part, token).await },
            );
        Running { task, stop, health }
    }

    /// Runs statements in one session; returns their output.
    pub(crate) fn sql(&self, text: &str) -> String {
        let url = &self.scope.endpoints.database_url;
        let rest = url.strip_prefix("mysql://").unwrap();
        let (login, rest) = rest.split_once('@').unwrap();
        let (user, password) = login.split_once(':').unwrap();
        let (host, rest) = rest.split_once(':').unwrap();
        let (port, database) = rest.split_once('/').unwrap();
        let (database, options) = database.split_once('?').unwrap_or((database, ""));
        let mut client = Command::new("mariadb")
            .args(if options.contains("ssl-mode") { &["--ssl"][..] } else { &[] })
            .args(["--default-character-set=utf8mb4", "-NB", "-h", host, "-P", port, "-u", user])
            .args([&format!("-p{password}"), database])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        client.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success(), "{text}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn is_mariadb(&self) -> bool {
        self.sql("select version()").contains("MariaDB")
    }

    /// Returns the events of a topic, at least `count`.
    pub(crate) async fn events<R: DeserializeOwned>(
        &self,
        topic: &str,
        count: usize,
    ) -> Vec<Event<R>> {
        self.messages_until(topic, |messages| messages.len() >= count)
            .await
            .iter()
            .map(|message| topic::decode(message.payload.as_ref().unwrap()).unwrap())
            .collect()
    }

    pub(crate) async fn coupons(&self, count: usize) -> Vec<Event<UserCouponRow>> {
        self.events(&self.names.user_coupon(), count).await
    }

    /// Returns coupon ids in the order of their events.
    pub(crate) async fn coupon_ids(&self, count: usize) -> Vec<i64> {
        self.coupons(count).await.into_iter().map(|event| event.after.unwrap().id).collect()
    }

    /// The same, until the last event is of coupon `last`.
    pub(crate) async fn coupon_ids_until(&self, last: i64) -> Vec<i64> {
        let id = |message: &Message| {
            let payload = message.payload.as_ref().unwrap();
            topic::decode::<Event<UserCouponRow>>(payload).unwrap().after.unwrap().id
        };
        let messages = self
            .messages_until(&self.names.user_coupon(), |messages| {
                messages.last().is_some_and(|message| id(message) == last)
            })
            .await;
        messages.iter().map(id).collect()
    }

    /// The same, until there is an event of coupon `wanted`.
    pub(crate) async fn coupon_ids_containing(&self, wanted: i64) -> Vec<i64> {
        let id = |message: &Message| {
            let payload = message.payload.as_ref().unwrap();
            topic::decode::<Event<UserCouponRow>>(payload).unwrap().after.unwrap().id
        };
        let messages = self
            .messages_until(&self.names.user_coupon(), |messages| {
                messages.iter().any(|message| id(message) == wanted)
            })
            .await;
        messages.iter().map(id).collect()
    }

    /// Returns the last checkpoint's text.
    pub(crate) async fn checkpoint(&self) -> String {
        let messages = self.messages_until(&self.names.checkpoint(), |all| !all.is_empty()).await;
        text(messages.last().unwrap())
    }

    pub(crate) async fn checkpoint_other_than(&self, known: &str) {
        let other =
            |messages: &[Message]| messages.last().is_some_and(|message| text(message) != known);
        self.messages_until(&self.names.checkpoint(), other).await;
    }

    /// Writes a modified copy of the last checkpoint.
    pub(crate) async fn overwrite_checkpoint(&self, from: &str, to: &str) {
        let checkpoint = self.checkpoint().await;
        let changed = checkpoint.replace(from, to);
        assert_ne!(checkpoint, changed, "{from}");
        let (brokers, database) = (&self.scope.endpoints.kafka_brokers, &self.scope.database);
        let id = format!("{}.cdc-tailer.{database}", self.names.prefix());
        let writer = FencedWriter::take_over(brokers, &id).await.unwrap();
        let (topic, key) = (self.names.checkpoint(), database.as_bytes());
        writer.write(&topic, key, changed.as_bytes()).await.unwrap();
    }

    /// Returns a topic's messages once `enough` accepts them.
    pub(crate) async fn messages_until(
        &self,
        topic: &str,
        enough: impl Fn(&[Message]) -> bool,
    ) -> Vec<Message> {
        let brokers = &self.scope.endpoints.kafka_brokers;
        let reading = async {
            let mut reader = TableReader::open(brokers, topic).await.unwrap();
            let mut all = Vec::new();
            while !enough(&all) || !reader.caught_up() {
                all.append(&mut reader.next_batch(1000).await.unwrap());
            }
            all
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("the messages arrive")
    }
}

fn text(message: &Message) -> String {
    String::from_utf8(message.payload.clone().unwrap()).unwrap()
}

impl Running {
    /// Waits until it follows.
    pub(crate) async fn following(mut self) -> Self {
        let following = async {
            while !self.health.unready().is_empty() {
                if self.task.is_finished() {
                    let ended = (&mut self.task).await;
                    panic!("the tailer ended at its start: {ended:?}");
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, following).await.expect("the tailer follows");
        self
    }

    /// Waits until it is not ready for a reason that contains `words`; returns the reason.
    pub(crate) async fn until_unready(&self, words: &str) -> String {
        let unready = async {
            loop {
                let told = format!("{:?}", self.health.unready());
                if told.contains(words) {
                    return told;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, unready).await.expect("it is not ready for that")
    }

    /// Stops it and waits for its end.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.ended().await
    }

    /// Waits for its end.
    pub(crate) async fn ended(self) -> anyhow::Result<()> {
        tokio::time::timeout(PATIENCE, self.task).await.expect("the tailer ends").unwrap()
    }

    /// Waits for its end, which `cause` must bring about.
    pub(crate) async fn ended_by(self, cause: &str) -> anyhow::Result<()> {
        let ended = tokio::time::timeout(PATIENCE, self.task).await;
        ended.unwrap_or_else(|_| panic!("the tailer goes on behind: {cause}")).unwrap()
    }

    /// Aborts it wherever it is.
    pub(crate) fn kill(self) {
        self.task.abort();
    }
}

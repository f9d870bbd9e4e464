//! A test's own database and topics, and tailers to start and stop.
#![expect(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::sync::atomic::{AtomicU32, Ordering};

use cdc_tailer::Config;
use clap::Parser as _;
use devstack::{Flavor, OwnDatabase, Scope, TestServers, if_installed};
use mysql_store::{migrate, verify::copy_schema};
use runtime::{Clock, Health};
use serde::de::DeserializeOwned;
use testkit::{CouponRow, Running, STATE_MAX, insert_coupons, sql};
use topic::{Event, FencedWriter, Message, TableReader, TopicNames, UserCouponRow};

/// Makes the server ids of this test run unique.
static SERVER_ID: AtomicU32 = AtomicU32::new(1);

pub(crate) struct Harness {
    pub(crate) names: TopicNames,
    pub(crate) config: Config,
    scope: Scope,
    /// Its server, if it is not shared.
    _own: Option<OwnDatabase>,
}

/// Returns a statement that inserts a coupon.
pub(crate) fn coupon(id: i64, user: i64) -> String {
    insert_coupons([coupon_row(id, user)])
}

pub(crate) fn coupon_row(id: i64, user: i64) -> CouponRow {
    let claimed_at = "'2026-01-02'".to_owned();
    CouponRow {
        template_id: 7,
        claim_id: 9,
        expiry_shard: 200,
        claimed_at: claimed_at.clone(),
        changed_at: claimed_at,
        valid_until: "'2026-02-01'".to_owned(),
        ..CouponRow::unused(id, user)
    }
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
        testkit::record_metrics();
        let url = &scope.endpoints.database_url;
        // A server that serves this test only has no copy to offer.
        match own {
            None => copy_schema(url).await.unwrap(),
            Some(_) => migrate::run(url).await.unwrap(),
        }
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

    /// Like [`Harness::start`], with another configuration.
    pub(crate) async fn start_following(&self, config: Config) -> Running {
        let running = self.start_with(config);
        running.until_ready().await;
        running
    }

    /// Recovers from a stop: starts once with `--resnapshot`, then as usual, and follows coupon `id`.
    pub(crate) async fn leave_by_resnapshot(&self, id: i64) {
        let config = Config { resnapshot: Some("all".to_owned()), ..self.config.clone() };
        self.start_following(config).await.stop().await.unwrap();
        let running = self.start().await;
        self.sql(&coupon(id, id));
        self.coupon_ids_until(id).await;
        running.stop().await.unwrap();
    }

    pub(crate) fn start_with(&self, config: Config) -> Running {
        let health = Health::default();
        let part = health.part("binlog");
        Running::start(&health, move |stop| async move {
            cdc_tailer::run(&config, &Clock::system(), &part, stop).await
        })
    }

    /// Runs statements in one session; returns their output.
    pub(crate) fn sql(&self, text: &str) -> String {
        sql(&self.scope.endpoints.database_url, text)
    }

    pub(crate) fn drop_database(&self) {
        self.sql(&format!("drop database {}", self.scope.database));
    }

    /// Creates the dropped database again, with its tables.
    pub(crate) async fn make_database(&self) {
        migrate::run(&self.scope.endpoints.database_url).await.unwrap();
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

    /// Like [`Harness::coupon_ids`], until the last event is of coupon `last`.
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

    /// Like [`Harness::coupon_ids`], until there is an event of coupon `wanted`.
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

    pub(crate) fn brokers(&self) -> &str {
        &self.scope.endpoints.kafka_brokers
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
        let brokers = &self.scope.endpoints.kafka_brokers;
        let database = &self.scope.database;
        let id = format!("{}.cdc-tailer.{database}", self.names.prefix());
        let writer = FencedWriter::take_over(brokers, &id).await.unwrap();
        let topic = self.names.checkpoint();
        let key = database.as_bytes();
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
        tokio::time::timeout(STATE_MAX, reading).await.expect("the messages arrive")
    }
}

fn text(message: &Message) -> String {
    String::from_utf8(message.payload.clone().unwrap()).unwrap()
}

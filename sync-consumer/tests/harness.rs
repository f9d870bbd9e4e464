//! A consumer in this process for each test, with its own topics.

use std::collections::BTreeMap;

use chrono::DateTime;
use clap::Parser as _;
use coupon::UserId;
use devstack::{Scope, TestServers, at_last};
use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redis_view::{Begun, GenerationsFuture, ViewStore, keys};
use runtime::{Clock, Health};
use sync_consumer::Config;
use testkit::{Running, until};
use topic::{
    Consumer, ConsumerOptions, Event, ExpiryWakeUp, FencedWriter, Message, OffsetReader, Op,
    Producer, ProducerOptions, Source, TableReader, TopicLayout, TopicNames, UserCouponRow,
    ensure_topics, topic_offsets,
};

/// Options of the command line that a test sets.
const OPTIONS: [&str; 6] = [
    "--database-url",
    "--view-redis-url",
    "--gate-redis-url",
    "--kafka-brokers",
    "--key-prefix",
    "--topic-prefix",
];

pub(crate) struct Harness {
    pub(crate) names: TopicNames,
    pub(crate) view: ViewStore,
    pub(crate) scope: Scope,
    producer: Producer,
    /// Health of the most recently started consumer.
    health: Health,
}

impl Harness {
    pub(crate) async fn new(name: &str) -> Self {
        Self::of(TestServers::shared().scope(name)).await
    }

    /// Like [`Self::new`], with the test's own broker.
    pub(crate) async fn on_broker(name: &str, brokers: &str) -> Self {
        Self::of(TestServers::shared().scope(name).with_broker(brokers)).await
    }

    async fn of(scope: Scope) -> Self {
        testkit::record_metrics();
        let servers = &scope.endpoints;
        mysql_store::verify::copy_schema(&servers.database_url).await.unwrap();
        let names = TopicNames::new(&scope.topic_prefix);
        ensure(&servers.kafka_brokers, &names).await;
        let options = ProducerOptions::default();
        let producer = Producer::connect(&servers.kafka_brokers, options).await.unwrap();
        let view = view(&scope).await;
        Self { names, view, scope, producer, health: Health::default() }
    }

    /// Creates removed topics again.
    pub(crate) async fn ensure_topics(&self) {
        ensure(&self.scope.endpoints.kafka_brokers, &self.names).await;
    }

    fn config(&self) -> Config {
        Config::try_parse_from(self.scope.arguments("sync-consumer", &OPTIONS)).unwrap()
    }

    pub(crate) fn start(&self) -> Running {
        self.start_changed(|_| {})
    }

    /// Starts with a changed configuration.
    pub(crate) fn start_changed(&self, change: impl FnOnce(&mut Config)) -> Running {
        // Registered here, so that it is not ready before the task first runs.
        self.health.part("partitions");
        self.run(&self.health, change)
    }

    /// Starts with a changed configuration, and returns the resulting error.
    pub(crate) async fn start_with(&self, change: impl FnOnce(&mut Config)) -> String {
        self.run(&Health::default(), change).failed().await
    }

    fn run(&self, health: &Health, change: impl FnOnce(&mut Config)) -> Running {
        let mut config = self.config();
        let parts = health.clone();
        change(&mut config);
        Running::start(health, move |stop| async move {
            sync_consumer::run(&config, &Clock::system(), &parts, stop).await
        })
    }

    /// Makes a user's view whole and empty.
    pub(crate) async fn warm(&self, user: UserId) {
        let Begun::Begun(nonce) = self.view.begin(user, DateTime::UNIX_EPOCH).await.unwrap() else {
            panic!("not cold");
        };
        assert!(self.view.complete(user, nonce).await.unwrap());
    }

    /// Replaces one of a user's keys by one of another type.
    pub(crate) async fn spoil(&self, key: fn(&str, UserId) -> String, user: UserId) {
        let key = key(&self.scope.key_prefix, user);
        redis::cmd("SET").arg(key).arg("x").exec_async(&mut self.redis().await).await.unwrap();
    }

    /// Writes a field into a user's hash, bypassing the view's scripts.
    pub(crate) async fn damage(&self, user: UserId, field: &str, text: &[u8]) {
        let key = keys::coupons(&self.scope.key_prefix, user);
        let mut write = redis::cmd("HSET");
        write.arg(key).arg(field).arg(text);
        write.exec_async(&mut self.redis().await).await.unwrap();
    }

    /// Removes a member from a user's list, bypassing the view's scripts.
    pub(crate) async fn lose_member(&self, user: UserId, member: &str) {
        let key = keys::list(&self.scope.key_prefix, user);
        redis::cmd("ZREM").arg(key).arg(member).exec_async(&mut self.redis().await).await.unwrap();
    }

    /// Every key of the view, as dumped by the server.
    pub(crate) async fn dump(&self) -> BTreeMap<String, Vec<u8>> {
        let mut redis = self.redis().await;
        let mut dump = BTreeMap::new();
        for user in self.view.users().await.unwrap() {
            for key in [keys::list, keys::coupons].map(|key| key(&self.scope.key_prefix, user)) {
                let bytes = redis::cmd("DUMP").arg(&key).query_async(&mut redis).await.unwrap();
                dump.insert(key, bytes);
            }
        }
        dump
    }

    async fn redis(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.scope.endpoints.view_redis_url.as_str()).unwrap();
        client.get_multiplexed_async_connection().await.unwrap()
    }

    /// Resets the views' group to the first message of every partition, while no consumer runs.
    pub(crate) async fn rewind(&self) {
        self.rewind_on(&sync_consumer::group(&self.names), self.names.user_coupon()).await;
    }

    /// Resets a group to the first message of every partition of its topic, while no consumer runs.
    pub(crate) async fn rewind_on(&self, group: &str, topic: String) {
        let brokers = &self.scope.endpoints.kafka_brokers;
        let topics = [topic.clone()];
        let options = ConsumerOptions::default();
        let member = Consumer::join(brokers, group, &topics, options).await.unwrap();
        let mut rebalances = member.rebalances();
        let partitions = topic_offsets(brokers, &topic).await.unwrap();
        tokio::select! {
            assigned = rebalances.wait_for(|held| held.all().len() == partitions.len()) => {
                assigned.unwrap();
            }
            batch = member.next_batch(1) => panic!("{batch:?}: caught up before"),
        }
        for held in &partitions {
            // A stored offset means that everything up to it is done, so the next one is the first message.
            let mut before_all = message(&topic, held.partition);
            before_all.offset = held.start - 1;
            member.store(&before_all);
        }
        member.close().await.unwrap();
    }

    /// Makes the broker delete every message that it holds.
    pub(crate) async fn forget_messages(&self) {
        let brokers = &self.scope.endpoints.kafka_brokers;
        let topic = self.names.user_coupon();
        topic::verify::forget_messages(brokers, &topic).await.unwrap();
        let starts = topic_offsets(brokers, &topic).await.unwrap();
        assert!(starts.iter().all(|held| held.start == held.end), "{starts:?}");
    }

    /// The lag that the most recently started consumer shows; `None` if it is unknown.
    pub(crate) fn lag(&self) -> Option<f64> {
        self.health.status().get("partitions")?["lag_seconds"].as_f64()
    }

    /// Waits until no user has a view.
    pub(crate) async fn until_no_view(&self) {
        until(async || self.view.users().await.unwrap(), Vec::is_empty).await;
    }

    /// Members of a user's list, which must be trusted.
    pub(crate) async fn listed(&self, user: UserId) -> Vec<String> {
        let contents = self.view.contents(user).await.unwrap();
        assert!(contents.trusted);
        contents.list.into_keys().collect()
    }

    pub(crate) async fn send(&self, row: &UserCouponRow) {
        self.send_raw(&row.user_id.to_string(), &change(row)).await;
    }

    pub(crate) async fn send_all(&self, rows: &[UserCouponRow]) {
        join_all(rows.iter().map(|row| self.send(row))).await;
    }

    pub(crate) async fn send_raw(&self, key: &str, payload: &[u8]) {
        self.send_to(&self.names.user_coupon(), key, payload).await;
    }

    pub(crate) async fn send_to(&self, topic: &str, key: &str, payload: &[u8]) {
        self.producer.send(topic, None, key.as_bytes(), payload, &[]).await.unwrap();
    }

    /// Sends a change, and then bytes in the same partition, with an offset between them that no message has.
    pub(crate) async fn send_behind_a_gap(&self, row: &UserCouponRow, payload: &[u8]) {
        let brokers = &self.scope.endpoints.kafka_brokers;
        let topic = self.names.user_coupon();
        let writer = at_last(async || FencedWriter::take_over(brokers, &topic).await).await;
        let key = row.user_id.to_string().into_bytes();
        // The commit of its transaction takes an offset and is no message.
        writer.write(&topic, &key, &change(row)).await.unwrap();
        let offsets = topic_offsets(brokers, &topic).await.unwrap();
        let partition = offsets.iter().find(|held| held.end == 2).unwrap().partition;
        self.producer.send(&topic, Some(partition), &key, payload, &[]).await.unwrap();
    }

    /// Waits until every sent change has taken effect.
    pub(crate) async fn caught_up(&self) {
        for group in [sync_consumer::group, sync_consumer::wake_up_group] {
            self.caught_up_on(&group(&self.names), &self.names.user_coupon()).await;
        }
    }

    /// Waits until a group has processed all of a topic.
    pub(crate) async fn caught_up_on(&self, group: &str, topic: &str) {
        let offsets = OffsetReader::new(&self.scope.endpoints.kafka_brokers);
        let lag = async || match offsets.committed_lag(group, topic).await {
            // The leaders of a new topic may not be known yet.
            Err(error) if !error.is_retriable() => panic!("{error}"),
            lag => (lag.ok(), self.health.unready()),
        };
        until(lag, |(lag, _)| *lag == Some(0)).await;
    }

    /// Number of changes that have taken effect in the views.
    pub(crate) async fn consumed(&self) -> i64 {
        let brokers = &self.scope.endpoints.kafka_brokers;
        let topic = self.names.user_coupon();
        let group = sync_consumer::group(&self.names);
        let committed = topic::committed_offsets(brokers, &group, &topic).await.unwrap();
        committed.values().sum()
    }

    /// All sent wake-ups, with their partitions.
    pub(crate) async fn wake_ups(&self) -> Vec<(i32, ExpiryWakeUp)> {
        let messages = self.read(&self.names.expiry()).await;
        let read = |message: &Message| {
            (message.partition, topic::decode(message.payload.as_deref().unwrap()).unwrap())
        };
        messages.iter().map(read).collect()
    }

    pub(crate) async fn dead_letters(&self) -> Vec<Message> {
        self.read(&self.names.dead_letter()).await
    }

    async fn read(&self, topic: &str) -> Vec<Message> {
        let brokers = &self.scope.endpoints.kafka_brokers;
        let mut reader = TableReader::open(brokers, topic).await.unwrap();
        let mut messages = Vec::new();
        while !reader.caught_up() {
            messages.extend(reader.next_batch(1_000).await.unwrap());
        }
        messages
    }
}

async fn ensure(brokers: &str, names: &TopicNames) {
    let layout = TopicLayout { partitions: 4, replication: 1 };
    ensure_topics(brokers, names, &layout).await.unwrap();
}

fn message(topic: &str, partition: i32) -> Message {
    Message {
        topic: topic.to_owned(),
        partition,
        offset: 0,
        key: Vec::new(),
        payload: None,
        headers: Vec::new(),
        timestamp_ms: None,
    }
}

/// The change event of a new row.
fn change(row: &UserCouponRow) -> Vec<u8> {
    let event = Event {
        before: None,
        after: Some(row.clone()),
        op: Op::Create,
        source: Source::default(),
        ts_ms: 1_000,
    };
    serde_json::to_vec(&event).unwrap()
}

/// Version 1 of a coupon of template 1.
pub(crate) fn row(id: i64, user_id: i64) -> UserCouponRow {
    UserCouponRow {
        id,
        template_id: 1,
        user_id,
        claim_no: 1,
        claim_id: id,
        merchant_id: 1,
        status: 0,
        version: 1,
        expiry_shard: u8::try_from(user_id % 64).unwrap(),
        claimed_at: id,
        changed_at: id,
        valid_from: 0,
        valid_until: 4_000_000_000_000,
        used_at: None,
        order_ref: None,
        trace_parent: None,
        issued_no: None,
    }
}

/// Version 2 of a coupon: used.
pub(crate) fn used(id: i64, user_id: i64) -> UserCouponRow {
    UserCouponRow { status: 1, version: 2, used_at: Some(1), ..row(id, user_id) }
}

/// Version 1 of a coupon that is held until `held_until`.
pub(crate) fn held(id: i64, user_id: i64, held_until: i64) -> UserCouponRow {
    UserCouponRow { status: 4, valid_until: held_until, ..row(id, user_id) }
}

/// Version 2 of a coupon that gave its unit and number back: lapsed (5) or cancelled (3).
pub(crate) fn returned(id: i64, user_id: i64, status: u8) -> UserCouponRow {
    let issued_no = Some(1);
    UserCouponRow { status, version: 2, claim_no: id, issued_no, ..row(id, user_id) }
}

async fn view(scope: &Scope) -> ViewStore {
    let pool = mysql_store::connect::pool(&scope.endpoints.database_url, 1).await.unwrap();
    let generations_of = Box::new(move |served: Vec<_>| -> GenerationsFuture {
        let pool = pool.clone();
        Box::pin(async move {
            let mut connection = pool.acquire().await?;
            Ok(mysql_store::view_generation::generations_of(&mut connection, &served).await?)
        })
    });
    ViewStore::connect(&scope.endpoints.view_redis_url, &scope.key_prefix, generations_of)
        .await
        .unwrap()
}

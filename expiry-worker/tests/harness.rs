//! Workers in this process, with their own database and topics.

use std::{collections::BTreeSet, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use clap::Parser as _;
use devstack::{Scope, TestServers};
use expiry_worker::Config;
use mysql_store::{
    MySqlConnection, connect,
    expiring::{self, Cursor},
    settings, verify,
};
use runtime::{Clock, Health};
use testkit::{CouponRow, Running, STATE_MAX, insert_coupons, sql_time, until};
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use topic::{
    Assignment, Consumer, ConsumerOptions, ExpiringSoon, ExpiryWakeUp, Message, OffsetReader,
    Producer, ProducerOptions, TableReader, TopicLayout, TopicNames, decode, ensure_topics,
};

/// Polling interval.
const LOOK: Duration = Duration::from_millis(10);

/// Partitions of the expiry topic.
pub(crate) const PARTITIONS: i32 = 4;

/// The shard of most coupons, which is that of user 70.
pub(crate) const SHARD: u8 = 6;

/// Options of the command line that a test sets.
const OPTIONS: [&str; 3] = ["--database-url", "--kafka-brokers", "--topic-prefix"];

const TEMPLATE: i64 = 1;

pub(crate) struct Harness {
    pub(crate) scope: Scope,
    pub(crate) names: TopicNames,
    producer: Producer,
    pub(crate) connection: MySqlConnection,
}

/// See [`Harness::stranger`].
pub(crate) struct Stranger {
    rebalances: watch::Receiver<Assignment>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Stranger {
    /// Polls for messages, which is when rebalances happen.
    fn watching(mut self, member: Consumer) -> Self {
        let stop = self.stop.clone();
        self.task = Some(tokio::spawn(async move {
            while let Some(batch) = stop.run_until_cancelled(member.next_batch(1)).await {
                drop(batch);
            }
            drop(member.close().await);
        }));
        self
    }

    pub(crate) async fn leave(self) {
        self.stop.cancel();
        self.task.unwrap().await.unwrap();
    }
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
        let servers = &scope.endpoints;
        mysql_store::verify::copy_schema(&servers.database_url).await.unwrap();
        let names = TopicNames::new(&scope.topic_prefix);
        ensure(&servers.kafka_brokers, &names).await;
        let options = ProducerOptions::default();
        let producer = Producer::connect(&servers.kafka_brokers, options).await.unwrap();
        let connection = connect::single(&servers.database_url).await.unwrap();
        Self { scope, names, producer, connection }
    }

    /// Joins the workers' group with a member that does nothing.
    pub(crate) async fn stranger(&self) -> Stranger {
        let brokers = &self.scope.endpoints.kafka_brokers;
        let topic = self.names.expiry();
        let group = expiry_worker::group(&self.names);
        let options = ConsumerOptions::default();
        let member = Consumer::join(brokers, &group, &[topic], options).await.unwrap();
        Stranger { rebalances: member.rebalances(), stop: CancellationToken::new(), task: None }
            .watching(member)
    }

    /// Waits until a stranger owns some of the partitions but not all, and returns them.
    pub(crate) async fn until_shared(&self, stranger: &Stranger) -> Vec<i32> {
        let mut rebalances = stranger.rebalances.clone();
        let topic = self.names.expiry();
        let is_shared =
            |held: &Assignment| (1..PARTITIONS as usize).contains(&held.of(&topic).len());
        let shared = rebalances.wait_for(is_shared);
        let shared = tokio::time::timeout(STATE_MAX, shared).await.unwrap().unwrap();
        shared.of(&topic)
    }

    /// Waits until the workers have heard every wake-up.
    pub(crate) async fn until_heard(&self) {
        let offsets = OffsetReader::new(&self.scope.endpoints.kafka_brokers);
        let topic = self.names.expiry();
        let group = expiry_worker::group(&self.names);
        let lag = async || offsets.committed_lag(&group, &topic).await.ok();
        until(lag, |lag| *lag == Some(0)).await;
    }

    /// Adds partitions to the wake-ups' topic.
    pub(crate) async fn raise_partitions(&self, partitions: i32) {
        let brokers = &self.scope.endpoints.kafka_brokers;
        let topic = self.names.expiry();
        topic::verify::raise_partitions(brokers, &topic, partitions).await.unwrap();
        // The producer sends only to partitions that it knows.
        let added = async || self.producer.partitions(&topic).await.ok();
        until(added, |held| *held == Some(partitions)).await;
    }

    pub(crate) fn start(&self) -> Running {
        self.start_with(|_| ())
    }

    pub(crate) fn start_with(&self, change: impl FnOnce(&mut Config)) -> Running {
        self.spawn(Clock::system(), change)
    }

    /// Starts a worker on its own topics, which never held a message.
    pub(crate) async fn start_on_emptied_topics(&self) -> Running {
        let prefix = format!("{}_emptied", self.scope.topic_prefix);
        ensure(&self.scope.endpoints.kafka_brokers, &TopicNames::new(&prefix)).await;
        self.start_with(|config| config.topic_prefix = prefix)
    }

    /// Starts a worker whose clock stands still at `now`.
    pub(crate) fn start_at(&self, now: DateTime<Utc>) -> Running {
        self.spawn(Clock::manual(now), |_| ())
    }

    /// Starts a worker with this clock.
    pub(crate) fn start_by(&self, clock: Clock) -> Running {
        self.spawn(clock, |_| ())
    }

    fn spawn(&self, clock: Clock, change: impl FnOnce(&mut Config)) -> Running {
        let mut config =
            Config::try_parse_from(self.scope.arguments("expiry-worker", &OPTIONS)).unwrap();
        change(&mut config);
        let health = Health::default();
        // Registered here, so that it is not ready before the task first runs.
        health.part("partitions");
        let parts = health.clone();
        Running::start(&health, move |stop| async move {
            expiry_worker::run(&config, &clock, &parts, stop).await
        })
    }

    /// The time by this machine's clock.
    pub(crate) fn time(&self) -> DateTime<Utc> {
        Clock::system().now()
    }

    /// The time by MySQL's clock.
    pub(crate) async fn now(&mut self) -> DateTime<Utc> {
        settings::server_time(&mut self.connection).await.unwrap()
    }

    /// Inserts a coupon of [`SHARD`].
    pub(crate) async fn insert(&mut self, id: i64, valid_until: DateTime<Utc>) {
        self.insert_of(id, SHARD.into(), valid_until).await;
    }

    pub(crate) async fn insert_of(&mut self, id: i64, shard: i64, valid_until: DateTime<Utc>) {
        let sql = insert_coupons([row(id, shard, valid_until)]);
        verify::execute(&mut self.connection, &sql).await.unwrap();
    }

    /// Inserts a coupon of [`SHARD`] that was claimed at `claimed_at`.
    pub(crate) async fn insert_claimed(
        &mut self,
        id: i64,
        claimed_at: DateTime<Utc>,
        valid_until: DateTime<Utc>,
    ) {
        self.insert(id, valid_until).await;
        let claimed_at = sql_time(claimed_at);
        let sql = format!(
            "update user_coupon set claimed_at = {claimed_at}, version = version + 1 where id = {id}"
        );
        verify::execute(&mut self.connection, &sql).await.unwrap();
    }

    /// Marks a coupon as used by an order.
    pub(crate) async fn use_up(&mut self, id: i64) {
        let sql = format!(
            "update user_coupon set status = 1, version = version + 1, used_at = '2026-01-01', \
             order_ref = 'order' where id = {id}"
        );
        verify::execute(&mut self.connection, &sql).await.unwrap();
    }

    /// Waits until the announcement cursor of a shard and lead time is exactly at this coupon.
    pub(crate) async fn until_announced_up_to(&mut self, shard: u8, lead: u32, at: Cursor) {
        let cursor = async || expiring::cursor(&mut self.connection, shard, lead).await.unwrap();
        until(cursor, |cursor| *cursor == Some(at)).await;
    }

    /// All announcements: coupon, lead time and deadline. Asserts that there are no duplicates.
    pub(crate) async fn announced(&self) -> BTreeSet<(i64, u32, DateTime<Utc>)> {
        let brokers = &self.scope.endpoints.kafka_brokers;
        let topic = self.names.expiring();
        let all =
            TableReader::open_to_end(brokers, &topic).await.unwrap().read_to_end().await.unwrap();
        let read = |message: &Message| {
            let soon: ExpiringSoon = decode(message.payload.as_deref().unwrap()).unwrap();
            assert_eq!(message.key, soon.user_id.to_string().into_bytes());
            let until = DateTime::from_timestamp_millis(soon.valid_until_ms).unwrap();
            (soon.coupon_id, soon.lead_seconds, until)
        };
        let each: BTreeSet<_> = all.iter().map(read).collect();
        assert_eq!(each.len(), all.len(), "{all:?}");
        each
    }

    /// Inserts coupons of [`SHARD`] with ids from `first` on.
    pub(crate) async fn insert_many(&mut self, first: i64, count: i64, valid_until: DateTime<Utc>) {
        self.insert_many_of(SHARD.into(), first, count, valid_until).await;
    }

    /// Like [`Self::insert_many`], for any shard.
    pub(crate) async fn insert_many_of(
        &mut self,
        shard: i64,
        first: i64,
        count: i64,
        valid_until: DateTime<Utc>,
    ) {
        let rows = (first..first + count).map(|id| row(id, shard, valid_until));
        let sql = insert_coupons(rows);
        verify::execute(&mut self.connection, &sql).await.unwrap();
    }

    /// Inserts a coupon of [`SHARD`] without committing. The caller commits on the returned
    /// connection.
    pub(crate) async fn insert_slowly(
        &self,
        id: i64,
        valid_until: DateTime<Utc>,
    ) -> MySqlConnection {
        let mut slow = connect::single(&self.scope.endpoints.database_url).await.unwrap();
        let row = row(id, SHARD.into(), valid_until);
        let sql = format!("begin; {}", insert_coupons([row]));
        verify::execute(&mut slow, &sql).await.unwrap();
        slow
    }

    pub(crate) async fn wake(&self, shard: u8, deadline: DateTime<Utc>) {
        let wake_up = ExpiryWakeUp { shard, deadline_ms: deadline.timestamp_millis() };
        self.send(i32::from(shard) % PARTITIONS, &serde_json::to_vec(&wake_up).unwrap()).await;
    }

    /// Sends a wake-up on any partition.
    pub(crate) async fn wake_on(&self, partition: i32, shard: u8, deadline: DateTime<Utc>) {
        let wake_up = ExpiryWakeUp { shard, deadline_ms: deadline.timestamp_millis() };
        self.send(partition, &serde_json::to_vec(&wake_up).unwrap()).await;
    }

    pub(crate) async fn send(&self, partition: i32, payload: &[u8]) {
        let topic = self.names.expiry();
        self.producer.send(&topic, Some(partition), b"", payload, &[]).await.unwrap();
    }

    /// Waits until exactly this many coupons are expired, for as long as some expire: beside other writes a worker
    /// rests after each flip, for many times as long as a slow disk took for it.
    pub(crate) async fn until_expired(&mut self, expired: i64) {
        let mut before = 0;
        let mut moved = Instant::now();
        loop {
            let counts = self.counts().await;
            if counts.1 >= expired {
                break;
            }
            if counts.1 > before {
                (before, moved) = (counts.1, Instant::now());
            }
            assert!(moved.elapsed() < STATE_MAX, "{counts:?}");
            tokio::time::sleep(LOOK).await;
        }
        assert_eq!(self.counts().await.1, expired);
    }

    /// Numbers of unused and of expired coupons.
    pub(crate) async fn counts(&mut self) -> (i64, i64) {
        let counts = verify::count_coupons(&mut self.connection, None, DateTime::UNIX_EPOCH);
        let counts = counts.await.unwrap();
        (counts.unused, counts.expired)
    }

    /// Lateness of the flips, ascending.
    pub(crate) async fn lateness(&mut self) -> Vec<TimeDelta> {
        let template = coupon::TemplateId(TEMPLATE);
        verify::lateness(&mut self.connection, template).await.unwrap()
    }

    /// Asserts that each coupon ended once, none early, and that none is left behind.
    pub(crate) async fn nothing_ended_wrongly(&mut self) {
        let now = self.now().await;
        assert_eq!(verify::bad_ends(&mut self.connection, now).await.unwrap(), []);
    }
}

async fn ensure(brokers: &str, names: &TopicNames) {
    let layout = TopicLayout { partitions: PARTITIONS, replication: 1 };
    ensure_topics(brokers, names, &layout).await.unwrap();
}

fn row(id: i64, shard: i64, valid_until: DateTime<Utc>) -> CouponRow {
    let valid_until = sql_time(valid_until);
    CouponRow { template_id: TEMPLATE, valid_until, ..CouponRow::unused(id, 64 + shard) }
}

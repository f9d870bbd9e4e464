//! Landers in this process, with their own database and topics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicI64, Ordering},
};

use chrono::{DateTime, Utc};
use claim_lander::Config;
use clap::Parser as _;
use coupon::{
    AcceptAfter, Admission, ClaimId, ClaimMode, Epoch, QueuedClaim, Template, TemplateId,
    TemplateState, UserId,
};
use devstack::{Scope, TestServers};
use futures::future::join_all;
use mysql_store::{connect, template, verify};
use runtime::{Clock, Health};
use testkit::{Running, until};
use topic::{
    ClaimsProducer, Message, OffsetReader, PartitionProgress, Producer, ProducerOptions,
    TableReader, TopicLayout, TopicNames, committed_offsets, ensure_topics,
};

/// Partitions of the claims' topic.
const PARTITIONS: i32 = 4;

/// Options of the command line that a test sets.
const OPTIONS: [&str; 5] =
    ["--database-url", "--gate-redis-url", "--kafka-brokers", "--key-prefix", "--topic-prefix"];

/// Epoch of a newly created template.
const EPOCH: Epoch = Epoch(1);

pub(crate) struct Harness {
    pub(crate) names: TopicNames,
    pub(crate) scope: Scope,
    pub(crate) producer: Producer,
    claims: ClaimsProducer,
    /// Health of the most recently started lander.
    health: Health,
}

impl Harness {
    pub(crate) async fn new(name: &str) -> Self {
        Self::of(TestServers::shared().scope(name)).await
    }

    /// Like [`Self::new`], with the test's own database.
    pub(crate) async fn on_database(name: &str, url: &str) -> Self {
        let mut scope = TestServers::shared().scope(name);
        url.clone_into(&mut scope.endpoints.database_url);
        Self::of(scope).await
    }

    /// Like [`Self::new`], with the test's own broker.
    pub(crate) async fn on_broker(name: &str, brokers: &str) -> Self {
        Self::of(TestServers::shared().scope(name).with_broker(brokers)).await
    }

    async fn of(scope: Scope) -> Self {
        testkit::record_metrics();
        let servers = &scope.endpoints;
        verify::copy_schema(&servers.database_url).await.unwrap();
        let brokers = &servers.kafka_brokers;
        let names = TopicNames::new(&scope.topic_prefix);
        let layout = TopicLayout { partitions: PARTITIONS, replication: 1 };
        ensure_topics(brokers, &names, &layout).await.unwrap();
        let options = ProducerOptions::default();
        let producer = Producer::connect(brokers, options).await.unwrap();
        let claims = ClaimsProducer::new(brokers, &names, options);
        Self { names, scope, producer, claims, health: Health::default() }
    }

    pub(crate) fn start(&self) -> Running {
        self.start_changed(|_| {})
    }

    /// Starts with a changed configuration.
    pub(crate) fn start_changed(&self, change: impl FnOnce(&mut Config)) -> Running {
        // Registered here, so that it is not ready before the task first runs.
        self.health.part("partitions");
        self.health.part("payments");
        self.run(&self.health, Clock::system(), change)
    }

    /// Starts with a clock that stands still.
    pub(crate) fn start_at(&self, now: DateTime<Utc>) -> Running {
        self.start_on(&Clock::manual(now), |_| {})
    }

    /// Starts on the test's clock, with a changed configuration.
    pub(crate) fn start_on(&self, clock: &Clock, change: impl FnOnce(&mut Config)) -> Running {
        self.health.part("payments");
        self.run(&self.health, clock.clone(), change)
    }

    /// Starts a lander beside the one that runs, with a health of its own.
    pub(crate) fn start_another(&self) -> Running {
        let health = Health::default();
        health.part("partitions");
        self.run(&health, Clock::system(), |_| {})
    }

    /// Starts with a changed configuration, and returns the resulting error.
    pub(crate) async fn start_with(&self, change: impl FnOnce(&mut Config)) -> String {
        self.run(&Health::default(), Clock::system(), change).failed().await
    }

    fn run(&self, health: &Health, clock: Clock, change: impl FnOnce(&mut Config)) -> Running {
        let mut config =
            Config::try_parse_from(self.scope.arguments("claim-lander", &OPTIONS)).unwrap();
        change(&mut config);
        let parts = health.clone();
        Running::start(health, move |stop| async move {
            claim_lander::run(&config, &clock, &parts, stop).await
        })
    }

    /// Publishes a template of mode queued with `stock` coupons, five per user.
    pub(crate) async fn template(&self, id: TemplateId, stock: i64) {
        self.publish(testkit::draft(id, now()), stock).await;
    }

    /// Publishes `draft` in mode queued with `stock` coupons, five per user.
    pub(crate) async fn publish(&self, draft: Template, stock: i64) {
        let mut connection = connect::single(&self.scope.endpoints.database_url).await.unwrap();
        let draft = Template {
            per_user_limit: 5,
            max_per_claim: 5,
            claim_mode: ClaimMode::Queued,
            ..draft
        };
        template::create(&mut connection, &draft, stock, "test", now()).await.unwrap();
        let published = TemplateState::Published;
        let changed = template::change_state(&mut connection, &draft, published, now()).await;
        assert!(changed.unwrap());
    }

    /// Queues claims, one after the other.
    pub(crate) async fn queue(&self, claims: &[QueuedClaim]) {
        for claim in claims {
            self.claims.publish(claim).await.unwrap();
        }
    }

    /// Queues claims as fast as the broker takes them, in any order.
    pub(crate) async fn queue_all(&self, claims: &[QueuedClaim]) {
        for sent in join_all(claims.iter().map(|claim| self.claims.publish(claim))).await {
            sent.unwrap();
        }
    }

    /// Sends bytes to a partition of the claims' topic.
    pub(crate) async fn send_raw(&self, partition: i32, payload: &[u8]) {
        let topic = self.names.claims();
        self.producer.send(&topic, Some(partition), b"key", payload, &[]).await.unwrap();
    }

    /// Waits until every claim has ended and its offset is committed.
    pub(crate) async fn caught_up(&self) {
        self.caught_up_on(&self.names.claim_lander_group(), &self.names.claims()).await;
    }

    /// Waits until every payment has ended and its offset is committed.
    pub(crate) async fn paid_up(&self) {
        self.caught_up_on(&self.names.payments_group(), &self.names.payments()).await;
    }

    async fn caught_up_on(&self, group: &str, topic: &str) {
        let offsets = OffsetReader::new(&self.scope.endpoints.kafka_brokers);
        let lag = async || match offsets.committed_lag(group, topic).await {
            // The leaders of a new topic may not be known yet.
            Err(error) if !error.is_retriable() => panic!("{error}"),
            lag => (lag.ok(), self.health.unready()),
        };
        until(lag, |(lag, _)| *lag == Some(0)).await;
    }

    /// Sum of the committed offsets over all partitions.
    pub(crate) async fn committed(&self) -> i64 {
        let brokers = &self.scope.endpoints.kafka_brokers;
        let group = self.names.claim_lander_group();
        let committed = committed_offsets(brokers, &group, &self.names.claims()).await.unwrap();
        committed.values().sum()
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let mut connection = connect::single(&self.scope.endpoints.database_url).await.unwrap();
        verify::number(&mut connection, sql).await.unwrap()
    }

    /// Landed claims, rejected ones, and coupons.
    pub(crate) async fn counts(&self) -> (i64, i64, i64) {
        (
            self.number("select count(*) from claim where state = 1").await,
            self.number("select count(*) from claim where state = 3").await,
            self.number("select count(*) from user_coupon").await,
        )
    }

    pub(crate) async fn dead_letters(&self) -> Vec<Message> {
        self.read(&self.names.dead_letter()).await
    }

    /// The last progress of each partition, in any order.
    pub(crate) async fn progress(&self) -> Vec<PartitionProgress> {
        let mut last = BTreeMap::new();
        for message in self.read(&self.names.claim_progress()).await {
            let progress = PartitionProgress::decode(message.payload.as_deref().unwrap()).unwrap();
            assert_eq!(message.key, progress.key().as_bytes());
            last.insert(progress.partition, progress);
        }
        last.into_values().collect()
    }

    async fn read(&self, topic: &str) -> Vec<Message> {
        let reader = TableReader::open(&self.scope.endpoints.kafka_brokers, topic).await.unwrap();
        reader.read_to_end().await.unwrap()
    }

    /// Publishes templates with `stock` coupons each: one on every partition.
    pub(crate) async fn templates_on_all_partitions(&self, stock: i64) -> Vec<TemplateId> {
        let mut templates = Vec::new();
        let mut partitions = BTreeSet::new();
        for id in (1..).map(TemplateId) {
            if partitions.insert(self.claims.partition_of(id).await.unwrap()) {
                self.template(id, stock).await;
                templates.push(id);
            }
            if partitions.len() == usize::try_from(PARTITIONS).unwrap() {
                return templates;
            }
        }
        unreachable!("ids do not end")
    }
}

/// The time at which all claims are made.
pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(4_000_000_000_123).unwrap()
}

/// A user's first claim of a template, with a unique id.
pub(crate) fn claim(template: TemplateId, user: i64) -> QueuedClaim {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    let id = ClaimId(NEXT.fetch_add(1, Ordering::Relaxed));
    let claim = testkit::claim(id, template, UserId(user), "a", 1, now());
    QueuedClaim {
        admission: Admission { claim, epoch: EPOCH, numbers: vec![1] },
        accept_after: AcceptAfter::Topic,
        admitted_at: now(),
        left_after: None,
    }
}

//! Relays in this process, with their own database, gate and topics.

use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use clap::Parser as _;
use coupon::{
    AcceptAfter, Claim, ClaimId, ClaimMode, Epoch, QueuedClaim, TemplateId, TemplateState, UserId,
};
use devstack::{Scope, TestServers};
use outbox_relay::Config;
use redis_gate::{Gate, GateRedis, OpenFacts, QueueOptions, Run, Verdict};
use runtime::Health;
use testkit::{Running, sql, until};
use topic::{Message, TableReader, TopicLayout, TopicNames, decode_claim, ensure_topics};

/// Partitions of the topic of claims.
pub(crate) const PARTITIONS: i32 = 4;

/// Options of the command line that a test sets.
const OPTIONS: [&str; 5] =
    ["--database-url", "--gate-redis-url", "--kafka-brokers", "--key-prefix", "--topic-prefix"];

pub(crate) const TEMPLATE: TemplateId = TemplateId(1);

const EPOCH: Epoch = Epoch(7);

/// Stock of a template: more than a test claims.
const STOCK: i64 = 10_000;

pub(crate) struct Harness {
    pub(crate) scope: Scope,
    pub(crate) gate: Gate,
    names: TopicNames,
}

/// A claim that the gate queued.
pub(crate) struct Queued {
    pub(crate) claim: Claim,
    entry: String,
    run: Run,
}

impl Harness {
    pub(crate) async fn new(name: &str) -> Self {
        Self::of(TestServers::shared().scope(name)).await
    }

    /// Like [`Self::new`], with the test's own broker.
    pub(crate) async fn on_broker(name: &str, brokers: &str) -> Self {
        Self::of(TestServers::shared().scope(name).with_broker(brokers)).await
    }

    /// [`TEMPLATE`] is open and queues.
    async fn of(scope: Scope) -> Self {
        testkit::record_metrics();
        let servers = &scope.endpoints;
        mysql_store::verify::copy_schema(&servers.database_url).await.unwrap();
        let names = TopicNames::new(&scope.topic_prefix);
        let layout = TopicLayout { partitions: PARTITIONS, replication: 1 };
        ensure_topics(&servers.kafka_brokers, &names, &layout).await.unwrap();
        let redis = GateRedis::connect(&servers.gate_redis_url).await.unwrap();
        let gate = Gate::new(redis, &scope.key_prefix);
        let harness = Self { scope, gate, names };
        harness.open(TEMPLATE).await;
        harness
    }

    /// Opens the gate of a template that queues.
    pub(crate) async fn open(&self, template: TemplateId) {
        let facts = OpenFacts {
            version: 1,
            state: TemplateState::Published,
            mode: ClaimMode::Queued,
            starts_at: now() - TimeDelta::seconds(1),
            ends_at: now() + TimeDelta::seconds(1),
            limit: 1,
            stock: STOCK,
            movement: 1,
            lapses_allowed: 0,
        };
        assert!(self.gate.begin(template, EPOCH).await.unwrap());
        assert!(self.gate.open(template, EPOCH, &facts).await.unwrap());
    }

    /// Claims a coupon for a new user.
    pub(crate) async fn queue(&self, template: TemplateId, after: AcceptAfter) -> Queued {
        static NEXT: AtomicI64 = AtomicI64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let claim = testkit::claim(ClaimId(id), template, UserId(id), "key", 1, now());
        let queueing = QueueOptions { accept_after: after, ..QueueOptions::direct() };
        match self.gate.claim(&claim, EPOCH, now(), queueing).await.unwrap() {
            Verdict::Queued { entry, run, .. } => Queued { claim, entry, run },
            other => panic!("{other:?}"),
        }
    }

    /// Queues `count` claims that are answered at once.
    pub(crate) async fn queue_many(&self, count: usize) {
        for _ in 0..count {
            self.queue(TEMPLATE, AcceptAfter::Gate).await;
        }
    }

    /// Takes a claim out of the outbox, as its api does after publishing it.
    pub(crate) async fn confirm(&self, queued: &Queued) -> bool {
        let Queued { claim, entry, run } = queued;
        let user = claim.user_id;
        let id = claim.id;
        let entry = Some(entry.as_str());
        self.gate.published(claim.template_id, EPOCH, run, user, id, entry).await.unwrap()
    }

    /// Appends an entry that is no claim.
    pub(crate) async fn spoil(&self, template: TemplateId) {
        let key = format!("{}gate:1:{{{template}:0}}:outbox", self.scope.key_prefix);
        let client = redis::Client::open(self.scope.endpoints.gate_redis_url.as_str()).unwrap();
        let mut redis = client.get_multiplexed_async_connection().await.unwrap();
        let mut add = redis::cmd("XADD");
        add.arg(key).arg("*").arg("no").arg("claim");
        add.exec_async(&mut redis).await.unwrap();
    }

    fn config(&self) -> Config {
        Config::try_parse_from(self.scope.arguments("outbox-relay", &OPTIONS)).unwrap()
    }

    pub(crate) async fn start(&self) -> Running {
        self.start_changed(|_| {}).await
    }

    /// Starts with a changed configuration, and waits until it is ready.
    pub(crate) async fn start_changed(&self, change: impl FnOnce(&mut Config)) -> Running {
        self.start_as(Health::default(), change).await
    }

    /// Starts with this health, which tells what [`Running`] does not.
    pub(crate) async fn start_as(
        &self,
        health: Health,
        change: impl FnOnce(&mut Config),
    ) -> Running {
        let mut config = self.config();
        change(&mut config);
        // Registered here, so that it is not ready before the task first runs.
        health.part("workers");
        let parts = health.clone();
        let relay = Running::start(&health, move |stop| async move {
            outbox_relay::run(&config, &parts, stop).await
        });
        relay.until_ready().await;
        relay
    }

    /// Waits until an outbox is empty.
    pub(crate) async fn until_empty(&self, template: TemplateId) {
        let length = async || self.gate.outbox_len(template).await.unwrap();
        until(length, |length| *length == 0).await;
    }

    /// All claims on the topic, with their partitions.
    pub(crate) async fn published(&self) -> Vec<(i32, QueuedClaim)> {
        let messages = self.read(&self.names.claims()).await;
        let read = |message: &Message| {
            (message.partition, decode_claim(message.payload.as_deref().unwrap()).unwrap())
        };
        messages.iter().map(read).collect()
    }

    /// The ids of the claims on the topic, ascending.
    pub(crate) async fn published_ids(&self) -> Vec<ClaimId> {
        let published = self.published().await;
        let mut ids: Vec<_> =
            published.iter().map(|(_, queued)| queued.admission.claim.id).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) async fn dead_letters(&self) -> Vec<Message> {
        self.read(&self.names.dead_letter()).await
    }

    async fn read(&self, topic: &str) -> Vec<Message> {
        let brokers = &self.scope.endpoints.kafka_brokers;
        TableReader::open_to_end(brokers, topic).await.unwrap().read_to_end().await.unwrap()
    }

    /// Counts the names that are held by workers.
    pub(crate) fn names_held(&self) -> i64 {
        let held = "select count(*) from lease where holder like 'outbox-relay-%' \
             and until > utc_timestamp(3)";
        sql(&self.scope.endpoints.database_url, held).trim().parse().unwrap()
    }
}

/// The time at which all tests claim.
fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_800_000_000_000).unwrap()
}

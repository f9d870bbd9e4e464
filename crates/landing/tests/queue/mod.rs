//! Queued claims: their landing alone, and the whole way from the door to the drain of a rebuild, over a real topic.
//! There a test moves what is queued on itself, step by step, as relay and claim lander do.

mod answered;
mod closing;
mod door;
mod drains;
mod fates;
mod lander;
mod many;
mod remade;
mod slow;
mod uncarried;

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use coupon::{
    AcceptAfter, Claim, ClaimId, ClaimMode, Epoch, QueueReach, QueuedClaim, Template, TemplateId,
};
use devstack::TestServers;
use futures::future::{BoxFuture, FutureExt};
use landing::{
    claims::{Answer, Unavailable},
    ids::Ids,
    queue::{ClaimQueue, NoQueue, QueueError, QueuePosition},
    queued::{GateReports, QueuedLander},
    rebuild::{RebuildError, Rebuilt, rebuild},
};
use mysql_store::{
    stock::{self, QueueFacts},
    template,
    template_edit::{self, Edited},
};
use redis_gate::{OutboxFrom, Phase};
use runtime::FailPoints;
use testkit::until_true;
use tokio::task::JoinHandle;
use topic::{
    ClaimsProducer, ClaimsReader, ConsumerOptions, ProducerOptions, QueueOffsets, TopicLayout,
    TopicNames, ensure_topics, verify,
};

use crate::harness::{Process, TEMPLATE, World, now};

/// The one partition of a test's topic.
const PARTITION: i32 = 0;

/// Claims in one step; a test has fewer.
const MANY: usize = 100;

/// Coupons that one user may hold.
const LIMIT: u32 = 2;

/// Stock of [`TEMPLATE`].
const STOCK: i64 = 10;

/// A world whose template is queued, with its topic.
pub(crate) struct Chain {
    world: World,
    brokers: String,
    names: TopicNames,
    topic: Arc<Topic>,
}

/// A topic of one partition.
struct Topic {
    producer: ClaimsProducer,
    offsets: QueueOffsets,
    /// The number of waiting claims that the queue reports.
    backlog: AtomicU64,
    /// How often it told how far the partition has landed.
    looks: AtomicU64,
}

impl ClaimQueue for Topic {
    fn publish<'a>(
        &'a self,
        claim: &'a QueuedClaim,
    ) -> BoxFuture<'a, Result<QueuePosition, QueueError>> {
        async move {
            let at = self.producer.publish(claim).await.map_err(QueueError::new)?;
            Ok(QueuePosition { partition: at.partition, offset: at.offset })
        }
        .boxed()
    }

    fn end(&self, _template: TemplateId) -> BoxFuture<'_, Result<i64, QueueError>> {
        async move { self.offsets.end(PARTITION).await.map_err(QueueError::new) }.boxed()
    }

    fn reach(&self, _template: TemplateId) -> BoxFuture<'_, Result<QueueReach, QueueError>> {
        async move {
            let reach = self.offsets.reach(PARTITION).await.map_err(QueueError::new)?;
            self.looks.fetch_add(1, Ordering::Relaxed);
            Ok(reach)
        }
        .boxed()
    }

    fn backlog(&self, _template: TemplateId) -> Option<u64> {
        Some(self.backlog.load(Ordering::Relaxed))
    }
}

/// A queue whose broker takes each request and never answers.
#[derive(Default)]
struct Silent {
    /// Claims that were to be published.
    asked: AtomicU64,
    /// Requests for the end of a partition.
    looks: AtomicU64,
}

impl ClaimQueue for Silent {
    fn publish<'a>(
        &'a self,
        _claim: &'a QueuedClaim,
    ) -> BoxFuture<'a, Result<QueuePosition, QueueError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        pending().boxed()
    }

    fn end(&self, _template: TemplateId) -> BoxFuture<'_, Result<i64, QueueError>> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        pending().boxed()
    }

    fn reach(&self, _template: TemplateId) -> BoxFuture<'_, Result<QueueReach, QueueError>> {
        pending().boxed()
    }

    fn backlog(&self, _template: TemplateId) -> Option<u64> {
        None
    }
}

impl Chain {
    /// [`TEMPLATE`] with [`STOCK`] coupons in mode `queued`, its gate open.
    pub(crate) async fn queued(name: &str, accept_after: AcceptAfter) -> Self {
        Self::open(name, ClaimMode::Queued, accept_after).await
    }

    pub(crate) async fn open(name: &str, mode: ClaimMode, accept_after: AcceptAfter) -> Self {
        Self::limited(name, mode, accept_after, LIMIT).await
    }

    /// [`TEMPLATE`] with this limit per user; 0 means none.
    async fn limited(name: &str, mode: ClaimMode, accept_after: AcceptAfter, limit: u32) -> Self {
        let scope = TestServers::shared().scope(name);
        let brokers = scope.endpoints.kafka_brokers.clone();
        let names = TopicNames::new(&scope.topic_prefix);
        let layout = TopicLayout { partitions: 1, replication: 1 };
        ensure_topics(&brokers, &names, &layout).await.unwrap();
        let producer = ClaimsProducer::new(&brokers, &names, ProducerOptions::default());
        let offsets = QueueOffsets::new(&brokers, &names);
        let topic = Arc::new(Topic {
            producer,
            offsets,
            backlog: AtomicU64::new(0),
            looks: AtomicU64::new(0),
        });
        let mut world = World::on(scope.endpoints, &scope.key_prefix, STOCK, limit).await;
        world.queue = topic.clone();
        let chain = Self { world, brokers, names, topic };
        chain.change_mode(mode, accept_after).await;
        chain.world.rebuild().await;
        chain
    }

    /// Changes the mode in MySQL only.
    async fn change_mode(&self, claim_mode: ClaimMode, accept_after: AcceptAfter) {
        let before = self.current().await;
        let after = Template { claim_mode, accept_after, ..before.clone() };
        let mut connection = self.world.connection().await;
        let edited = template_edit::edit(&mut connection, &before, &after, false, now()).await;
        assert_eq!(edited.unwrap(), Edited::Done);
    }

    /// MySQL's template.
    async fn current(&self) -> Template {
        let mut connection = self.world.connection().await;
        template::get(&mut connection, TEMPLATE).await.unwrap().unwrap()
    }

    /// A process that checks no gate.
    async fn process(&self, holder: &'static str) -> Process {
        Process::without_keeper(&self.world, holder).await
    }

    /// A process that cannot publish.
    async fn cut_off_process(&mut self, holder: &'static str) -> Process {
        self.world.queue = Arc::new(NoQueue);
        let process = self.process(holder).await;
        self.world.queue = self.topic.clone();
        process
    }

    async fn facts(&self) -> QueueFacts {
        let mut connection = self.world.connection().await;
        stock::queue_facts(&mut connection, TEMPLATE).await.unwrap().unwrap()
    }

    async fn in_outbox(&self) -> u64 {
        self.world.gate.outbox_len(TEMPLATE).await.unwrap()
    }

    /// Begins a rebuild, and waits until its epoch has begun.
    async fn begin_rebuild(&self) -> (Epoch, JoinHandle<Result<Rebuilt, RebuildError>>) {
        self.begin_rebuild_by(self.topic.clone()).await
    }

    /// Like [`Self::begin_rebuild`], by a process with this queue.
    async fn begin_rebuild_by(
        &self,
        queue: Arc<dyn ClaimQueue>,
    ) -> (Epoch, JoinHandle<Result<Rebuilt, RebuildError>>) {
        let before = self.world.meta().await.epoch;
        let pool = self.world.pool.clone();
        let gate = self.world.gate.clone();
        let rebuilding = tokio::spawn(async move {
            rebuild(&pool, &gate, &*queue, TEMPLATE, "drains", &FailPoints::default()).await
        });
        until_true(async || self.world.meta().await.epoch > before).await;
        let meta = self.world.meta().await;
        assert_eq!(meta.phase, Phase::Loading);
        (meta.epoch, rebuilding)
    }

    /// Publishes what the outbox holds, as the relay does.
    async fn relay(&self) {
        let gate = &self.world.gate;
        let read = gate.read_outbox(TEMPLATE, "relay", OutboxFrom::New, MANY).await.unwrap();
        let mut ids = Vec::new();
        for entry in read.entries {
            self.topic.producer.publish(&entry.claim.unwrap()).await.unwrap();
            ids.push(entry.id);
        }
        assert!(gate.trim_outbox(TEMPLATE, &read.run, &ids).await.unwrap());
    }

    /// Removes what the outbox holds, as the relay does with what the broker refuses for good.
    async fn drop_outbox(&self) {
        let gate = &self.world.gate;
        let read = gate.read_outbox(TEMPLATE, "relay", OutboxFrom::New, MANY).await.unwrap();
        let ids: Vec<String> = read.entries.into_iter().map(|entry| entry.id).collect();
        assert!(gate.trim_outbox(TEMPLATE, &read.run, &ids).await.unwrap());
    }

    /// Lands what the topic holds, and tells the gate.
    async fn land(&self) {
        self.land_telling(&self.world.gate_url).await;
    }

    /// Lands what the topic holds while the gate is unreachable.
    async fn land_untold(&self) {
        self.land_telling("redis://127.0.0.1:1").await;
    }

    async fn land_telling(&self, gate_url: &str) {
        let world = &self.world;
        let (reports, reporter) = GateReports::new(gate_url, &world.prefix, world.pool.clone());
        let telling = tokio::spawn(reporter.run());
        let ids = Arc::new(Ids::lease(world.pool.clone(), "lander").await.unwrap());
        let points = FailPoints::default();
        let mut lander = QueuedLander::connect(&world.url, &ids, reports, now, points).await;
        let options = ConsumerOptions::default();
        let reader = ClaimsReader::join(&self.brokers, &self.names, options).await.unwrap();
        let end = self.topic.offsets.end(PARTITION).await.unwrap();
        while self.topic.offsets.committed(PARTITION).await.unwrap() < end {
            let batch = reader.next_batch(MANY).await.unwrap();
            let next = batch.messages.last().unwrap().offset + 1;
            let claims: Vec<QueuedClaim> =
                batch.messages.into_iter().map(|message| message.body.unwrap()).collect();
            lander.land(&claims).await;
            reader.done(batch.partition, next);
            reader.commit_now().await.unwrap();
        }
        reader.close().await.unwrap();
        drop(lander);
        telling.await.unwrap();
    }

    /// Removes the topic with all its claims, and makes it anew.
    async fn replace_topic(&self) {
        verify::remove(&self.brokers, &self.names.claims()).await.unwrap();
        // The broker refuses the name until the old one is gone.
        let layout = TopicLayout { partitions: 1, replication: 1 };
        ensure_topics(&self.brokers, &self.names, &layout).await.unwrap();
    }

    /// Waits until a drain or a resolver has been told `looks` more times how far the partition has landed.
    async fn looked_at(&self, looks: u64) {
        let before = self.topic.looks.load(Ordering::Relaxed);
        until_true(async || self.topic.looks.load(Ordering::Relaxed) >= before + looks).await;
    }

    /// Waits until the gate has nothing queued.
    async fn settled(&self) {
        let none_queued = async || {
            let epoch = self.world.meta().await.epoch;
            self.world.gate.queued_count(TEMPLATE, epoch).await.unwrap() == 0
        };
        until_true(none_queued).await;
    }
}

/// The id of an accepted claim, and its position in the queue.
#[track_caller]
fn accepted(answer: &Answer) -> (ClaimId, Option<QueuePosition>) {
    match answer {
        Answer::Accepted { id, position, .. } => (*id, *position),
        other => panic!("{other:?}"),
    }
}

/// The id of a claim that is queued, while it is unknown whether it was accepted.
#[track_caller]
fn unknown(answer: &Answer) -> ClaimId {
    match answer {
        Answer::Unavailable(Unavailable::Queue { id, .. }) => *id,
        other => panic!("{other:?}"),
    }
}

/// The epoch of an accepted claim.
#[track_caller]
fn epoch_of(answer: &Answer) -> Epoch {
    match answer {
        Answer::Accepted { epoch, .. } => *epoch,
        other => panic!("{other:?}"),
    }
}

/// Sends a claim to a process that knows the current template.
async fn ask(chain: &Chain, process: &Process, claim: &Claim) -> Answer {
    process.claims.claim(Arc::new(chain.current().await), claim.clone()).await
}

/// Longest wait of a drain between two looks at MySQL, with room to spare.
const A_LOOK: Duration = Duration::from_secs(5);

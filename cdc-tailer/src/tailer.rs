//! The one loop: where to begin, follow, and what to do when following ends.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, anyhow};
use mysql_store::settings::BinlogSettings;
use runtime::{Clock, Part};
use tokio::{sync::watch, task::JoinHandle, time::MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use topic::{OrderedProducer, ProducerOptions, TopicNames};
use tracing::{info, warn};

use crate::{
    address::Address,
    assembler::Followed,
    checkpoint::{self, Checkpoint, Store},
    config::Config,
    error::{Directive, TailError},
    metrics,
    position::{GtidSet, Position},
    preflight,
    publish::{Publisher, TABLES, count},
    queue::{self, Receiver},
    reader::{self, Incoming},
    snapshot,
    source::{Origin, Server},
};

/// Bytes of messages that the producer holds for the broker.
const PRODUCER_BYTES: usize = 16 * 1024 * 1024;

/// How often acknowledgements are looked at when no new input comes.
const SETTLE_INTERVAL: Duration = Duration::from_millis(100);

/// How long a stopping tailer waits for acknowledgements before it leaves the rest to its successor.
const DRAIN_WAIT: Duration = Duration::from_secs(10);

/// Follows the binlog until `stop`, then drains and writes a last checkpoint. Says in `part` whether
/// it is following.
///
/// # Errors
/// What somebody must look at: settings, grants, a table that cannot be followed, being fenced.
pub async fn run(
    config: &Config,
    clock: &Clock,
    part: &Part,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    metrics::describe();
    let started = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        started = Tailer::start(config, clock) => started?,
    };
    started.run(part, stop).await
}

struct Tailer<'a> {
    config: &'a Config,
    clock: &'a Clock,
    database: String,
    names: TopicNames,
    server: Arc<Server>,
    identity: String,
    publisher: Publisher,
    store: Option<Store>,
    checkpoints: watch::Sender<Option<Checkpoint>>,
    /// Whether the safe position has moved since the last checkpoint.
    moved: bool,
}

/// Where to begin.
enum Begin {
    Resume(Position),
    Snapshot(String),
}

impl<'a> Tailer<'a> {
    /// Checks everything that can be wrong, and reads the checkpoint.
    async fn start(config: &'a Config, clock: &'a Clock) -> anyhow::Result<Self> {
        let url = config.database_url.expose();
        let database = mysql_store::connect::database_of(url)?;
        let address = Address::parse(url)?;
        let mut connection = preflight::connect(url).await?;
        let settings = preflight::settings(&mut connection).await?;
        let (brokers, names) = (&config.kafka_brokers, TopicNames::new(&config.topic_prefix));
        topic::ensure_topics(brokers, &names, &config.layout()).await.context("topics")?;
        let topics = [names.user_coupon(), names.template(), names.stock_movement()];
        let options = ProducerOptions { queue_bytes: PRODUCER_BYTES, ..ProducerOptions::default() };
        let producer = OrderedProducer::connect(brokers, &topics, options).await?;
        // From here on an earlier tailer's checkpoints are refused.
        let store = Store::take_over(brokers, &names, &database).await?;
        let server = Arc::new(Server {
            flavor: preflight::flavor(&settings),
            server_id: config.server_id(&database),
            packet_bytes_max: config.packet_bytes_max,
            address,
        });
        let nowhere = Position { gtids: GtidSet::empty(server.flavor), file: "".into(), offset: 0 };
        let mut tailer = Self {
            config,
            clock,
            database,
            server,
            identity: settings.server_identity.clone(),
            publisher: Publisher::new(producer, &names, nowhere),
            names,
            store: None,
            checkpoints: watch::Sender::new(None),
            moved: false,
        };
        match tailer.begin(&store, &settings).await? {
            Begin::Resume(position) => {
                info!(binlog.gtid = %position.gtids, "resuming from the checkpoint");
                tailer.publisher.restart(position);
            }
            Begin::Snapshot(reason) => tailer.snapshot(&store, &reason).await?,
        }
        tailer.store = Some(store);
        Ok(tailer)
    }

    async fn begin(&self, store: &Store, settings: &BinlogSettings) -> anyhow::Result<Begin> {
        if self.config.resnapshot {
            return Ok(Begin::Snapshot("asked for by --resnapshot".into()));
        }
        let Some(checkpoint) = store.load().await? else {
            return Ok(Begin::Snapshot("there is no checkpoint".into()));
        };
        let brokers = &self.config.kafka_brokers;
        match preflight::mismatch(&checkpoint, settings, brokers).await? {
            Some(reason) => Ok(Begin::Snapshot(format!("the checkpoint does not fit: {reason}"))),
            None => Ok(Begin::Resume(checkpoint.position()?)),
        }
    }

    /// Reads the tables through the topics and saves the position from before that.
    async fn snapshot(&mut self, store: &Store, reason: &str) -> anyhow::Result<()> {
        let mut connection = preflight::connect(self.config.database_url.expose()).await?;
        let settings = preflight::settings(&mut connection).await?;
        let position =
            mysql_store::settings::readable_position(&mut connection, settings.flavor).await?;
        let gtids = GtidSet::parse(self.server.flavor, &position)?;
        warn!(binlog.gtid = %gtids, reason, "reading all followed tables");
        let (names, database) = (&self.names, &self.database);
        let producer = self.publisher.producer_mut();
        snapshot::send(&mut connection, producer, names, database, self.clock)
            .await
            .context("snapshot")?;
        producer.drained().await?;
        self.identity = settings.server_identity;
        self.publisher.restart(Position { gtids, file: "".into(), offset: 0 });
        store.save(&self.checkpoint()).await
    }

    async fn run(mut self, part: &Part, stop: CancellationToken) -> anyhow::Result<()> {
        let finish = CancellationToken::new();
        let mut store = self.store.take();
        loop {
            let own = store.take().ok_or_else(|| anyhow!("the checkpoint store was lost"))?;
            let keeper = checkpoint::keep(
                own,
                self.checkpoints.subscribe(),
                self.clock.clone(),
                finish.clone(),
            );
            let mut keeper = tokio::spawn(keeper);
            let ended = tokio::select! {
                biased;
                () = stop.cancelled() => None,
                kept = &mut keeper => return kept?.and(Err(anyhow!("checkpoints ended"))),
                error = self.follow(part) => Some(error?),
            };
            part.not_ready("stopping");
            let Some(reason) = ended else {
                self.drain().await?;
                finish.cancel();
                return last_checkpoint(keeper).await;
            };
            keeper.abort();
            part.not_ready(format!("reading all tables: {reason}"));
            self.publisher.producer().drained().await?;
            let brokers = &self.config.kafka_brokers;
            let own = Store::take_over(brokers, &self.names, &self.database).await?;
            self.snapshot(&own, &reason).await?;
            store = Some(own);
        }
    }

    /// Follows from the safe position. Returns why the position was lost; other ends are errors.
    async fn follow(&mut self, part: &Part) -> anyhow::Result<String> {
        let (sender, mut receiver) = queue::bounded(self.config.queue_bytes);
        let origin =
            Origin { server: Arc::clone(&self.server), after: self.publisher.safe().gtids.clone() };
        let followed = Followed { database: self.database.clone(), tables: TABLES };
        let reader = reader::spawn(origin, followed, sender).context("reader thread")?;
        self.forward(&mut receiver, part).await?;
        let error = match tokio::task::spawn_blocking(|| reader.join()).await? {
            Ok(Err(error)) => error,
            Ok(Ok(())) => return Err(anyhow!("the binlog reader ended by itself")),
            Err(_) => return Err(anyhow!("the binlog reader panicked")),
        };
        match error.directive() {
            Directive::Resnapshot => Ok(runtime::report(&error)),
            Directive::Reconnect | Directive::Suspect | Directive::Stop => {
                Err(stopped(error, &self.publisher))
            }
        }
    }

    /// Publishes what the reader hands over, until it has ended.
    async fn forward(
        &mut self,
        receiver: &mut Receiver<Incoming>,
        part: &Part,
    ) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(SETTLE_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                // Acknowledgements before new input: they move the checkpoint.
                _ = tick.tick() => {
                    self.settle()?;
                    self.offer_checkpoint();
                }
                some = receiver.recv_some() => {
                    let Some(some) = some else { return Ok(()) };
                    for incoming in some {
                        self.incoming(incoming, part).await?;
                    }
                    self.settle()?;
                    ::metrics::gauge!(metrics::QUEUE_BYTES).set(count(receiver.bytes()));
                }
            }
        }
    }

    async fn incoming(&mut self, incoming: Incoming, part: &Part) -> anyhow::Result<()> {
        match incoming {
            Incoming::Connected => part.ready(),
            Incoming::Disconnected(reason) => part.not_ready(reason),
            Incoming::Idle => self.publisher.idle(),
            Incoming::Transaction(transaction) => {
                let now_ms = self.clock.now().timestamp_millis();
                self.publisher.publish(&transaction, now_ms).await?;
            }
        }
        Ok(())
    }

    /// Moves the safe position.
    fn settle(&mut self) -> anyhow::Result<()> {
        self.moved |= self.publisher.settle(self.clock.now().timestamp_millis())?;
        Ok(())
    }

    /// Hands the safe position to the keeper, if it has moved since.
    fn offer_checkpoint(&mut self) {
        if std::mem::take(&mut self.moved) {
            let checkpoint = self.checkpoint();
            self.checkpoints.send_replace(Some(checkpoint));
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        let offsets = self.publisher.producer().acknowledged_offsets();
        Checkpoint::new(&self.identity, self.publisher.safe(), offsets)
    }

    /// Waits, bounded, for what is under way.
    async fn drain(&mut self) -> anyhow::Result<()> {
        let drained = tokio::time::timeout(DRAIN_WAIT, self.publisher.producer().drained()).await;
        match drained {
            Ok(drained) => drained?,
            Err(_) => warn!("the broker did not acknowledge everything; it will be sent again"),
        }
        self.settle()?;
        self.offer_checkpoint();
        Ok(())
    }
}

/// Waits, bounded, for the keeper to write the last checkpoint. Without it the successor sends a
/// little more again, so a broker that is away is no reason to fail.
async fn last_checkpoint(keeper: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    match tokio::time::timeout(DRAIN_WAIT, keeper).await {
        Ok(kept) => kept?,
        Err(_) => {
            warn!("the last checkpoint could not be written in time");
            Ok(())
        }
    }
}

fn stopped(error: TailError, publisher: &Publisher) -> anyhow::Error {
    let position = publisher.safe().gtids.to_string();
    anyhow::Error::new(error).context(format!("the tailer stops; published up to {position:?}"))
}

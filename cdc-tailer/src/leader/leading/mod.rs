//! One leadership: choose the start, read tables if a snapshot is needed, then follow the binlog.

mod reading;

use std::{convert::Infallible, sync::Arc, time::Duration};

use anyhow::{Context as _, anyhow};
use mysql_store::settings;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;
use topic::{OrderedProducer, ProducerOptions};
use tracing::{info, warn};

use crate::{
    binlog::{position::Position, schema::Followed},
    error::{Directive, TailError},
    leader::{
        checkpoint::{self, Checkpoint, Store},
        context::LeaderContext,
        election::Leadership,
        preflight,
        snapshot::{Restates, SnapshotProgress},
        start::{self, Begin},
        status::{Facts, LeaderStatus},
        topics_check::{self, written},
    },
    metrics,
    publish::{Publisher, count, messages::TABLES, sink::Broker},
    source::{
        Origin, Server,
        queue::{self, Receiver},
        reader::{self, Incoming},
    },
};

/// Bytes of messages that the producer buffers; its bookkeeping takes as much again. The buffer covers a few
/// milliseconds. A larger one costs memory (bench/results/tailer.json) and gains no speed.
const PRODUCER_BYTES: usize = 6 * 1024 * 1024;

/// Interval between checks of acknowledgements without new input.
const ADVANCE_INTERVAL: Duration = Duration::from_millis(100);

/// Interval between status reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Time a stopping tailer waits for acknowledgements before it leaves the rest to its successor.
const DRAIN_WAIT: Duration = Duration::from_secs(10);

/// Whether the last leadership of this process ended because of a topic. Then this one is ready only once the topics
/// have everything so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    None,
    Topics,
}

/// Leads until `stop`, until another leader fences this one, or until an error that an operator must solve.
pub(crate) async fn lead(
    context: &LeaderContext<'_>,
    leadership: &Leadership,
    doubt: Doubt,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let (leading, store, begin) = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        started = Leading::start(context, leadership, doubt) => started?,
    };
    leading.run(store, begin, stop).await
}

struct Leading<'a> {
    context: &'a LeaderContext<'a>,
    leadership: &'a Leadership,
    doubt: Doubt,
    /// Whether the binlog is streamed.
    is_connected: bool,
    server: Arc<Server>,
    flavor: settings::Flavor,
    publisher: Publisher,
    /// Acknowledged progress of the current snapshot.
    snapshot: Option<SnapshotProgress>,
    checkpoints: watch::Sender<Option<Checkpoint>>,
    written: watch::Sender<Option<Checkpoint>>,
    /// Whether the position has moved since the last checkpoint was offered.
    moved: bool,
    status: LeaderStatus,
    reported: Instant,
}

impl<'a> Leading<'a> {
    async fn start(
        context: &'a LeaderContext<'a>,
        leadership: &'a Leadership,
        doubt: Doubt,
    ) -> anyhow::Result<(Self, Store, Begin)> {
        let config = context.config;
        let names = &context.names;
        let mut connection = preflight::connect(config.database_url.expose()).await?;
        let settings = preflight::settings(&mut connection).await?;
        preflight::missing_tables(&mut connection).await?;
        let options = ProducerOptions { queue_bytes: PRODUCER_BYTES, ..ProducerOptions::default() };
        let producer = OrderedProducer::connect(config.brokers(), &written(names), options).await?;
        let broker = Broker {
            producer,
            dead_letter: names.dead_letter(),
            message_bytes_max: config.message_bytes_max,
        };
        // From here on, checkpoints of an earlier leader are rejected.
        let store = Store::take_over(config.brokers(), names, &context.database).await?;
        let server = Arc::new(context.server(preflight::flavor(&settings)));
        let begin = start::decide(context, &server).await?;
        let written = watch::Sender::new(None);
        let status = LeaderStatus::new(config.database_url.clone(), written.subscribe());
        broker.producer.follow(begin.acknowledged.clone());
        let position = begin.position.clone();
        let followed = Arc::clone(&begin.followed);
        let moved = followed != position.file;
        let publisher = Publisher::new(broker, names, position, followed, begin.as_of_ms);
        let leading = Self {
            context,
            leadership,
            doubt,
            is_connected: false,
            server,
            flavor: settings.flavor,
            publisher,
            snapshot: begin.snapshot.clone(),
            checkpoints: watch::Sender::new(None),
            written,
            moved,
            status,
            reported: Instant::now(),
        };
        Ok((leading, store, begin))
    }

    async fn run(
        mut self,
        store: Store,
        begin: Begin,
        stop: &CancellationToken,
    ) -> anyhow::Result<()> {
        let finish = CancellationToken::new();
        let mut keeper = tokio::spawn(checkpoint::keep(
            store,
            self.checkpoints.subscribe(),
            self.written.clone(),
            self.context.clock.clone(),
            finish.clone(),
        ));
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => Ok(()),
            kept = &mut keeper => return kept?.and(Err(anyhow!("checkpoints ended"))),
            gone = topics_check::watch(self.context.config.brokers(), &self.context.names) => {
                gone.map(|never| match never {}).map_err(Into::into)
            }
            worked = self.work(begin) => worked.map(|never| match never {}),
        };
        let reason = ended.as_ref().err().map(|error| runtime::report(error.as_ref()));
        self.context.part.not_ready(reason.unwrap_or_else(|| "stopping".to_owned()));
        // Also after an error, to record the progress for the next start.
        let drained = self.drain().await;
        finish.cancel();
        let written = last_checkpoint(keeper).await;
        ended.and(drained).and(written)
    }

    /// Reads tables if necessary and follows from there, repeatedly. Returns only errors.
    async fn work(&mut self, mut begin: Begin) -> anyhow::Result<Infallible> {
        loop {
            if let Some(progress) = begin.snapshot {
                self.read_tables(progress, &begin.reason).await?;
            } else {
                info!(binlog.gtid = %begin.position.gtids, "resuming from the checkpoint");
            }
            let reason = self.follow().await?;
            self.publisher.producer().drained().await?;
            begin = start::anew(self.context, &self.server, reason, Restates::History).await?;
            self.publisher.restart(begin.position.clone(), begin.as_of_ms);
        }
    }

    /// Follows from the safe position. Returns the reason if the position was lost; other ends are errors.
    async fn follow(&mut self) -> anyhow::Result<String> {
        let config = self.context.config;
        let (sender, mut receiver) = queue::bounded(config.queue_bytes);
        let origin =
            Origin { server: Arc::clone(&self.server), after: self.publisher.safe().clone() };
        let followed = Followed { database: self.context.database.clone(), tables: TABLES };
        let read_files_to = Arc::new(self.publisher.followed().clone());
        let spill_folder = config.spill_folder.clone();
        let reader = reader::spawn(origin, followed, read_files_to, spill_folder, sender)
            .context("reader thread")?;
        self.forward(&mut receiver).await?;
        let error = match tokio::task::spawn_blocking(|| reader.join()).await? {
            Ok(Err(error)) => error,
            Ok(Ok(())) => return Err(anyhow!("the binlog reader ended by itself")),
            Err(_) => return Err(anyhow!("the binlog reader panicked")),
        };
        match error.directive() {
            Directive::Resnapshot => Ok(runtime::report(&error)),
            Directive::Reconnect | Directive::GiveWay | Directive::Suspect | Directive::Stop => {
                Err(stopped(error, self.publisher.safe()))
            }
        }
    }

    /// Publishes what the reader queues, until the reader ends.
    async fn forward(&mut self, receiver: &mut Receiver<Incoming>) -> anyhow::Result<()> {
        let mut tick = tokio::time::interval(ADVANCE_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                // Acknowledgements before new input: they advance the checkpoint.
                _ = tick.tick() => {
                    self.advance()?;
                    self.leadership.stands()?;
                    // If the leadership is uncertain, writing a checkpoint asks the broker.
                    if self.moved || !self.leadership.holds() {
                        self.offer_checkpoint();
                    }
                    if self.reported.elapsed() >= REPORT_INTERVAL {
                        self.report(receiver.bytes());
                    }
                }
                some = receiver.recv_some() => {
                    let Some(some) = some else { return Ok(()) };
                    for incoming in some {
                        self.incoming(incoming).await?;
                    }
                    self.advance()?;
                    ::metrics::gauge!(metrics::QUEUE_BYTES.name).set(count(receiver.bytes()));
                }
            }
        }
    }

    async fn incoming(&mut self, incoming: Incoming) -> anyhow::Result<()> {
        match incoming {
            Incoming::Connected => {
                let url = self.context.config.database_url.expose();
                preflight::still_logs_everything(url, self.flavor).await?;
                self.is_connected = true;
                if self.doubt == Doubt::None {
                    self.context.part.ready();
                }
            }
            Incoming::Disconnected(reason) => {
                self.is_connected = false;
                self.context.part.not_ready(reason);
            }
            Incoming::Idle(read_to) => {
                self.moved |= self.publisher.idle(read_to, self.context.now_ms());
                if self.publisher.unacknowledged() == 0 {
                    self.trust_topics();
                }
            }
            Incoming::Transaction(transaction) => {
                if let Some(table) = transaction.rewrites {
                    return self.publish_definition(&transaction, table).await;
                }
                self.publisher.publish(&transaction, self.context.now_ms()).await?;
            }
        }
        Ok(())
    }

    /// Advances the safe position.
    fn advance(&mut self) -> anyhow::Result<()> {
        if self.publisher.advance(self.context.now_ms())? {
            self.moved = true;
            self.trust_topics();
        }
        Ok(())
    }

    fn trust_topics(&mut self) {
        if self.doubt == Doubt::Topics && self.is_connected {
            self.doubt = Doubt::None;
            self.context.part.ready();
        }
    }

    /// Hands a checkpoint at the safe position to the task that writes checkpoints.
    fn offer_checkpoint(&mut self) {
        self.moved = false;
        self.checkpoints.send_replace(Some(Checkpoint::new(
            self.publisher.safe(),
            self.publisher.followed(),
            self.publisher.as_of_ms(),
            self.publisher.producer().positions(),
            self.snapshot.clone(),
        )));
    }

    fn report(&mut self, queue_bytes: usize) {
        self.reported = Instant::now();
        let facts = Facts {
            server_id: self.server.server_id,
            safe: self.publisher.safe(),
            read_to: self.publisher.read_to(),
            as_of_ms: self.publisher.as_of_ms(),
            now_ms: self.context.now_ms(),
            unacknowledged: self.publisher.unacknowledged(),
            queue_bytes,
            snapshot: self.snapshot.as_ref(),
            holds_seat: self.leadership.holds(),
        };
        self.status.report(&facts, self.context.part);
    }

    /// Waits for acknowledgements, at most [`DRAIN_WAIT`], and offers a checkpoint of them.
    async fn drain(&mut self) -> anyhow::Result<()> {
        let drained = tokio::time::timeout(DRAIN_WAIT, self.publisher.producer().drained()).await;
        let drained = drained.unwrap_or_else(|_| {
            warn!("the broker did not acknowledge everything; it will be sent again");
            Ok(())
        });
        self.moved |= self.publisher.advance_to_watermark(self.context.now_ms());
        if self.moved || self.snapshot.is_some() {
            self.offer_checkpoint();
        }
        Ok(drained?)
    }
}

/// Waits, at most [`DRAIN_WAIT`], for the last checkpoint. Without it the successor only repeats a little more, so an
/// unreachable broker is not an error.
async fn last_checkpoint(keeper: JoinHandle<anyhow::Result<()>>) -> anyhow::Result<()> {
    match tokio::time::timeout(DRAIN_WAIT, keeper).await {
        Ok(kept) => kept?,
        Err(_) => {
            warn!("the last checkpoint could not be written in time");
            Ok(())
        }
    }
}

fn stopped(error: TailError, safe: &Position) -> anyhow::Error {
    let position = safe.gtids.to_string();
    // Several attempts have failed, so the damage is on the server's disk.
    let way_out = match error.directive() {
        Directive::Suspect => "; if the server's file is damaged, start with --resnapshot",
        _ => "",
    };
    let context = format!("the tailer stops; published up to {position:?}{way_out}");
    anyhow::Error::new(error).context(context)
}

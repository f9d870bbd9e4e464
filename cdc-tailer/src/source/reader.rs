//! The reader thread: connects, assembles transactions, queues them, reconnects.
//!
//! After a reconnect it resumes after the last transaction that it queued, not at the checkpoint, because the process
//! keeps queued transactions in memory until the broker has them.

use std::{
    convert::Infallible,
    path::PathBuf,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use runtime::Backoff;
use tracing::{info, warn};

use crate::{
    binlog::{
        packet::Packet,
        position::{File, ReadTo, file_number},
        schema::Followed,
    },
    error::{Directive, TailError},
    metrics,
    source::{
        BinlogSource, Origin,
        connection::{Connection, HEARTBEAT},
        queue::{Closed, Sender},
        restarts::{self, Run},
        same_history,
    },
    transaction::{Assembled, Assembler, Limits, Transaction},
};

/// Backoff between connection attempts. A server that runs without its binlog between two of them is not noticed
/// (`restarts.rs`), so the longest pause is short.
const BACKOFF_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Backoff after another replica took our server id. A tailer that was suspended learns meanwhile that it no longer
/// leads.
const GIVE_WAY_MIN: Duration = Duration::from_millis(500);
const GIVE_WAY_MAX: Duration = Duration::from_secs(4);

/// Number of evictions after which we stop, and the time without one that resets the count.
const EVICTIONS_MAX: u32 = 5;
const PEACE: Duration = Duration::from_secs(60);

/// Number of suspect failures at the same position after which we stop.
const STRIKES_MAX: u32 = 3;

/// Messages of the reader to the publisher.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The stream is open.
    Connected,
    /// The stream broke; the reader reconnects.
    Disconnected(String),
    Transaction(Transaction),
    /// The server has no more events for now: everything up to there was read.
    Idle(ReadTo),
}

/// Longest time without a look at a server that is trusted to have written all into its binlog meanwhile. Longer than
/// the pause between two attempts, shorter than a server needs to start, run and start again.
const UNWATCHED_MAX: Duration = Duration::from_secs(3);

/// Packets between two notes of the time while they come without a pause.
const PACKETS_TO_NOTE: u32 = 256;

/// Starts the thread. It ends when the receiver is gone, or with an error that is not transient.
pub(crate) fn spawn(
    origin: Origin,
    followed: Followed,
    read_files_to: Arc<File>,
    spill_folder: PathBuf,
    sender: Sender<Incoming>,
) -> std::io::Result<JoinHandle<Result<(), TailError>>> {
    let limits = Limits { packet_bytes_max: origin.server.packet_bytes_max, spill_folder };
    let assembler = Assembler::new(followed, limits, &origin.after.pending);
    let reader = Reader { origin, assembler, sender, strikes: 0, read_files_to, watched: None };
    thread::Builder::new().name("binlog-reader".to_owned()).spawn(|| reader.run())
}

struct Reader {
    origin: Origin,
    assembler: Assembler,
    sender: Sender<Incoming>,
    /// Suspect failures since the last transaction.
    strikes: u32,
    /// The last file that was read, or of which it is known that the server's run went on to it.
    read_files_to: Arc<File>,
    /// When the server last sent something, or could not be reached; `None` before the first connection.
    watched: Option<Instant>,
}

/// Why a stream ended.
enum End {
    ReceiverGone,
    Failed(TailError),
}

impl From<Closed> for End {
    fn from(_: Closed) -> Self {
        Self::ReceiverGone
    }
}

impl From<TailError> for End {
    fn from(error: TailError) -> Self {
        Self::Failed(error)
    }
}

impl Reader {
    fn run(mut self) -> Result<(), TailError> {
        let mut backoff = Backoff::new(BACKOFF_MIN, BACKOFF_MAX);
        let mut giving_way = Backoff::new(GIVE_WAY_MIN, GIVE_WAY_MAX);
        let mut evictions = 0;
        let mut opened = Instant::now();
        loop {
            let before = self.origin.after.gtids.clone();
            let error = match self.stream() {
                End::ReceiverGone => return Ok(()),
                End::Failed(error) => error,
            };
            if self.origin.after.gtids != before {
                backoff.reset();
                self.strikes = 0;
            }
            if opened.elapsed() >= PEACE {
                giving_way.reset();
                evictions = 0;
            }
            self.strikes += u32::from(error.directive() == Directive::Suspect);
            evictions += u32::from(error.directive() == Directive::GiveWay);
            let wait = match error.directive() {
                Directive::Reconnect => backoff.next_wait(),
                Directive::GiveWay if evictions < EVICTIONS_MAX => giving_way.next_wait(),
                Directive::Suspect if self.strikes < STRIKES_MAX => backoff.next_wait(),
                Directive::GiveWay
                | Directive::Suspect
                | Directive::Resnapshot
                | Directive::Stop => return Err(error),
            };
            let reason = runtime::report(&error);
            warn!(error = reason, wait_ms = wait.as_millis(), "binlog stream broke");
            ::metrics::counter!(metrics::RECONNECTS.name).increment(1);
            if self.sender.send(Incoming::Disconnected(reason), 0).is_err()
                || self.sender.pause(wait).is_err()
            {
                return Ok(());
            }
            opened = Instant::now();
        }
    }

    /// Streams over one connection until it ends.
    fn stream(&mut self) -> End {
        match self.try_stream() {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    fn try_stream(&mut self) -> Result<Infallible, End> {
        let is_watched = self.watched.is_some_and(|last| last.elapsed() <= UNWATCHED_MAX);
        let opened = Connection::open(&self.origin);
        self.watched = Some(Instant::now());
        let mut source = opened?;
        // Only the first packet shows whether the server can serve the position.
        let first = source.next_packet()?;
        // Only after the stream is open, because from then on a change of history ends the stream.
        same_history::prove(&self.origin, source.identity())?;
        if !is_watched {
            self.prove_run()?;
        }
        if self.origin.after.file.server != source.identity() {
            let from = &self.origin.after.file.server;
            let to = source.identity();
            info!(from, to, "the server has taken another one's place");
        }
        info!(
            binlog.gtid = %self.origin.after.gtids,
            mysql.address = ?self.origin.server.address,
            mysql.server_id = self.origin.server.server_id,
            heartbeat_ms = HEARTBEAT.as_millis(),
            "binlog stream opened"
        );
        self.sender.send(Incoming::Connected, 0)?;
        self.assembler.reconnected(source.identity());
        self.forward(first, &mut source)
    }

    /// Checks that the server's run went on while nobody looked, as while this thread waited for the broker.
    fn prove_run(&mut self) -> Result<(), TailError> {
        let read = self.assembler.file();
        let is_later = file_number(&read.name) > file_number(&self.read_files_to.name)
            || !restarts::is_one_server(&read.server, &self.read_files_to.server);
        if is_later && !read.name.is_empty() {
            self.read_files_to = Arc::clone(read);
        }
        match restarts::since(&self.origin.server, Arc::clone(&self.read_files_to))? {
            Run::GoesOnTo(file) => {
                self.read_files_to = file;
                Ok(())
            }
            Run::Unknown(reason) => Err(TailError::PositionLost { reason }),
        }
    }

    fn forward(
        &mut self,
        first: Packet,
        source: &mut impl BinlogSource,
    ) -> Result<Infallible, End> {
        let events = ::metrics::counter!(metrics::EVENTS.name);
        let mut watch = same_history::Watch::default();
        let mut packet = first;
        let mut since_note = 0;
        loop {
            events.increment(1);
            since_note += 1;
            match self.assembler.accept(packet)? {
                Assembled::Nothing => {}
                Assembled::FileBegins(gtids) => {
                    same_history::is_whole(&self.origin.after, self.assembler.file(), &gtids)?;
                }
                Assembled::Idle(offset) => {
                    watch.look(&self.origin.server, self.assembler.file(), offset)?;
                    let file = Arc::clone(self.assembler.file());
                    let read_to = ReadTo { file, offset: u64::from(offset) };
                    self.sender.send(Incoming::Idle(read_to), 0)?;
                }
                Assembled::Transaction(transaction) => {
                    let bytes = transaction.bytes();
                    let Transaction { gtid, end, landmark, .. } = transaction;
                    let phase = transaction.phase.clone();
                    let file = Arc::clone(&transaction.file);
                    self.sender.hold(Incoming::Transaction(transaction), bytes)?;
                    self.origin.after.pass(gtid, file, end, landmark, phase.as_deref());
                }
            }
            // No transaction is held back while we wait for the server.
            let waits = !source.has_more();
            if waits {
                self.sender.flush()?;
            }
            packet = source.next_packet()?;
            if waits || since_note >= PACKETS_TO_NOTE {
                self.watched = Some(Instant::now());
                since_note = 0;
            }
        }
    }
}

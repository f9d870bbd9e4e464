//! The checkpoint: where to resume after a restart. It is stored in Kafka, like the data.
//!
//! A compacted topic keeps the last checkpoint of each database. Each database has one transactional id, under which
//! its checkpoint is written. A new writer fences all earlier ones, so a tailer that was suspended for a while cannot
//! move the position back.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Context as _;
use runtime::{Backoff, Clock};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use topic::{Acknowledged, FencedWriter, TableReader, TopicError, TopicNames};
use tracing::{debug, warn};

use crate::{
    binlog::{
        gtid::{Flavor, Gtid, GtidSet, NotAPosition},
        pending::Pending,
        position::{File, Landmark, Last, Position},
        xid::Xid,
    },
    leader::snapshot::SnapshotProgress,
    metrics,
    source::restarts,
};

/// Layout version of [`Checkpoint`].
const VERSION: u32 = 3;

/// Maximum XA transactions of each kind in a checkpoint: 300 KB. If one is omitted and commits under the next tailer,
/// that tailer takes a snapshot.
const XA_MAX: usize = 1_000;

/// Minimum interval between checkpoints. A killed tailer repeats what it published since the last one.
const INTERVAL: Duration = Duration::from_secs(1);

/// Backoff while the broker is unreachable.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Where to resume, and what must still be true for that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    /// Always [`VERSION`].
    version: u32,
    pub(crate) flavor: Flavor,
    /// Identity of the server.
    server: String,
    /// Everything up to here is in the topics.
    gtid: String,
    /// The same position as a file of that server and an offset.
    file: String,
    offset: u64,
    /// The last file that a tailer has followed, behind the position if its transactions are none of ours. Empty:
    /// `file`.
    #[serde(default)]
    followed: String,
    /// The transaction that ends at the position.
    last: Option<SavedLast>,
    /// XA transactions without rows of followed tables that were prepared before the position and not ended.
    #[serde(default)]
    foreign: Vec<String>,
    /// Other XA transactions, with or without followed rows, that were prepared before the tables were read and not
    /// ended.
    #[serde(default)]
    unread: Vec<String>,
    /// Everything up to here was in the tables before they were read; `None` once the position is past it.
    #[serde(default)]
    covered: Option<String>,
    /// All changes until this time are before the position, in milliseconds since 1970.
    pub(crate) as_of_ms: i64,
    /// The last acknowledged message of each partition, by topic. If a topic does not have it, the topic has lost data
    /// that the checkpoint relies on.
    pub(crate) acknowledged: Acknowledged,
    /// A snapshot in progress: the tables are in the topics only up to here.
    pub(crate) snapshot: Option<SnapshotProgress>,
}

/// [`Last`] in serialized form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedLast {
    gtid: String,
    before: Option<(u32, u64)>,
    landmark: Landmark,
}

impl Checkpoint {
    pub(crate) fn new(
        position: &Position,
        followed: &File,
        as_of_ms: i64,
        acknowledged: Acknowledged,
        snapshot: Option<SnapshotProgress>,
    ) -> Self {
        let pending = &position.pending;
        Self {
            version: VERSION,
            flavor: position.gtids.flavor(),
            server: position.file.server.clone(),
            gtid: position.gtids.to_string(),
            file: position.file.name.clone(),
            offset: position.offset,
            // Behind a failover, the position may still be one of the server before.
            followed: match restarts::is_one_server(&followed.server, &position.file.server) {
                true => followed.name.clone(),
                false => String::new(),
            },
            last: position.last.map(|Last { gtid, before, landmark }| SavedLast {
                gtid: gtid.to_string(),
                before,
                landmark,
            }),
            foreign: named(&pending.foreign),
            unread: named(&pending.unread),
            // If the list is incomplete, the commit of an omitted transaction would go unnoticed.
            covered: pending
                .covered
                .as_ref()
                .filter(|_| pending.unread.len() <= XA_MAX)
                .map(GtidSet::to_string),
            as_of_ms,
            acknowledged,
            snapshot,
        }
    }

    /// Returns the last file that a tailer has followed.
    pub(crate) fn followed(&self) -> File {
        let name = if self.followed.is_empty() { &self.file } else { &self.followed };
        File { server: self.server.clone(), name: name.clone() }
    }

    /// Returns the GTIDs in the server's notation.
    pub(crate) fn gtid(&self) -> &str {
        &self.gtid
    }

    pub(crate) fn position(&self) -> Result<Position, NotAPosition> {
        let last = |saved: &SavedLast| {
            let SavedLast { gtid, before, landmark } = saved;
            let gtid = Gtid::parse(self.flavor, gtid)?;
            Ok(Last { gtid, before: *before, landmark: *landmark })
        };
        let xids = |names: &[String]| {
            names.iter().filter_map(|name| Xid::from_statement(name.as_bytes())).collect()
        };
        let covered = self.covered.as_ref().map(|gtids| GtidSet::parse(self.flavor, gtids));
        Ok(Position {
            gtids: GtidSet::parse(self.flavor, &self.gtid)?,
            file: Arc::new(File { server: self.server.clone(), name: self.file.clone() }),
            offset: self.offset,
            last: self.last.as_ref().map(last).transpose()?,
            pending: Pending {
                foreign: xids(&self.foreign),
                covered: covered.transpose()?,
                unread: xids(&self.unread),
            },
        })
    }
}

fn named(xids: &BTreeSet<Xid>) -> Vec<String> {
    xids.iter().take(XA_MAX).map(Xid::to_string).collect()
}

/// Loads the last checkpoint of a database. An unreadable one is logged and ignored.
pub(crate) async fn load(
    brokers: &str,
    names: &TopicNames,
    database: &str,
) -> Result<Option<Checkpoint>, TopicError> {
    let messages =
        TableReader::open_to_end(brokers, &names.checkpoint()).await?.read_to_end().await?;
    let own = messages.into_iter().rev().find(|message| message.key == database.as_bytes());
    let Some(payload) = own.and_then(|message| message.payload) else { return Ok(None) };
    match topic::decode::<Layout>(&payload).map(|layout| layout.version) {
        Ok(VERSION) => {}
        Ok(version) => {
            warn!(checkpoint.version = version, "checkpoint has another layout, it is not used");
            return Ok(None);
        }
        Err(_) => {}
    }
    match topic::decode(&payload) {
        Ok(checkpoint) => Ok(Some(checkpoint)),
        Err(error) => {
            warn!(error = runtime::report(&error), "checkpoint is damaged, it is not used");
            Ok(None)
        }
    }
}

/// The part common to all layouts.
#[derive(Deserialize)]
struct Layout {
    version: u32,
}

/// Writes the checkpoints of one database.
pub(crate) struct Store {
    topic: String,
    key: String,
    writer: FencedWriter,
}

impl Store {
    /// Takes over as the writer of this database's checkpoint and fences every earlier one.
    pub(crate) async fn take_over(
        brokers: &str,
        names: &TopicNames,
        database: &str,
    ) -> Result<Self, TopicError> {
        let id = format!("{}.cdc-tailer.{database}", names.prefix());
        Ok(Self {
            topic: names.checkpoint(),
            key: database.to_owned(),
            writer: FencedWriter::take_over(brokers, &id).await?,
        })
    }

    /// Writes a checkpoint; retries while the broker is unreachable.
    pub(crate) async fn save(&self, checkpoint: &Checkpoint) -> anyhow::Result<()> {
        let payload = serde_json::to_vec(checkpoint)?;
        let mut backoff = Backoff::new(RETRY_MIN, RETRY_MAX);
        loop {
            match self.writer.write(&self.topic, self.key.as_bytes(), &payload).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_retriable() => {
                    let error = runtime::report(&error);
                    runtime::seldom!("checkpoint not written, trying again", error);
                    backoff.wait().await;
                }
                Err(error) => return Err(error).context("checkpoint cannot be written"),
            }
        }
    }
}

/// Writes the newest checkpoint, at most every [`INTERVAL`]. After `finish`, writes a pending one and returns. Sends
/// each written checkpoint to `written`.
pub(crate) async fn keep(
    store: Store,
    mut newest: watch::Receiver<Option<Checkpoint>>,
    written: watch::Sender<Option<Checkpoint>>,
    clock: Clock,
    finish: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            biased;
            changed = newest.changed() => if changed.is_err() { return Ok(()) },
            () = finish.cancelled() => return Ok(()),
        }
        let checkpoint = newest.borrow_and_update().clone();
        let Some(checkpoint) = checkpoint else { continue };
        store.save(&checkpoint).await?;
        debug!(binlog.gtid = checkpoint.gtid, "checkpoint written");
        let now = Duration::from_millis(clock.now().timestamp_millis().unsigned_abs());
        ::metrics::gauge!(metrics::CHECKPOINT.name).set(now.as_secs_f64());
        written.send_replace(Some(checkpoint));
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = finish.cancelled() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{binlog::pending::Phase, leader::snapshot::Restates};

    #[test]
    fn a_checkpoint_gives_its_position_back() {
        let gtids = GtidSet::parse(Flavor::MariaDb, "0-1-42").unwrap();
        let mut position = Position::of(gtids);
        let file = File { server: "1/uid".into(), name: "binlog.000003".into() };
        let landmark = Landmark { start: 5, written: 6, sum: 7 };
        let gtid = Gtid::parse(Flavor::MariaDb, "0-1-43").unwrap();
        let xid = Xid::from_statement(b"X'61',X'',1").unwrap();
        let phase = Phase::PreparesForeign(xid.clone());
        position.pending.unread.insert(xid);
        position.pending.covered = Some(GtidSet::parse(Flavor::MariaDb, "0-1-50").unwrap());
        position.pass(gtid, Arc::new(file), 77, landmark, Some(&phase));
        let message = topic::MessagePosition { offset: 9, time_ms: 1_700_000_000_000 };
        let positions = BTreeMap::from([("t".to_owned(), BTreeMap::from([(3, message)]))]);
        let snapshot = Some(SnapshotProgress::of_all(Restates::History));
        let followed = File { server: "1/uid".into(), name: "binlog.000004".into() };
        let checkpoint = Checkpoint::new(&position, &followed, 5, positions, snapshot);
        let bytes = serde_json::to_vec(&checkpoint).unwrap();
        let read: Checkpoint = topic::decode(&bytes).unwrap();
        assert_eq!(read, checkpoint);
        assert_eq!(read.position().unwrap(), position);
        assert_eq!(read.followed(), followed);
    }
}

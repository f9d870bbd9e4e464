//! Converts transactions to messages, and acknowledgements to a safe position.
//!
//! Each transaction leaves a mark: the number after its last message. The safe position passes a mark once the
//! producer's watermark has reached it. So it is always the end of a transaction up to which everything was
//! acknowledged. Transactions without followed rows leave marks too, so that the position advances while the followed
//! tables are quiet.

pub(crate) mod messages;
pub(crate) mod sink;

use std::{collections::VecDeque, sync::Arc};

use runtime::trace::Span;
use topic::{OrderedProducer, TopicNames};

use crate::{
    binlog::{
        gtid::Gtid,
        pending::Phase,
        position::{File, Landmark, Position, ReadTo},
    },
    metrics,
    publish::{messages::Messages, sink::Broker},
    transaction::Transaction,
};

/// Maximum unacknowledged marks; at this limit, the next transaction waits. Rows fill the producer's buffer long
/// before. While a broker stalls, transactions of other databases fill only this list. The limit is several times the
/// marks outstanding at full speed. With 150 bytes per mark, and one more batch of the queue, it allows 10 MB.
const MARKS_MAX: usize = 40_000;

/// Sends the rows of transactions and tracks the safe position.
pub(crate) struct Publisher {
    broker: Broker,
    messages: Messages,
    marks: VecDeque<Mark>,
    /// Everything up to here is acknowledged.
    passed: Position,
    /// The last such position from which a reader may start.
    safe: Position,
    /// The last file up to which the server is known to have written all changes into its binlog, and before which
    /// everything is acknowledged.
    followed: Arc<File>,
    /// How far the server's files were read when it had no more events. `None`: there were some since.
    idle_at: Option<ReadTo>,
    /// Whether a reader may start from `passed`.
    resumable: bool,
    /// Time at which `safe` covered all changes, milliseconds since 1970.
    as_of_ms: i64,
    /// Cached metric handles: there are a hundred thousand transactions a second.
    rows: ::metrics::Counter,
    transactions: ::metrics::Counter,
}

/// An enqueued transaction.
struct Mark {
    /// All its messages have lower numbers.
    end: u64,
    gtid: Gtid,
    file: Arc<File>,
    landmark: Landmark,
    offset: u32,
    committed: u32,
    resumable: bool,
    phase: Option<Box<Phase>>,
    /// Spans, which end once the transaction is acknowledged.
    _spans: Vec<Span>,
}

impl Publisher {
    /// Starts at `position`, which was the end of the binlog at `as_of_ms`, having followed files up to `followed`.
    pub(crate) fn new(
        broker: Broker,
        names: &TopicNames,
        position: Position,
        followed: Arc<File>,
        as_of_ms: i64,
    ) -> Self {
        Self {
            broker,
            messages: Messages::new(names),
            marks: VecDeque::new(),
            passed: position.clone(),
            followed,
            safe: position,
            idle_at: None,
            resumable: true,
            as_of_ms,
            rows: ::metrics::counter!(metrics::ROWS.name),
            transactions: ::metrics::counter!(metrics::TRANSACTIONS.name),
        }
    }

    /// Returns the position up to which everything is acknowledged and no rows wait for an XA COMMIT.
    pub(crate) fn safe(&self) -> &Position {
        &self.safe
    }

    /// Returns the last file up to which the server is known to have written all changes into its binlog, and before
    /// which everything is acknowledged.
    pub(crate) fn followed(&self) -> &File {
        &self.followed
    }

    /// Returns the latest time, in milliseconds since 1970, up to which all changes are before [`Publisher::safe`].
    pub(crate) fn as_of_ms(&self) -> i64 {
        self.as_of_ms
    }

    /// Returns how far the server's files are done with. Behind the last transaction there may be the end of a file and
    /// the head of the next.
    pub(crate) fn read_to(&self) -> ReadTo {
        self.idle_at.clone().unwrap_or_else(|| self.safe.read_to())
    }

    /// Returns the number of transactions enqueued and not fully acknowledged.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.marks.len()
    }

    pub(crate) fn producer(&self) -> &OrderedProducer {
        &self.broker.producer
    }

    /// Returns the broker, for the snapshot, which sends its own rows.
    pub(crate) fn broker_mut(&mut self) -> &mut Broker {
        &mut self.broker
    }

    /// Restarts at `position`, once everything enqueued is acknowledged.
    pub(crate) fn restart(&mut self, position: Position, as_of_ms: i64) {
        self.marks.clear();
        self.passed = position.clone();
        self.followed = Arc::clone(&position.file);
        self.safe = position;
        self.idle_at = None;
        self.resumable = true;
        self.as_of_ms = as_of_ms;
    }

    /// Enqueues a transaction's rows; waits while the producer's queue is full, or too many marks wait.
    pub(crate) async fn publish(
        &mut self,
        transaction: &Transaction,
        now_ms: i64,
    ) -> anyhow::Result<()> {
        if self.marks.len() >= MARKS_MAX
            && let Some(last) = self.marks.front().and_then(|first| first.end.checked_sub(1))
        {
            self.broker.producer.changed(last).await?;
        }
        self.idle_at = None;
        let rows = self.messages.put_out(transaction, now_ms, &mut self.broker).await?;
        self.rows.increment(u64::from(rows));
        self.transactions.increment(1);
        self.marks.push_back(Mark {
            end: self.broker.producer.next_number(),
            gtid: transaction.gtid,
            file: Arc::clone(&transaction.file),
            landmark: transaction.landmark,
            offset: transaction.end,
            committed: transaction.committed,
            resumable: transaction.resumable,
            phase: transaction.phase.clone(),
            _spans: self.messages.take_spans(),
        });
        Ok(())
    }

    /// Advances the safe position as far as acknowledgements allow. Returns whether it moved.
    pub(crate) fn advance(&mut self, now_ms: i64) -> anyhow::Result<bool> {
        self.broker.producer.acknowledged()?;
        Ok(self.advance_to_watermark(now_ms))
    }

    /// Like [`Publisher::advance`], also once a message was refused: up to that one.
    pub(crate) fn advance_to_watermark(&mut self, now_ms: i64) -> bool {
        let acknowledged = self.broker.producer.watermark();
        let mut committed = None;
        let mut moved = false;
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.end <= acknowledged) {
            if self.resumable && !mark.resumable && moved {
                self.safe.clone_from(&self.passed);
            }
            let Mark { gtid, file, offset, landmark, .. } = mark;
            self.followed = Arc::clone(&file);
            self.passed.pass(gtid, file, offset, landmark, mark.phase.as_deref());
            self.resumable = mark.resumable;
            moved |= mark.resumable;
            committed = Some(mark.committed);
        }
        ::metrics::gauge!(metrics::UNACKNOWLEDGED.name).set(count(self.marks.len()));
        let Some(committed) = committed else { return false };
        let committed_ms = i64::from(committed) * 1000;
        metrics::set_lag(seconds((now_ms - committed_ms).max(0)));
        if self.resumable && moved {
            self.safe.clone_from(&self.passed);
            self.as_of_ms = committed_ms;
        }
        moved
    }

    /// The server has no more events: if nothing is unacknowledged, there is no lag. Returns whether a later file is
    /// followed now.
    pub(crate) fn idle(&mut self, read_to: ReadTo, now_ms: i64) -> bool {
        let mut is_later = false;
        if self.marks.is_empty() {
            metrics::set_lag(0.0);
            is_later = self.followed != read_to.file;
            self.followed = Arc::clone(&read_to.file);
            if self.resumable {
                self.as_of_ms = now_ms;
                self.idle_at = Some(read_to);
            }
        }
        is_later
    }
}

/// Converts a count for a gauge.
pub(crate) fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}

/// Converts milliseconds to seconds for a metric.
pub(crate) fn seconds(ms: i64) -> f64 {
    std::time::Duration::from_millis(ms.unsigned_abs()).as_secs_f64()
}

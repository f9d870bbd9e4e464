//! From transactions to messages, and from acknowledgements back to a safe position.
//!
//! Each transaction leaves a mark: the number behind its last message. The safe position moves over
//! a mark once the producer's watermark has reached it, so it is always a transaction's end of which
//! everything, and everything earlier, was acknowledged. Transactions without followed rows leave
//! marks too: a quiet table's position does not grow old.

use std::{collections::VecDeque, sync::Arc};

use runtime::trace::Span;
use topic::{OrderedProducer, TopicNames};

use crate::{
    assembler::Transaction,
    messages::Messages,
    metrics,
    outlet::Broker,
    position::Gtid,
    resume::{File, Landmark, Position},
};

/// Sends transactions' rows and keeps the safe position.
pub(crate) struct Publisher {
    broker: Broker,
    messages: Messages,
    marks: VecDeque<Mark>,
    /// Up to here everything is acknowledged.
    passed: Position,
    /// The last such position that a reader may start from.
    safe: Position,
    /// Whether `passed` is one.
    resumable: bool,
    /// At this moment nothing was missing at `safe`: milliseconds since 1970.
    as_of_ms: i64,
    /// Looked up once: there are a hundred thousand transactions a second.
    rows: ::metrics::Counter,
    transactions: ::metrics::Counter,
}

/// A transaction that is enqueued.
struct Mark {
    /// All its messages have lower numbers.
    end: u64,
    gtid: Gtid,
    file: Arc<File>,
    landmark: Landmark,
    offset: u32,
    committed: u32,
    resumable: bool,
    /// They end once it is acknowledged.
    _spans: Vec<Span>,
}

impl Publisher {
    /// Begins at `position`; `as_of_ms` is when that was the end of the binlog.
    pub(crate) fn new(
        broker: Broker,
        names: &TopicNames,
        position: Position,
        as_of_ms: i64,
    ) -> Self {
        Self {
            broker,
            messages: Messages::new(names),
            marks: VecDeque::new(),
            passed: position.clone(),
            safe: position,
            resumable: true,
            as_of_ms,
            rows: ::metrics::counter!(metrics::ROWS),
            transactions: ::metrics::counter!(metrics::TRANSACTIONS),
        }
    }

    /// Up to here everything is acknowledged, and no rows behind wait for an XA COMMIT.
    pub(crate) fn safe(&self) -> &Position {
        &self.safe
    }

    /// The newest moment, milliseconds since 1970, whose changes are all up to [`Publisher::safe`].
    pub(crate) fn as_of_ms(&self) -> i64 {
        self.as_of_ms
    }

    /// Transactions enqueued and not all acknowledged.
    pub(crate) fn unacknowledged(&self) -> usize {
        self.marks.len()
    }

    pub(crate) fn producer(&self) -> &OrderedProducer {
        &self.broker.producer
    }

    /// For the snapshot, which sends rows of its own making.
    pub(crate) fn broker_mut(&mut self) -> &mut Broker {
        &mut self.broker
    }

    /// Begins anew at `position`, once everything enqueued is acknowledged.
    pub(crate) fn restart(&mut self, position: Position, as_of_ms: i64) {
        self.marks.clear();
        self.passed = position.clone();
        self.safe = position;
        self.resumable = true;
        self.as_of_ms = as_of_ms;
    }

    /// Enqueues a transaction's rows; waits while the producer's queue is full.
    pub(crate) async fn publish(
        &mut self,
        transaction: &Transaction,
        now_ms: i64,
    ) -> anyhow::Result<()> {
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
            _spans: self.messages.take_spans(),
        });
        Ok(())
    }

    /// Moves the safe position as far as the acknowledgements allow. Says whether it moved.
    pub(crate) fn settle(&mut self, now_ms: i64) -> anyhow::Result<bool> {
        let acknowledged = self.broker.producer.acknowledged()?;
        let mut committed = None;
        let mut moved = false;
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.end <= acknowledged) {
            if self.resumable && !mark.resumable && moved {
                self.safe.clone_from(&self.passed);
            }
            self.passed.pass(mark.gtid, mark.file, mark.offset, mark.landmark);
            self.resumable = mark.resumable;
            moved |= mark.resumable;
            committed = Some(mark.committed);
        }
        ::metrics::gauge!(metrics::UNACKNOWLEDGED).set(count(self.marks.len()));
        let Some(committed) = committed else { return Ok(false) };
        let committed_ms = i64::from(committed) * 1000;
        ::metrics::gauge!(metrics::LAG).set(seconds((now_ms - committed_ms).max(0)));
        if self.resumable && moved {
            self.safe.clone_from(&self.passed);
            self.as_of_ms = committed_ms;
        }
        Ok(moved)
    }

    /// The server has nothing more: with nothing under way there is no lag.
    pub(crate) fn idle(&mut self, now_ms: i64) {
        if self.marks.is_empty() {
            ::metrics::gauge!(metrics::LAG).set(0.0);
            if self.resumable {
                self.as_of_ms = now_ms;
            }
        }
    }
}

/// Gauges are floating-point numbers.
pub(crate) fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}

/// Metrics are in seconds.
pub(crate) fn seconds(ms: i64) -> f64 {
    std::time::Duration::from_millis(ms.unsigned_abs()).as_secs_f64()
}

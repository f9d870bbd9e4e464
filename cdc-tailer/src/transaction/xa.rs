//! XA transactions between their two phases.
//!
//! XA PREPARE writes a transaction's rows to the binlog. An XA COMMIT or XA ROLLBACK with its own GTID decides their
//! fate later, perhaps after other transactions, a reconnect or a restart. Until then the rows are buffered here, and
//! no position after the XA PREPARE may be saved, so that a restarted tailer reads the rows again.
//!
//! Transactions without rows of followed tables are part of each position instead, until they end.
//!
//! Transactions prepared before a snapshot's position are unknown. If they were committed before the tables were read,
//! the tables held their rows. A later XA COMMIT leads to another snapshot. Their XA ROLLBACK changes nothing.

use std::collections::HashMap;

use crate::{
    binlog::{
        gtid::Gtid,
        pending::{Pending, Phase},
        xid::Xid,
    },
    error::TailError,
    transaction::{
        Limits,
        row_buffer::{RowBuffer, Shelf},
    },
};

/// Maximum XA transactions between their phases; more means that a client does not end them.
const PREPARED_MAX: usize = 10_000;

/// Bytes of their rows kept in memory: as much as for two long transactions. The rest is in files.
const PREPARED_BYTES: usize = 4 * 1024 * 1024;

/// Transactions that wait for their second phase. Survives reconnects.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Includes transactions of foreign tables, without rows, so that their XA COMMIT is recognized.
    waiting: HashMap<Xid, RowBuffer>,
    /// Number of waiting transactions with rows, and the bytes of these rows in memory.
    with_rows: usize,
    bytes: usize,
    shelf: Shelf,
    /// Transactions that may end here although their XA PREPARE was not read. The foreign ones are in `waiting` too.
    pending: Pending,
}

impl Prepared {
    pub(crate) fn new(pending: &Pending) -> Self {
        let foreign = pending.foreign.iter().map(|xid| (xid.clone(), RowBuffer::default()));
        Self {
            waiting: foreign.collect(),
            with_rows: 0,
            bytes: 0,
            shelf: Shelf::default(),
            pending: pending.clone(),
        }
    }

    /// Notes that a transaction begins.
    pub(crate) fn begin(&mut self, gtid: &Gtid) {
        self.pending.begin(gtid);
    }

    /// Returns whether rows are waiting, so that no position may be saved.
    pub(crate) fn holds_rows(&self) -> bool {
        self.with_rows > 0
    }

    /// Stores the rows of a first phase.
    pub(crate) fn prepare(
        &mut self,
        xid: Xid,
        mut rows: RowBuffer,
        limits: &Limits,
    ) -> Result<Option<Phase>, TailError> {
        drop(self.take(&xid));
        if self.waiting.len() >= PREPARED_MAX {
            return Err(TailError::Unsupported {
                what: format!(
                    "over {PREPARED_MAX} XA transactions are prepared and not ended: end those that \
                     `xa recover` shows, then start with --resnapshot"
                ),
            });
        }
        if rows.is_empty() {
            self.waiting.insert(xid.clone(), rows);
            return Ok(Some(Phase::PreparesForeign(xid)));
        }
        if self.bytes + rows.bytes() > PREPARED_BYTES {
            rows.shelve(&mut self.shelf, &limits.spill_folder)
                .map_err(|source| limits.not_spilled(source))?;
        }
        self.with_rows += 1;
        self.bytes += rows.bytes();
        self.waiting.insert(xid, rows);
        Ok(None)
    }

    /// Returns the rows that an XA COMMIT commits. `own` are rows of the same transaction, if it had one phase.
    pub(crate) fn commit(
        &mut self,
        name: &[u8],
        own: RowBuffer,
    ) -> Result<(RowBuffer, Phase), TailError> {
        let xid = xid(name)?;
        let rows = match self.take(&xid) {
            Some(rows) => rows,
            None if !own.is_empty() || self.pending.covers(&xid) => own,
            None => {
                return Err(TailError::PositionLost {
                    reason: format!(
                        "the XA transaction {xid} is committed whose rows were prepared before our position"
                    ),
                });
            }
        };
        Ok((rows, Phase::Ends(xid)))
    }

    /// Drops the rows that an XA ROLLBACK undoes.
    pub(crate) fn roll_back(&mut self, name: &[u8]) -> Result<Phase, TailError> {
        let xid = xid(name)?;
        drop(self.take(&xid));
        self.pending.unread.remove(&xid);
        Ok(Phase::Ends(xid))
    }

    fn take(&mut self, xid: &Xid) -> Option<RowBuffer> {
        let rows = self.waiting.remove(xid)?;
        self.with_rows -= usize::from(!rows.is_empty());
        self.bytes -= rows.bytes();
        Some(rows)
    }
}

fn xid(name: &[u8]) -> Result<Xid, TailError> {
    Xid::from_statement(name).ok_or_else(|| TailError::OutOfOrder {
        what: format!("{} names no XA transaction", String::from_utf8_lossy(name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::row_buffer::tests::{numbers, rows};

    #[test]
    fn rows_of_many_prepared_transactions_take_no_more_memory_than_those_of_few_and_all_come_out() {
        const TRANSACTIONS: u32 = 3_000;
        let limits = Limits { packet_bytes_max: 1, spill_folder: std::env::temp_dir() };
        let name = |number: u32| format!("X'{number:08x}',X'',1");
        let mut prepared = Prepared::new(&Pending::default());
        for number in 1..=TRANSACTIONS {
            let mut buffer = RowBuffer::default();
            buffer.push(rows(number, 20_000), &limits.spill_folder).unwrap();
            let xid = xid(name(number).as_bytes()).unwrap();
            assert_eq!(prepared.prepare(xid, buffer, &limits).unwrap(), None);
        }
        let in_memory: usize = prepared.waiting.values().map(RowBuffer::bytes).sum();
        assert!(in_memory == prepared.bytes && in_memory <= PREPARED_BYTES, "{in_memory} bytes");
        for number in 1..=TRANSACTIONS {
            assert!(prepared.holds_rows());
            let (rows, _) = prepared.commit(name(number).as_bytes(), RowBuffer::default()).unwrap();
            assert_eq!(numbers(&rows), [number]);
        }
        assert!(!prepared.holds_rows() && prepared.bytes == 0);
    }
}

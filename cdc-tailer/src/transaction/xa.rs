//! XA transactions between their two phases.
//!
//! XA PREPARE writes a transaction's rows to the binlog. An XA COMMIT or XA ROLLBACK with its own GTID decides their
//! fate later, perhaps after other transactions, a reconnect or a restart. Until then the rows are buffered here, and
//! no position after the XA PREPARE may be saved, so that a restarted tailer reads the rows again.
//!
//! Transactions prepared before the first event we read (after a snapshot's position) are unknown. Their XA COMMIT
//! leads to a snapshot, which reads the rows. Their XA ROLLBACK changes nothing.

use std::collections::HashMap;

use crate::{binlog::xid::Xid, error::TailError, transaction::row_buffer::RowBuffer};

/// Maximum XA transactions between their phases; more means that a client does not end them.
const PREPARED_MAX: usize = 10_000;

/// Transactions that wait for their second phase. Survives reconnects.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// Includes transactions of foreign tables, without rows, so that their XA COMMIT is recognized.
    waiting: HashMap<Xid, RowBuffer>,
}

impl Prepared {
    /// Returns whether rows are waiting, so that no position may be saved.
    pub(crate) fn holds_rows(&self) -> bool {
        self.waiting.values().any(|rows| !rows.is_empty())
    }

    /// Stores the rows of a first phase.
    pub(crate) fn prepare(&mut self, xid: Xid, rows: RowBuffer) -> Result<(), TailError> {
        if self.waiting.len() >= PREPARED_MAX && !self.waiting.contains_key(&xid) {
            return Err(TailError::Unsupported {
                what: format!(
                    "over {PREPARED_MAX} XA transactions are prepared and not ended: end those that \
                     `xa recover` shows, then start with --resnapshot"
                ),
            });
        }
        self.waiting.insert(xid, rows);
        Ok(())
    }

    /// Returns the rows that an XA COMMIT commits. `own` are rows of the same transaction, if it had one phase.
    pub(crate) fn commit(&mut self, name: &[u8], own: RowBuffer) -> Result<RowBuffer, TailError> {
        match self.waiting.remove(&xid(name)?) {
            Some(rows) => Ok(rows),
            None if !own.is_empty() => Ok(own),
            None => Err(TailError::PositionLost {
                reason: "an XA transaction is committed whose rows were prepared before our \
                         position"
                    .to_owned(),
            }),
        }
    }

    /// Drops the rows that an XA ROLLBACK undoes.
    pub(crate) fn roll_back(&mut self, name: &[u8]) -> Result<(), TailError> {
        self.waiting.remove(&xid(name)?);
        Ok(())
    }
}

fn xid(name: &[u8]) -> Result<Xid, TailError> {
    Xid::from_statement(name).ok_or_else(|| TailError::OutOfOrder {
        what: format!("{} names no XA transaction", String::from_utf8_lossy(name)),
    })
}

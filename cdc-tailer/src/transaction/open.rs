//! An open transaction: its rows so far, and its savepoints.

use crate::{
    binlog::gtid::Gtid,
    error::TailError,
    transaction::{
        row_buffer::RowBuffer,
        savepoints::{KEPT_MAX, Missed, Savepoints},
    },
};

pub(crate) struct Open {
    pub(crate) gtid: Gtid,
    /// Whether its first statement ends it; `None`: the statement decides.
    pub(crate) standalone: Option<bool>,
    pub(crate) rows: RowBuffer,
    /// A followed table whose rows a definition may have changed.
    pub(crate) rewrites: Option<&'static str>,
    savepoints: Savepoints,
}

impl Open {
    pub(crate) fn new(gtid: Gtid, standalone: Option<bool>) -> Self {
        Self {
            gtid,
            standalone,
            rows: RowBuffer::default(),
            rewrites: None,
            savepoints: Savepoints::default(),
        }
    }

    /// Sets a savepoint after the rows so far; replaces one of the same name.
    pub(crate) fn set_savepoint(&mut self, name: &[u8]) {
        self.savepoints.set(name, self.rows.position());
    }

    /// Drops the rows since the savepoint, and the savepoints after it.
    pub(crate) fn roll_back_to(&mut self, name: &[u8]) -> Result<(), TailError> {
        let at = self.savepoints.roll_back_to(name).map_err(|missed| self.missing(missed))?;
        self.rows.truncate(at);
        Ok(())
    }

    fn missing(&self, missed: Missed) -> TailError {
        let gtid = self.gtid;
        match missed {
            Missed::Ambiguous => TailError::Unsupported {
                what: format!(
                    "{gtid} rolls back to one of several savepoints, and which names are the same to the server \
                     is not known beyond ASCII: rename them, then start with --resnapshot"
                ),
            },
            Missed::Forgotten => TailError::Unsupported {
                what: format!(
                    "{gtid} rolls back to a savepoint before the last {KEPT_MAX}: have that client set fewer \
                     savepoints in one transaction, then start with --resnapshot"
                ),
            },
            Missed::Unknown => {
                TailError::OutOfOrder { what: format!("rollback to unknown savepoint in {gtid}") }
            }
        }
    }
}

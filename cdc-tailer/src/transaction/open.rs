//! An open transaction: its rows so far, and its savepoints.

use crate::{
    binlog::gtid::Gtid,
    error::TailError,
    transaction::row_buffer::{BufferPosition, RowBuffer},
};

pub(crate) struct Open {
    pub(crate) gtid: Gtid,
    /// Whether its first statement ends it; `None`: the statement decides.
    pub(crate) standalone: Option<bool>,
    pub(crate) rows: RowBuffer,
    /// Savepoints, normalized by [`savepoint`], and their positions among the rows.
    savepoints: Vec<(String, BufferPosition)>,
}

impl Open {
    pub(crate) fn new(gtid: Gtid, standalone: Option<bool>) -> Self {
        Self { gtid, standalone, rows: RowBuffer::default(), savepoints: Vec::new() }
    }

    /// Sets a savepoint after the rows so far; replaces one of the same name.
    pub(crate) fn set_savepoint(&mut self, name: &[u8]) {
        let name = savepoint(name);
        self.savepoints.retain(|(known, _)| *known != name);
        self.savepoints.push((name, self.rows.place()));
    }

    /// Drops the rows since the savepoint, and the savepoints after it.
    pub(crate) fn roll_back_to(&mut self, name: &[u8]) -> Result<(), TailError> {
        let name = savepoint(name);
        if self.savepoints.len() > 1 && self.savepoints.iter().any(|(known, _)| !known.is_ascii()) {
            return Err(TailError::Unsupported {
                what: format!(
                    "{} rolls back to one of several savepoints, and which names are the same to the server \
                 is not known beyond ASCII: rename them, then start with --resnapshot",
                    self.gtid
                ),
            });
        }
        let Some(index) = self.savepoints.iter().position(|(known, _)| *known == name) else {
            let what = format!("rollback to unknown savepoint in {}", self.gtid);
            return Err(TailError::OutOfOrder { what });
        };
        self.rows.truncate(self.savepoints[index].1);
        self.savepoints.truncate(index + 1);
        Ok(())
    }
}

/// Normalizes the name of a savepoint: the server ignores case.
fn savepoint(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_lowercase()
}

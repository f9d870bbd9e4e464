//! A transaction that has begun: its rows so far, and its savepoints among them.

use crate::{
    error::TailError,
    held::{HeldRows, Place},
    position::Gtid,
};

/// A transaction that has begun.
pub(crate) struct Open {
    pub(crate) gtid: Gtid,
    /// Whether its first statement ends it; `None`: the statement tells.
    pub(crate) standalone: Option<bool>,
    pub(crate) rows: HeldRows,
    /// Savepoints, as [`savepoint`] knows them, and their places among the rows.
    savepoints: Vec<(String, Place)>,
}

impl Open {
    pub(crate) fn new(gtid: Gtid, standalone: Option<bool>) -> Self {
        Self { gtid, standalone, rows: HeldRows::default(), savepoints: Vec::new() }
    }

    /// Remembers the place behind the rows so far; one of the same name is forgotten.
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

/// What the server takes for one savepoint: upper and lower case make no difference.
fn savepoint(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_lowercase()
}

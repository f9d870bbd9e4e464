//! Maps table ids of the binlog to followed tables.
//!
//! A foreign table is recognized by name; its columns are never read.

use std::{collections::HashMap, sync::Arc};

use crate::{
    binlog::{
        schema::{self, Followed},
        table::{Table, names},
    },
    error::TailError,
};

/// Maximum table ids kept behind a statement; servers assign a new one at each change of a table.
const TABLE_IDS_MAX: usize = 4096;

/// The table maps of one connection.
#[derive(Debug)]
pub(crate) struct TableMaps {
    wanted: Followed,
    /// `None` for a foreign table.
    by_id: HashMap<u64, Option<Described>>,
}

/// A followed table and its raw table map.
#[derive(Debug)]
struct Described {
    raw: Vec<u8>,
    table: Arc<Table>,
}

impl TableMaps {
    pub(crate) fn new(wanted: Followed) -> Self {
        Self { wanted, by_id: HashMap::new() }
    }

    pub(crate) fn wanted(&self) -> &Followed {
        &self.wanted
    }

    /// Drops all descriptions: another connection or file sends its own.
    pub(crate) fn forget(&mut self) {
        self.by_id.clear();
    }

    /// Registers the body of a table map.
    pub(crate) fn describe(&mut self, id: u64, body: &[u8]) -> Result<(), TailError> {
        if let Some(Some(known)) = self.by_id.get(&id)
            && known.raw == body
        {
            return Ok(());
        }
        let (database, name) =
            names(body).map_err(|source| TailError::Truncated { kind: 0, source })?;
        let Followed { database: wanted, tables } = &self.wanted;
        let wanted =
            database == wanted.as_bytes() && tables.iter().any(|table| table.as_bytes() == name);
        let described = match wanted {
            true => {
                let table = Table::parse(body)?;
                schema::check(&table)?;
                Some(Described { raw: body.to_vec(), table: Arc::new(table) })
            }
            false => None,
        };
        self.by_id.insert(id, described);
        Ok(())
    }

    /// Drops the descriptions if there are too many. Each statement describes its tables anew, so this costs only time. A
    /// statement keeps all of its own: it may change thousands of tables, by a trigger or under LOCK TABLES.
    pub(crate) fn statement_ended(&mut self) {
        if self.by_id.len() > TABLE_IDS_MAX {
            self.by_id.clear();
        }
    }

    /// Returns the followed table with this id; `None` if it is foreign.
    pub(crate) fn followed(&self, id: u64) -> Result<Option<Arc<Table>>, TailError> {
        match self.by_id.get(&id) {
            Some(known) => Ok(known.as_ref().map(|known| Arc::clone(&known.table))),
            None => {
                let what = format!("rows of table id {id}, which was not described");
                Err(TailError::OutOfOrder { what })
            }
        }
    }
}

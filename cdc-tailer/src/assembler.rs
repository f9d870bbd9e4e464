//! From events to whole transactions.
//!
//! A position may be saved only between transactions, so nothing leaves before its transaction has
//! ended. What ends one: XID, COMMIT, the single statement of a standalone GTID, the first phase of
//! an XA transaction. What does not, although it looks like it: SAVEPOINT, the CREATE TABLE of
//! CREATE TABLE … SELECT. Rows after a savepoint are dropped by ROLLBACK TO, all rows by ROLLBACK:
//! a server logs those when a table without transactions was involved.
//!
//! Foreign tables are skipped by their names, before anything of their columns is read.

use std::{collections::HashMap, sync::Arc};

use tracing::debug;

use crate::{
    error::TailError,
    event::{Body, Change, HEADER_LENGTH, Header, Query},
    position::Gtid,
    source::Packet,
    statement::{Statement, changes_rows_of, classify},
    table::{Table, names},
};

/// Most table ids remembered; servers give a new one at each change of a table.
const TABLE_IDS_MAX: usize = 4096;

/// What a transaction costs in a queue besides its rows.
const TRANSACTION_OVERHEAD: usize = 256;

/// A committed transaction, with the rows of followed tables; often none.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) gtid: Gtid,
    pub(crate) file: Arc<str>,
    /// Offset behind it.
    pub(crate) end: u32,
    /// When it was committed, seconds since 1970.
    pub(crate) committed: u32,
    pub(crate) rows: Vec<RowsPacket>,
}

/// One rows event, not decoded yet.
#[derive(Debug)]
pub(crate) struct RowsPacket {
    pub(crate) table: Arc<Table>,
    pub(crate) change: Change,
    /// Layout of the body: 1 (MariaDB) or 2 (MySQL).
    pub(crate) version: u8,
    /// Offset behind the event.
    pub(crate) end: u32,
    packet: Packet,
}

/// What an event led to.
#[derive(Debug)]
pub(crate) enum Assembled {
    /// More events are needed.
    Nothing,
    /// A transaction is complete.
    Transaction(Transaction),
    /// The server has nothing more for now.
    Idle,
}

/// The tables whose rows are wanted.
#[derive(Debug, Clone)]
pub(crate) struct Followed {
    pub(crate) database: String,
    pub(crate) tables: &'static [&'static str],
}

/// Builds transactions from one connection's events.
pub(crate) struct Assembler {
    followed: Followed,
    /// Table maps by id: the followed ones with their raw bytes, `None` for foreign tables.
    tables: HashMap<u64, Option<Described>>,
    file: Arc<str>,
    open: Option<Open>,
}

/// A followed table and the raw table map it was read from.
struct Described {
    raw: Vec<u8>,
    table: Arc<Table>,
}

struct Open {
    gtid: Gtid,
    /// Whether its first statement ends it; `None`: the statement tells.
    standalone: Option<bool>,
    rows: Vec<RowsPacket>,
    /// Names of savepoints and how many rows events came before them.
    savepoints: Vec<(Vec<u8>, usize)>,
}

impl RowsPacket {
    /// The event's body.
    pub(crate) fn body(&self) -> &[u8] {
        &self.packet.event()[HEADER_LENGTH..]
    }
}

impl Transaction {
    /// What it takes in memory, about.
    pub(crate) fn bytes(&self) -> usize {
        TRANSACTION_OVERHEAD + self.rows.iter().map(|rows| rows.packet.event().len()).sum::<usize>()
    }
}

impl Assembler {
    pub(crate) fn new(followed: Followed) -> Self {
        Self { followed, tables: HashMap::new(), file: "".into(), open: None }
    }

    /// Takes the next event in.
    pub(crate) fn accept(&mut self, packet: Packet) -> Result<Assembled, TailError> {
        let event = packet.event();
        let short = |kind| move |source| TailError::Truncated { kind, source };
        let header = Header::parse(event).map_err(short(0))?;
        let body = &event[HEADER_LENGTH..];
        match Body::parse(&header, body).map_err(short(header.kind))? {
            Body::Begin { gtid, standalone } => self.begin(gtid, standalone)?,
            Body::Query(query) => return self.query(&header, query),
            Body::Xid => return self.commit(&header),
            Body::XaPrepare { one_phase } => return self.prepare(&header, one_phase),
            Body::TableMap { table_id, body } => {
                self.table_map(table_id, body).map_err(|error| match error {
                    TailError::Truncated { source, .. } => short(header.kind)(source),
                    other => other,
                })?;
            }
            Body::Rows { change, table_id, compressed } => {
                self.rows(&header, change, table_id, compressed, packet)?;
            }
            Body::Rotate { file, .. } => self.file = String::from_utf8_lossy(file).into(),
            Body::FormatDescription => {
                if self.open.take().is_some() {
                    debug!("a transaction was left open by a server that crashed");
                }
                self.tables.clear();
            }
            Body::Heartbeat => return Ok(Assembled::Idle),
            Body::Ignored => {}
            Body::Anonymous => {
                return Err(unsupported(
                    "transactions have no GTIDs: set gtid_mode = ON on the server",
                ));
            }
            Body::Unknown => {
                let kind = header.kind;
                return Err(unsupported(format!(
                    "the binlog holds an event of kind {kind}, which this version does not know \
                     (MySQL: set binlog_transaction_compression = OFF and binlog_row_value_options = '')"
                )));
            }
        }
        Ok(Assembled::Nothing)
    }

    fn begin(&mut self, gtid: Gtid, standalone: Option<bool>) -> Result<(), TailError> {
        if let Some(open) = &self.open {
            let what = format!("{gtid} begins inside {}", open.gtid);
            return Err(TailError::OutOfOrder { what });
        }
        self.open = Some(Open { gtid, standalone, rows: Vec::new(), savepoints: Vec::new() });
        Ok(())
    }

    fn query(&mut self, header: &Header, query: Query<'_>) -> Result<Assembled, TailError> {
        self.refuse_statement_format(query)?;
        let Some(open) = &mut self.open else {
            // Made up by the server for the connection, or before GTIDs were switched on.
            return Ok(Assembled::Nothing);
        };
        let statement = classify(query.text);
        match statement {
            Statement::Begin => open.standalone = Some(false),
            Statement::Commit | Statement::XaFinish => return self.commit(header),
            Statement::Rollback => {
                open.rows.clear();
                return self.commit(header);
            }
            Statement::Savepoint(name) => {
                open.savepoints.retain(|(known, _)| known != name);
                open.savepoints.push((name.to_vec(), open.rows.len()));
            }
            Statement::RollbackTo(name) => open.roll_back_to(name)?,
            Statement::XaPhase | Statement::Other => {
                if open.standalone != Some(false) && statement == Statement::Other {
                    return self.commit(header);
                }
            }
        }
        Ok(Assembled::Nothing)
    }

    fn refuse_statement_format(&self, query: Query<'_>) -> Result<(), TailError> {
        if query.database != self.followed.database.as_bytes() {
            return Ok(());
        }
        match changes_rows_of(query.text, self.followed.tables) {
            None => Ok(()),
            Some(table) => Err(unsupported(format!(
                "a session changed {table} by a statement without rows in the binlog (TRUNCATE, or \
                 binlog_format other than ROW); then start with --resnapshot"
            ))),
        }
    }

    fn commit(&mut self, header: &Header) -> Result<Assembled, TailError> {
        let Some(open) = self.open.take() else {
            return Err(TailError::OutOfOrder {
                what: "a transaction ends that never began".into(),
            });
        };
        Ok(Assembled::Transaction(Transaction {
            gtid: open.gtid,
            file: Arc::clone(&self.file),
            end: header.end,
            committed: header.timestamp,
            rows: open.rows,
        }))
    }

    fn prepare(&mut self, header: &Header, one_phase: bool) -> Result<Assembled, TailError> {
        let rows = self.open.as_ref().and_then(|open| open.rows.first());
        match rows {
            Some(rows) if !one_phase => Err(unsupported(format!(
                "an XA transaction changed {}; XA is not followed on its tables",
                rows.table.name
            ))),
            _ => self.commit(header),
        }
    }

    fn table_map(&mut self, table_id: u64, body: &[u8]) -> Result<(), TailError> {
        if let Some(Some(known)) = self.tables.get(&table_id)
            && known.raw == body
        {
            return Ok(());
        }
        let (database, name) =
            names(body).map_err(|source| TailError::Truncated { kind: 0, source })?;
        let wanted = database == self.followed.database.as_bytes()
            && self.followed.tables.iter().any(|table| table.as_bytes() == name);
        if self.tables.len() >= TABLE_IDS_MAX {
            // Each transaction maps its tables anew, so forgetting costs only time.
            self.tables.clear();
        }
        let table = match wanted {
            true => Some(Described { raw: body.to_vec(), table: Arc::new(Table::parse(body)?) }),
            false => None,
        };
        self.tables.insert(table_id, table);
        Ok(())
    }

    fn rows(
        &mut self,
        header: &Header,
        change: Change,
        table_id: u64,
        compressed: bool,
        packet: Packet,
    ) -> Result<(), TailError> {
        let table = match self.tables.get(&table_id) {
            Some(Some(known)) => Arc::clone(&known.table),
            Some(None) => return Ok(()),
            None => {
                let what = format!("rows of table id {table_id}, which was not described");
                return Err(TailError::OutOfOrder { what });
            }
        };
        if compressed {
            return Err(unsupported(format!(
                "the rows of {} are compressed: run `set global log_bin_compress = OFF`",
                table.name
            )));
        }
        let Some(open) = &mut self.open else {
            let what = format!("rows of {} outside a transaction", table.name);
            return Err(TailError::OutOfOrder { what });
        };
        let version = if header.kind < 30 { 1 } else { 2 };
        open.rows.push(RowsPacket { table, change, version, end: header.end, packet });
        Ok(())
    }
}

impl Open {
    /// Drops the rows since the savepoint, and the savepoints after it.
    fn roll_back_to(&mut self, name: &[u8]) -> Result<(), TailError> {
        let Some(index) = self.savepoints.iter().position(|(known, _)| known == name) else {
            let what = format!("rollback to unknown savepoint in {}", self.gtid);
            return Err(TailError::OutOfOrder { what });
        };
        self.rows.truncate(self.savepoints[index].1);
        self.savepoints.truncate(index + 1);
        Ok(())
    }
}

fn unsupported(what: impl Into<String>) -> TailError {
    TailError::Unsupported { what: what.into() }
}

#[cfg(test)]
#[path = "assembler_tests.rs"]
mod tests;

//! Assembles events into whole transactions.
//!
//! A position may be saved only between transactions, so rows are released only when their transaction has ended. A
//! transaction ends with XID, COMMIT, the single statement of a standalone GTID, or either phase of an XA transaction
//! (`xa.rs`). SAVEPOINT and the CREATE TABLE of CREATE TABLE … SELECT do not end one. ROLLBACK TO drops the rows after
//! a savepoint, ROLLBACK all rows: a server logs those when a non-transactional table was involved.
//!
//! Foreign tables are skipped by name, before their columns are read or decompressed.

mod errors;
mod open;
pub(crate) mod row_buffer;
mod savepoints;
pub(crate) mod table_maps;
pub(crate) mod xa;

use std::{io, path::PathBuf, sync::Arc};

use tracing::debug;

pub(crate) use errors::rewritten;

use crate::{
    binlog::{
        compressed::{Payload, inflate},
        event::{Body, Change, Encoding, HEADER_LENGTH, Header, Query},
        gtid::{Gtid, GtidSet},
        packet::Packet,
        pending::{Pending, Phase},
        position::{File, Landmark, Tracker},
        rows,
        schema::Followed,
        statement::{Effect, Makes, Statement, classify, effect, makes},
        xid::Xid,
    },
    error::TailError,
    refusal,
    transaction::{
        errors::{compressed, in_place_of_rows, named, truncated, unknown, unsupported},
        open::Open,
        row_buffer::{RowBuffer, RowsPacket},
        table_maps::TableMaps,
        xa::Prepared,
    },
};

/// Memory that a queued transaction takes besides its rows. The transaction and the entry of a rows event take 200
/// bytes. They exist in a queue whose capacity may be twice its length, and again in the batch taken from it.
const TRANSACTION_OVERHEAD: usize = 512;

/// A committed transaction with its rows of followed tables, often none.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) gtid: Gtid,
    pub(crate) file: Arc<File>,
    pub(crate) landmark: Landmark,
    /// Offset of its end.
    pub(crate) end: u32,
    /// Commit time, seconds since 1970.
    pub(crate) committed: u32,
    pub(crate) rows: RowBuffer,
    /// A followed table whose rows it may have changed without events of them: it is to be read anew.
    pub(crate) rewrites: Option<&'static str>,
    /// Whether a reader may start after it: no rows wait for an XA COMMIT.
    pub(crate) resumable: bool,
    pub(crate) phase: Option<Box<Phase>>,
}

/// Result of one event.
#[derive(Debug)]
pub(crate) enum Assembled {
    /// More events are needed.
    Nothing,
    /// A transaction is complete.
    Transaction(Transaction),
    /// A file begins; the files before it hold these transactions.
    FileBegins(GtidSet),
    /// The server has no more events for now; the current file is read up to this offset.
    Idle(u32),
}

/// Limits of one event and one transaction.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Maximum size of an event, compressed or not.
    pub(crate) packet_bytes_max: usize,
    /// Folder for rows of long transactions until they end.
    pub(crate) spill_folder: PathBuf,
}

/// Builds transactions from events. Lives as long as the reader, because prepared XA transactions must survive a
/// reconnect.
pub(crate) struct Assembler {
    tables: TableMaps,
    limits: Limits,
    /// Identity of the server that sends the events.
    server: String,
    file: Arc<File>,
    tracker: Tracker,
    open: Option<Open>,
    prepared: Prepared,
}

impl Transaction {
    /// Returns its approximate size in memory.
    pub(crate) fn bytes(&self) -> usize {
        TRANSACTION_OVERHEAD + self.rows.bytes()
    }
}

impl Limits {
    fn not_spilled(&self, source: io::Error) -> TailError {
        TailError::Spill { folder: self.spill_folder.display().to_string(), source }
    }
}

impl Assembler {
    /// Creates an assembler whose first event follows a position with `pending`.
    pub(crate) fn new(followed: Followed, limits: Limits, pending: &Pending) -> Self {
        Self {
            tables: TableMaps::new(followed),
            limits,
            server: String::new(),
            file: Arc::default(),
            tracker: Tracker::default(),
            open: None,
            prepared: Prepared::new(pending),
        }
    }

    /// Starts a new connection to `server`. Its events begin after the last transaction that was returned.
    pub(crate) fn reconnected(&mut self, server: &str) {
        server.clone_into(&mut self.server);
        self.open = None;
        self.tables.forget();
    }

    /// Returns the file that the events come from.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Processes the next event.
    pub(crate) fn accept(&mut self, packet: Packet) -> Result<Assembled, TailError> {
        let header = Header::parse(packet.event())
            .map_err(|source| TailError::Truncated { kind: 0, source })?;
        self.tracker.look(&header, packet.event());
        self.event(&header, packet)
    }

    fn event(&mut self, header: &Header, packet: Packet) -> Result<Assembled, TailError> {
        let body = &packet.event()[HEADER_LENGTH..];
        match Body::parse(header, body).map_err(|source| truncated(header, source))? {
            Body::Begin { gtid, standalone } => self.begin(gtid, standalone)?,
            Body::Query(query) => return self.query(header, query),
            Body::CompressedQuery(query) => {
                let limit = self.limits.packet_bytes_max;
                let text =
                    inflate(query.text, limit).map_err(|source| compressed(header, source))?;
                return self.query(header, Query { text: &text, ..query });
            }
            Body::Xid => return self.commit(header),
            Body::XaPrepare { one_phase: true, .. } => return self.commit(header),
            Body::XaPrepare { one_phase: false, xid } => return self.prepare(header, xid),
            Body::TableMap { table_id, body } => {
                self.tables.describe(table_id, body).map_err(|error| named(header, error))?;
            }
            Body::Rows { change, table_id, ends_statement, version, encoding } => {
                if let Some(table) = self.tables.followed(table_id)? {
                    let packet = self.plain(header, change, version, encoding, packet)?;
                    let end = header.end;
                    self.rows(RowsPacket { table, change, version, end, packet })?;
                }
                if ends_statement {
                    self.tables.statement_ended();
                }
            }
            Body::Rotate { file: name } => {
                self.file = Arc::new(File { server: self.server.clone(), name });
            }
            Body::FormatDescription { .. } => {
                if self.open.take().is_some() {
                    debug!("a transaction was left open by a server that crashed");
                }
                self.tables.forget();
            }
            Body::FileBegins(gtids) => return Ok(Assembled::FileBegins(gtids)),
            Body::Heartbeat => return Ok(Assembled::Idle(header.end)),
            Body::Ignored => {}
            Body::Incident => {
                let reason = "it lost changes on their way into the binlog (incident event)".into();
                return Err(TailError::PositionLost { reason });
            }
            Body::Anonymous => {
                return Err(unsupported(refusal::NO_GTID));
            }
            Body::Payload => return self.payload(header, &packet),
            Body::Unknown => return Err(unsupported(unknown(header.kind))),
        }
        Ok(Assembled::Nothing)
    }

    /// Processes the events of a compressed transaction. The result comes with the last one.
    fn payload(&mut self, header: &Header, packet: &Packet) -> Result<Assembled, TailError> {
        let damaged = |source| compressed(header, source);
        let body = &packet.event()[HEADER_LENGTH..];
        let mut payload = Payload::parse(body, self.limits.packet_bytes_max).map_err(damaged)?;
        let mut assembled = Assembled::Nothing;
        while let Some(packet) = payload.next_event().map_err(damaged)? {
            let inner =
                Header::parse(packet.event()).map_err(|source| truncated(header, source))?;
            if matches!(assembled, Assembled::Transaction(_)) || inner.kind == header.kind {
                let what = "a compressed transaction holds more than itself".into();
                return Err(TailError::OutOfOrder { what });
            }
            // Offsets inside the payload are not positions in the file.
            assembled = self.event(&Header { end: header.end, ..inner }, packet)?;
        }
        Ok(assembled)
    }

    fn begin(&mut self, gtid: Gtid, standalone: Option<bool>) -> Result<(), TailError> {
        if let Some(open) = &self.open {
            let what = format!("{gtid} begins inside {}", open.gtid);
            return Err(TailError::OutOfOrder { what });
        }
        self.prepared.begin(&gtid);
        self.open = Some(Open::new(gtid, standalone));
        Ok(())
    }

    fn query(&mut self, header: &Header, query: Query<'_>) -> Result<Assembled, TailError> {
        let statement = classify(query.text);
        let rewrites = match statement {
            Statement::Other => self.rewritten_by(query)?,
            _ => None,
        };
        let Some(open) = &mut self.open else {
            // Generated by the server for the connection, or written before GTIDs were enabled.
            return match rewrites {
                None => Ok(Assembled::Nothing),
                Some(table) => Err(TailError::PositionLost { reason: rewritten(table) }),
            };
        };
        open.rewrites = open.rewrites.or(rewrites);
        match statement {
            Statement::Begin => open.standalone = Some(false),
            Statement::Commit => return self.commit(header),
            Statement::Rollback => {
                open.rows = RowBuffer::default();
                return self.commit(header);
            }
            Statement::Savepoint(name) => {
                open.set_savepoint(name);
            }
            Statement::RollbackTo(name) => open.roll_back_to(name)?,
            Statement::XaCommit(name) => {
                let own = std::mem::take(&mut open.rows);
                let (rows, phase) = self.prepared.commit(name, own)?;
                open.rows = rows;
                return self.end(header, Some(phase));
            }
            Statement::XaRollback(name) => {
                open.rows = RowBuffer::default();
                let phase = self.prepared.roll_back(name)?;
                return self.end(header, Some(phase));
            }
            Statement::XaPhase => {}
            Statement::Other => match (makes(query), open.standalone) {
                (Makes::TableOfQuery, _) => return Err(in_place_of_rows(open.gtid, query)),
                // The statement is a transaction of its own: no rows precede it, and a definition has none.
                (_, None | Some(true)) => return self.commit(header),
                (Makes::Table, Some(false)) => {}
                // With row format this does not occur, whatever the statement looks like: it may call a function,
                // change a view, or fire a trigger.
                (Makes::No, Some(false)) => return Err(in_place_of_rows(open.gtid, query)),
            },
        }
        Ok(Assembled::Nothing)
    }

    /// Returns the followed table whose rows a definition may change without events of them.
    fn rewritten_by(&self, query: Query<'_>) -> Result<Option<&'static str>, TailError> {
        match effect(query, self.tables.wanted()) {
            Effect::None => Ok(None),
            Effect::Rewrites(table) => Ok(Some(table)),
            Effect::Removes(table) => Err(unsupported(format!(
                "{table} was emptied, exchanged or defined anew without its rows being in the binlog \
                 (TRUNCATE, DROP, RENAME, ALTER IGNORE, of partitions; a key ON DELETE or ON UPDATE that cascades, \
                 system versioning): see that it is as it should be, then start with --resnapshot"
            ))),
        }
    }

    fn commit(&mut self, header: &Header) -> Result<Assembled, TailError> {
        self.end(header, None)
    }

    fn end(&mut self, header: &Header, phase: Option<Phase>) -> Result<Assembled, TailError> {
        let open = self.take_open()?;
        Ok(Assembled::Transaction(Transaction {
            gtid: open.gtid,
            file: Arc::clone(&self.file),
            landmark: self.tracker.landmark(),
            end: header.end,
            committed: header.timestamp,
            rows: open.rows,
            rewrites: open.rewrites,
            resumable: !self.prepared.holds_rows(),
            phase: phase.map(Box::new),
        }))
    }

    /// The first phase is a transaction of its own that changes nothing yet.
    fn prepare(&mut self, header: &Header, xid: Xid) -> Result<Assembled, TailError> {
        let open = self.take_open()?;
        let phase = self.prepared.prepare(xid, open.rows, &self.limits)?;
        self.open = Some(Open::new(open.gtid, open.standalone));
        self.end(header, phase)
    }

    fn take_open(&mut self) -> Result<Open, TailError> {
        let what = || "a transaction ends that never began".into();
        self.open.take().ok_or_else(|| TailError::OutOfOrder { what: what() })
    }

    /// Returns the same event without compression.
    fn plain(
        &self,
        header: &Header,
        change: Change,
        version: u8,
        encoding: Encoding,
        packet: Packet,
    ) -> Result<Packet, TailError> {
        match encoding {
            Encoding::Plain => Ok(packet),
            Encoding::Compressed => {
                let event = packet.event();
                let head = rows::head_length(&event[HEADER_LENGTH..], version, change)
                    .map_err(|source| truncated(header, source))?;
                let (head, images) = event.split_at(HEADER_LENGTH + head);
                let images = inflate(images, self.limits.packet_bytes_max)
                    .map_err(|source| compressed(header, source))?;
                let plain = [head, &images].concat();
                let end = plain.len();
                Ok(Packet::new(plain, 0, end))
            }
        }
    }

    fn rows(&mut self, rows: RowsPacket) -> Result<(), TailError> {
        let Some(open) = &mut self.open else {
            let what = format!("rows of {} outside a transaction", rows.table.name);
            return Err(TailError::OutOfOrder { what });
        };
        let limits = &self.limits;
        open.rows.push(rows, &limits.spill_folder).map_err(|source| limits.not_spilled(source))
    }
}

#[cfg(test)]
mod tests;

//! A test's own database, and its binlog from the creation of the database.

use std::sync::{
    Arc, PoisonError, RwLock, RwLockWriteGuard,
    atomic::{AtomicU32, Ordering},
};

use super::{row::Row, servers::Database};
use crate::{
    binlog::{
        gtid::{Flavor, GtidSet},
        pending::Pending,
        position::Position,
        rows::Rows,
        schema::Followed,
    },
    error::TailError,
    source::{BinlogSource as _, Origin, Server, address::Address, connection::Connection},
    transaction::{Assembled, Assembler, Limits, Transaction},
};

/// Tables that taps follow. A row in `tap_end` marks the end of what a tap must read.
const TABLES: &[&str] = &["t", "u", "stock_movement", "tap_end"];

/// Default maximum size of an event.
const PACKET_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Random characters in a database name.
const RANDOM_CHARACTERS: usize = 10;

/// Makes the replicas of this process, and the ends of taps, unique.
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// Held while a test prepares XA transactions: a tap that starts between a PREPARE and its COMMIT would correctly
/// report its position as lost, whatever their databases.
static PREPARED: RwLock<()> = RwLock::new(());

/// While the guard is held, no tap starts and no other test prepares XA transactions.
pub(super) fn alone_with_xa() -> RwLockWriteGuard<'static, ()> {
    PREPARED.write().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Tap {
    pub(super) database: Database,
    /// The next connection starts after this.
    pub(super) origin: Origin,
    pub(super) assembler: Assembler,
    /// Tables that are to be read anew, by each definition that demands it.
    pub(super) rewrites: Vec<&'static str>,
    connection: Option<Connection>,
}

/// Rows of one committed transaction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Committed {
    pub(super) gtid: String,
    pub(super) rows: Vec<Row>,
    pub(super) resumable: bool,
}

impl Tap {
    /// Creates a tap on a new database of that server.
    pub(super) fn on(server: &Database) -> Self {
        Self::with_limit(server, PACKET_BYTES_MAX)
    }

    pub(super) fn with_limit(server: &Database, packet_bytes_max: usize) -> Self {
        let random = std::iter::repeat_with(|| fastrand::char('a'..='z'));
        let name: String = "t_tap_".chars().chain(random.take(RANDOM_CHARACTERS)).collect();
        let database = server.with(&name);
        database.sql("create table tap_end (number bigint primary key)");
        let nothing_prepared = PREPARED.read().unwrap_or_else(PoisonError::into_inner);
        let gtids = end(&database);
        let flavor = gtids.flavor();
        drop(nothing_prepared);
        let own = NUMBER.fetch_add(1, Ordering::Relaxed);
        let server = Server {
            address: Address::parse(&database.url).unwrap(),
            flavor,
            server_id: 1 << 31 | (std::process::id() << 8) & 0x7fff_ff00 | own & 0xff,
            packet_bytes_max,
        };
        let origin = Origin { server: Arc::new(server), after: Position::of(gtids) };
        let limits = Limits { packet_bytes_max, spill_folder: std::env::temp_dir() };
        let assembler = Assembler::new(
            Followed { database: name, tables: TABLES },
            limits,
            &Pending::default(),
        );
        Self { database, origin, assembler, rewrites: Vec::new(), connection: None }
    }

    /// Returns the end of the server's binlog.
    pub(super) fn end(&self) -> GtidSet {
        end(&self.database)
    }

    pub(super) fn sql(&self, text: &str) -> String {
        self.database.sql(text)
    }

    /// Drops the connection and its unfinished events.
    pub(super) fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Returns every transaction with followed rows, and each end of an XA phase, since the last call.
    pub(super) fn transactions(&mut self) -> Vec<Committed> {
        self.try_transactions().unwrap()
    }

    /// Returns only the rows.
    pub(super) fn rows(&mut self) -> Vec<Row> {
        self.transactions().into_iter().flat_map(|committed| committed.rows).collect()
    }

    pub(super) fn try_transactions(&mut self) -> Result<Vec<Committed>, TailError> {
        let end = i64::from(NUMBER.fetch_add(1, Ordering::Relaxed));
        self.sql(&format!("insert into tap_end values ({end})"));
        let mut transactions = Vec::new();
        loop {
            let transaction = self.next_transaction()?;
            let committed = Committed {
                gtid: transaction.gtid.to_string(),
                rows: rows(&transaction)?,
                resumable: transaction.resumable,
            };
            if committed.rows.iter().any(|row| row.is_end(end)) {
                return Ok(transactions);
            }
            if committed.rows.iter().any(|row| row.table != "tap_end") {
                transactions.push(committed);
            }
        }
    }

    /// Returns the next transaction, even without followed rows.
    pub(super) fn next_transaction(&mut self) -> Result<Transaction, TailError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let opened = Connection::open(&self.origin)?;
                self.assembler.reconnected(opened.identity());
                none.insert(opened)
            }
        };
        loop {
            let packet = connection.next_packet()?;
            if let Assembled::Transaction(transaction) = self.assembler.accept(packet)? {
                self.rewrites.extend(transaction.rewrites);
                let Transaction { gtid, end, landmark, .. } = transaction;
                self.origin.after.pass(
                    gtid,
                    Arc::clone(&transaction.file),
                    end,
                    landmark,
                    transaction.phase.as_deref(),
                );
                return Ok(transaction);
            }
        }
    }
}

fn end(database: &Database) -> GtidSet {
    let (flavor, position) = match database.is_mariadb {
        true => (Flavor::MariaDb, "select @@global.gtid_binlog_pos"),
        false => (Flavor::MySql, "select replace(@@global.gtid_executed, '\n', '')"),
    };
    GtidSet::parse(flavor, database.sql(position).trim()).unwrap()
}

/// Decodes a transaction's rows.
pub(super) fn rows(transaction: &Transaction) -> Result<Vec<Row>, TailError> {
    let mut all = Vec::new();
    for packet in transaction.rows.packets() {
        let packet = packet.unwrap();
        let mut rows = Rows::new(&packet.table, packet.change, packet.version, packet.body())?;
        while let Some(change) = rows.next_row()? {
            all.push(Row::new(&packet.table, &change));
        }
    }
    Ok(all)
}

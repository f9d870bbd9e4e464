//! The server's own decoding of its binlog: the oracle for testing the tailer.
//!
//! `mariadb-binlog` or `mysqlbinlog` prints the binlog as text, row by row; none of our code decodes it. This
//! module only tracks where transactions end, and which rows a ROLLBACK TO or an XA ROLLBACK undid.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use devstack::{Endpoints, Flavor};
use testkit::address;

use crate::tail::Tail;

/// The tables that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    Coupons,
    Movements,
}

/// One committed change of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Change {
    /// The operation: `c` created, `u` updated, `d` deleted.
    pub op: &'static str,
    /// The row's primary key; for a movement its template.
    pub id: i64,
    /// The row's version after the change, or before its deletion; for a movement its number.
    pub version: i64,
    /// The mark that the statement left in the row, unique to the statement; 0 if none.
    pub mark: i64,
}

/// A sequence within which changes are ordered: the table and the messages' key.
pub type Line = (Table, i64);

/// Counts the changes of a table in these lines.
pub fn changes_of(table: Table, lines: &HashMap<Line, Vec<Change>>) -> usize {
    lines.iter().filter(|((of, _), _)| *of == table).map(|(_, changes)| changes.len()).sum()
}

/// A server's binlog, read incrementally.
pub struct ServerBinlog {
    flavor: Flavor,
    endpoints: Endpoints,
    /// Committed changes, in order.
    pub committed: HashMap<Line, Vec<Change>>,
    /// The number of committed changes.
    pub count: usize,
    /// The number of their transactions; never reset.
    pub transactions: usize,
    /// Prepared changes, by XA transaction name.
    prepared: HashMap<String, Vec<(Line, Change)>>,
}

impl ServerBinlog {
    /// The binlog of the server that `tail` follows; nothing is read yet.
    pub fn of(tail: &Tail) -> Self {
        let mariadb = tail.sql("select version()").contains("MariaDB");
        Self {
            flavor: if mariadb { Flavor::Mariadb } else { Flavor::Mysql },
            endpoints: tail.scope.endpoints.clone(),
            committed: HashMap::new(),
            count: 0,
            transactions: 0,
            prepared: HashMap::new(),
        }
    }

    /// Drops all changes read so far, because the server no longer has them.
    pub fn forget(&mut self) {
        self.committed.clear();
        self.prepared.clear();
        self.count = 0;
    }

    /// Counts the committed changes of a table.
    pub fn count_of(&self, table: Table) -> usize {
        changes_of(table, &self.committed)
    }

    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Reads from the beginning of `file` to the end of the last file. No session may write meanwhile.
    ///
    /// # Panics
    /// The server's reader fails, or the binlog ends inside a transaction.
    pub fn read_from(&mut self, file: &str) {
        let mut reader = self.reader();
        let mut running = reader.arg(file).stdout(Stdio::piped()).spawn().unwrap();
        let database = self.endpoints.database().to_owned();
        let mut open = Open::new(&database);
        let mut lines = BufReader::new(running.stdout.take().unwrap());
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).unwrap() > 0 {
            let text = String::from_utf8_lossy(&line);
            self.line(&mut open, text.trim_end_matches('\n'));
            line.clear();
        }
        assert!(running.wait().unwrap().success(), "{reader:?} fails");
        assert!(open.rows.is_empty(), "the binlog ends inside a transaction: {:?}", open.rows);
    }

    fn reader(&self) -> Command {
        let mut reader = self.flavor.binlog_reader().unwrap();
        let to = address(&self.endpoints.database_url);
        reader
            .args(["--no-defaults", "--base64-output=decode-rows", "-vv", "--to-last-log"])
            .args(["--read-from-remote-server", "--host", to.host, "--port", to.port])
            .args(["--user", to.user, &format!("--password={}", to.password)])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        reader
    }

    fn line(&mut self, open: &mut Open<'_>, line: &str) {
        if let Some(row) = line.strip_prefix("### ") {
            return open.row(row);
        }
        open.end_row();
        let statement = line.strip_suffix("/*!*/;").unwrap_or(line);
        match statement {
            "COMMIT" => self.commit(std::mem::take(&mut open.rows)),
            "ROLLBACK" => open.rows.clear(),
            _ => {
                let named = |words: &str| statement.strip_prefix(words).map(str::to_owned);
                if let Some(name) = named("SAVEPOINT ") {
                    open.savepoints.insert(name, open.rows.len());
                } else if let Some(name) = named("ROLLBACK TO ") {
                    open.rows.truncate(open.savepoints[&name]);
                } else if let Some(name) = named("XA PREPARE ") {
                    self.prepared.insert(name, std::mem::take(&mut open.rows));
                } else if let Some(name) = named("XA COMMIT ") {
                    // With ONE PHASE nothing was prepared; the rows came just before.
                    let rows = self.prepared.remove(&name);
                    self.commit(rows.unwrap_or_else(|| std::mem::take(&mut open.rows)));
                } else if let Some(name) = named("XA ROLLBACK ") {
                    self.prepared.remove(&name);
                    open.rows.clear();
                }
            }
        }
    }

    fn commit(&mut self, rows: Vec<(Line, Change)>) {
        self.count += rows.len();
        self.transactions += usize::from(!rows.is_empty());
        for (line, change) in rows {
            self.committed.entry(line).or_default().push(change);
        }
    }
}

/// The transaction that is being read.
struct Open<'a> {
    database: &'a str,
    rows: Vec<(Line, Change)>,
    /// The number of rows before each savepoint.
    savepoints: HashMap<String, usize>,
    row: Option<Row>,
}

/// The row that is being read.
struct Row {
    table: Table,
    op: &'static str,
    /// Numeric values by column, from 1; values after the change replace those before it.
    columns: HashMap<usize, i64>,
}

impl<'a> Open<'a> {
    fn new(database: &'a str) -> Self {
        Self { database, rows: Vec::new(), savepoints: HashMap::new(), row: None }
    }

    /// Reads a line of a row: the operation, `WHERE`, `SET`, or a column such as `  @1=5 /* LONGINT … */`.
    fn row(&mut self, text: &str) {
        if let Some(column) = text.strip_prefix("  @") {
            if let Some(row) = &mut self.row {
                let (number, rest) = column.split_once('=').unwrap();
                let value = rest.split(' ').next().unwrap_or_default().trim_matches('\'');
                // Values that are not numbers belong to columns that are not compared.
                row.columns.insert(number.parse().unwrap(), value.parse().unwrap_or(0));
            }
        } else if text != "WHERE" && text != "SET" {
            self.end_row();
            self.row = self.begin_row(text);
        }
    }

    fn begin_row(&self, text: &str) -> Option<Row> {
        let (verb, name) = text.rsplit_once(' ').unwrap();
        let (database, table) = name.trim_matches('`').split_once("`.`").unwrap();
        let op = match verb {
            "INSERT INTO" => "c",
            "UPDATE" => "u",
            "DELETE FROM" => "d",
            other => panic!("the server's reader says {other:?}"),
        };
        let table = match table {
            "user_coupon" => Table::Coupons,
            "stock_movement" => Table::Movements,
            _ => return None,
        };
        (database == self.database).then(|| Row { table, op, columns: HashMap::new() })
    }

    fn end_row(&mut self) {
        let Some(Row { table, op, columns }) = self.row.take() else { return };
        // Message key, primary key, version and mark, by the migrations' column order.
        let [key, id, version, mark] = match table {
            Table::Coupons => [3, 1, 8, 15],
            Table::Movements => [1, 1, 2, 3],
        }
        .map(|number| columns[&number]);
        self.rows.push(((table, key), Change { op, id, version, mark }));
    }
}

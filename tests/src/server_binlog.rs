//! What a server itself makes of its binlog: the oracle that the tailer is held against.
//!
//! `mariadb-binlog` or `mysqlbinlog` prints the binlog as text, row by row; nothing of ours decodes it.
//! What is left to do here is to know where a transaction ends, and which rows a ROLLBACK TO or an XA
//! ROLLBACK took back.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use devstack::{Endpoints, Flavor};

use crate::tail::{Tail, address};

/// The tables that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// `user_coupon`.
    Coupons,
    /// `stock_movement`.
    Movements,
}

/// One committed change of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Change {
    /// What happened: `c` created, `u` updated, `d` deleted.
    pub op: &'static str,
    /// The row's primary key; of a movement its template.
    pub id: i64,
    /// The row's version afterwards, or before it was deleted; of a movement its number.
    pub version: i64,
    /// What the statement left in the row that no other statement did; 0: nothing.
    pub mark: i64,
}

/// Within one of these changes have an order: the table, and its messages' key.
pub type Line = (Table, i64);

/// How many changes of a table these lines hold.
pub fn changes_of(table: Table, lines: &HashMap<Line, Vec<Change>>) -> usize {
    lines.iter().filter(|((of, _), _)| *of == table).map(|(_, changes)| changes.len()).sum()
}

/// A server's binlog, read on and on.
pub struct ServerBinlog {
    flavor: Flavor,
    endpoints: Endpoints,
    /// What is committed, in order.
    pub committed: HashMap<Line, Vec<Change>>,
    /// How many changes that are.
    pub count: usize,
    /// In how many transactions; never forgotten.
    pub transactions: usize,
    /// What is prepared, by the names of the XA transactions.
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

    /// Forgets what was committed up to here: the server itself no longer has it.
    pub fn forget(&mut self) {
        self.committed.clear();
        self.prepared.clear();
        self.count = 0;
    }

    /// How many committed changes of a table there are.
    pub fn count_of(&self, table: Table) -> usize {
        changes_of(table, &self.committed)
    }

    /// Which family the server is of.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Reads from the beginning of `file` to the end of the last file. Nobody writes meanwhile.
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
                    // In one phase nothing was prepared, and the rows came just before.
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
    /// How many rows came before each.
    savepoints: HashMap<String, usize>,
    row: Option<Row>,
}

/// The row that is being read.
struct Row {
    table: Table,
    op: &'static str,
    /// Numbers by column, from 1; those after the change replace those before it.
    columns: HashMap<usize, i64>,
}

impl<'a> Open<'a> {
    fn new(database: &'a str) -> Self {
        Self { database, rows: Vec::new(), savepoints: HashMap::new(), row: None }
    }

    /// A line of a row: what is done to it, `WHERE`, `SET`, or a column: `  @1=5 /* LONGINT … */`.
    fn row(&mut self, text: &str) {
        if let Some(column) = text.strip_prefix("  @") {
            if let Some(row) = &mut self.row {
                let (number, rest) = column.split_once('=').unwrap();
                let value = rest.split(' ').next().unwrap_or_default().trim_matches('\'');
                // What is no number is no column of a key.
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
        // Key of the messages, primary key, version and mark, as the migrations number the columns.
        let [key, id, version, mark] = match table {
            Table::Coupons => [3, 1, 8, 15],
            Table::Movements => [1, 1, 2, 3],
        }
        .map(|number| columns[&number]);
        self.rows.push(((table, key), Change { op, id, version, mark }));
    }
}

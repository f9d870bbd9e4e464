//! Writes the binlog: one part each of bulk rows, single-row transactions, and mixed updates.

use std::time::Instant;

use anyhow::{Context as _, Result};
use chrono::{DateTime, Utc};
use mysql_store::{
    MySqlConnection, connect, settings,
    verify::{BULK_ROWS, execute, insert_bulk},
};
use tokio::task::JoinSet;

use super::procedures::{MIXED, MIXED_ROWS, SINGLES};

/// Connections that write single-row and mixed transactions; with two cores, more are not faster.
const WRITERS: i64 = 4;

/// A position in the binlog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinlogPosition {
    pub file: String,
    pub offset: u64,
}

/// A part of the binlog.
#[derive(Debug, Clone)]
pub struct Part {
    pub name: &'static str,
    /// Where the part begins.
    pub from: BinlogPosition,
    /// Changed rows of the followed table, which is the number of messages.
    pub rows: i64,
    pub transactions: i64,
    /// Seconds that writing it took.
    pub wrote_s: f64,
}

/// Writes parts, one after another; each coupon's id is larger than all before.
pub struct Load {
    url: String,
    connection: MySqlConnection,
    next_id: i64,
    /// First id of the bulk part, and its number of rows.
    bulk: (i64, i64),
    now: DateTime<Utc>,
}

impl Load {
    /// Connects to a migrated database and creates the procedures.
    pub async fn connect(url: &str, now: DateTime<Utc>) -> Result<Self> {
        let mut connection = connect::single(url).await?;
        for procedure in [SINGLES, MIXED] {
            execute(&mut connection, procedure).await?;
        }
        Ok(Self { url: url.to_owned(), connection, next_id: 1, bulk: (0, 0), now })
    }

    /// Sets whether commits are durable. They need not be while a part is written: the binlog is the same.
    pub async fn set_durable(&mut self, durable: bool) -> Result<()> {
        let value = i32::from(durable);
        for variable in ["sync_binlog", "innodb_flush_log_at_trx_commit"] {
            let sql = format!("set global {variable} = {value}");
            execute(&mut self.connection, &sql).await?;
        }
        Ok(())
    }

    /// Inserts one coupon and returns its id once it is committed.
    pub async fn one(&mut self) -> Result<i64> {
        let id = self.take(1);
        execute(&mut self.connection, &format!("call bench_singles({id}, 1)")).await?;
        Ok(id)
    }

    /// Writes at least `rows` rows, ten thousand per transaction.
    pub async fn bulk(&mut self, rows: i64) -> Result<Part> {
        let from = self.begin().await?;
        let began = Instant::now();
        let transactions = (rows + BULK_ROWS - 1) / BULK_ROWS;
        let rows = transactions * BULK_ROWS;
        self.bulk = (self.next_id, rows);
        for _ in 0..transactions {
            let first_id = self.take(BULK_ROWS);
            insert_bulk(&mut self.connection, first_id, self.now).await?;
        }
        Ok(part("bulk", from, rows, transactions, began))
    }

    /// Writes at least `transactions` transactions of one row.
    pub async fn singles(&mut self, transactions: i64) -> Result<Part> {
        let from = self.begin().await?;
        let began = Instant::now();
        let all = self.side_by_side("bench_singles", transactions, "").await?;
        Ok(part("singles", from, all, all, began))
    }

    /// Writes at least `transactions` transactions that update some coupons of [`Load::bulk`], insert one, and write a
    /// row of a table that is not followed.
    pub async fn mixed(&mut self, transactions: i64) -> Result<Part> {
        let from = self.begin().await?;
        let began = Instant::now();
        let (oldest, old) = self.bulk;
        let all =
            self.side_by_side("bench_mixed", transactions, &format!(", {oldest}, {old}")).await?;
        Ok(part("mixed", from, all * MIXED_ROWS, all, began))
    }

    async fn side_by_side(
        &mut self,
        procedure: &str,
        transactions: i64,
        more: &str,
    ) -> Result<i64> {
        let each = (transactions + WRITERS - 1) / WRITERS;
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let mut connection = connect::single(&self.url).await?;
            let sql = format!("call {procedure}({}, {each}{more})", self.take(each));
            writers.spawn(async move { execute(&mut connection, &sql).await });
        }
        while let Some(written) = writers.join_next().await {
            written.context("a writer panicked")??;
        }
        Ok(each * WRITERS)
    }

    fn take(&mut self, ids: i64) -> i64 {
        self.next_id += ids;
        self.next_id - ids
    }

    /// Starts a new binlog file, so that a part is everything from a position on.
    async fn begin(&mut self) -> Result<BinlogPosition> {
        execute(&mut self.connection, "flush binary logs").await?;
        self.place().await
    }

    /// The end of the binlog.
    pub async fn place(&mut self) -> Result<BinlogPosition> {
        let files = settings::binlog_files(&mut self.connection).await?.files;
        let (file, offset) = files.into_iter().next_back().context("there is no binlog")?;
        Ok(BinlogPosition { file, offset })
    }
}

fn part(
    name: &'static str,
    from: BinlogPosition,
    rows: i64,
    transactions: i64,
    began: Instant,
) -> Part {
    let wrote_s = began.elapsed().as_secs_f64();
    Part { name, from, rows, transactions, wrote_s }
}

//! Reading the followed tables whole, through the same topics: `op: r`.
//!
//! The binlog position is taken first and the stream goes on from there, so every change that a
//! chunk has missed comes afterwards, and one that a chunk has seen comes again. Versions make that
//! converge. Nothing is locked; each chunk is one short read by primary key. How far it came is part
//! of the checkpoint: a tailer that is killed goes on behind the last chunk that was acknowledged.

use anyhow::{Context as _, bail};
use mysql_store::{
    MySqlConnection,
    snapshot::{self as store, TextRow},
};
use runtime::Clock;
use serde::{Deserialize, Serialize};
use topic::{HEADER_SCHEMA, Record, SCHEMA_VERSION, TopicNames};

use crate::{
    encode, metrics,
    outlet::Outlet,
    schema,
    table::Table,
    text_row::{cells, described, values},
};

/// Rows read at a time: under 1 MB, and under 10 ms for the server.
const CHUNK: u32 = 2_000;

/// Templates first: readers of coupons and movements may want to know them.
const ORDER: [&str; 3] = ["coupon_template", "stock_movement", "user_coupon"];

/// The primary key of movements.
const MOVEMENT_KEY: [&str; 2] = ["template_id", "seq"];

/// How far a snapshot has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// The tables that are not read whole yet; of the first one a part may be.
    tables: Vec<String>,
    /// The primary key of the last row that was sent of the first table; empty: none was.
    after: Vec<i64>,
    /// Rows sent.
    rows: u64,
}

impl Progress {
    /// Nothing is read yet, and all tables shall be.
    pub(crate) fn of_all() -> Self {
        let tables = ORDER.map(str::to_owned).to_vec();
        Self { tables, after: Vec::new(), rows: 0 }
    }

    /// Nothing is read yet, and one table shall be.
    pub(crate) fn of(table: &str) -> Self {
        Self { tables: vec![table.to_owned()], after: Vec::new(), rows: 0 }
    }

    /// The same, and `table` too, if it is not being read anyway.
    pub(crate) fn and(mut self, table: &str) -> Self {
        if !self.tables.iter().any(|known| known == table) {
            self.tables.push(table.to_owned());
        }
        self
    }

    /// Tables not read whole yet.
    pub(crate) fn tables(&self) -> &[String] {
        &self.tables
    }

    /// Rows sent.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn is_done(&self) -> bool {
        self.tables.is_empty()
    }

    fn table_done(&mut self) {
        self.tables.remove(0);
        self.after.clear();
    }

    /// One part of the key that the next chunk begins behind.
    fn key(&self, part: usize) -> i64 {
        self.after.get(part).copied().unwrap_or(i64::MIN)
    }
}

/// Where rows go and what their events say.
pub(crate) struct Snapshot<'a, O> {
    pub(crate) outlet: &'a mut O,
    pub(crate) names: &'a TopicNames,
    pub(crate) database: &'a str,
    pub(crate) clock: &'a Clock,
}

impl<O: Outlet> Snapshot<'_, O> {
    /// Sends the chunk behind `progress`. Returns how far it is then, once all of it is acknowledged.
    pub(crate) async fn chunk(
        &mut self,
        connection: &mut MySqlConnection,
        progress: &Progress,
    ) -> anyhow::Result<Progress> {
        let mut next = progress.clone();
        let Some(name) = progress.tables.first() else { return Ok(next) };
        let (topic, keys, ordering) = match name.as_str() {
            "coupon_template" => (self.names.template(), &["id"][..], "id"),
            "stock_movement" => (self.names.stock_movement(), &MOVEMENT_KEY[..], "template_id"),
            "user_coupon" => (self.names.user_coupon(), &["id"][..], "user_id"),
            other => bail!("the checkpoint tells of a snapshot of {other}, which is not followed"),
        };
        let columns = store::columns(connection, name).await?;
        let table = described(self.database, name, &columns);
        schema::check(&table)?;
        let after: Vec<i64> = (0..keys.len()).map(|part| progress.key(part)).collect();
        let rows = store::rows_after(connection, name, &columns, keys, &after, CHUNK).await?;
        let now_ms = self.clock.now().timestamp_millis();
        let (mut payload, mut key) = (Vec::new(), Vec::new());
        for row in &rows {
            let values = values(&table, row);
            let cells = cells(&table, &values);
            payload.clear();
            encode::read(&mut payload, &table, &cells, now_ms)?;
            key.clear();
            if let Some(cell) = table.column(ordering).map(|index| &cells[index]) {
                encode::key(&mut key, cell);
            }
            let headers: [(&str, &[u8]); 1] = [(HEADER_SCHEMA, SCHEMA_VERSION.as_bytes())];
            let record = Record { topic: &topic, key: &key, payload: &payload, headers: &headers };
            self.outlet.put(&record).await?;
        }
        let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        next.rows += count;
        ::metrics::counter!(metrics::SNAPSHOT_ROWS).increment(count);
        match rows.last() {
            Some(last) => next.after = key_of(&table, keys, last)?,
            None => next.table_done(),
        }
        Ok(next)
    }
}

/// The primary key of a row.
fn key_of(table: &Table, keys: &[&str], row: &TextRow) -> anyhow::Result<Vec<i64>> {
    let part = |key: &&str| {
        let text = table.column(key).and_then(|index| row.get(index)?.as_deref());
        text.unwrap_or_default().parse().with_context(|| format!("{}.{key}", table.name))
    };
    keys.iter().map(part).collect()
}

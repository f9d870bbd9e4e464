//! Snapshots: publishes all rows of the followed tables to their topics, as `op: r`.
//!
//! The binlog position is taken first, and the stream starts from there. So a change that a chunk missed follows in the
//! stream, and a change that a chunk contained is repeated; readers compare versions and apply each change once.
//! Nothing is locked: each chunk is one short read by primary key. The progress is part of the checkpoint, so after a
//! kill the next tailer continues after the last acknowledged chunk.

use anyhow::{Context as _, bail};
use mysql_store::{
    MySqlConnection,
    snapshot::{self as store, TextRow},
};
use runtime::Clock;
use serde::{Deserialize, Serialize};
use topic::{HEADER_RESTATED, HEADER_SCHEMA, Record, SCHEMA_VERSION, TopicNames};

use crate::{
    binlog::{
        encode, schema,
        table::Table,
        text_row::{cells, described, values},
    },
    metrics,
    publish::sink::Sink,
};

/// Rows per read: under 1 MB, and under 10 ms for the server.
const CHUNK: u32 = 2_000;

/// Templates first: readers of coupons and movements may need them.
const ORDER: [&str; 3] = ["coupon_template", "stock_movement", "user_coupon"];

/// Primary key of movements.
const MOVEMENT_KEY: [&str; 2] = ["template_id", "seq"];

/// Progress of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotProgress {
    /// Tables that are not fully read; the first one may be partly read.
    tables: Vec<String>,
    /// Primary key of the last row sent of the first table; empty if none was sent.
    after: Vec<i64>,
    /// Rows sent so far.
    rows: u64,
    #[serde(default)]
    restates: Restates,
}

/// Why rows may have other values than were published in the same version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum Restates {
    /// They have not: nothing was published before.
    #[default]
    Nothing,
    /// A definition may have changed them.
    Definition,
    /// What happened to them meanwhile is not known.
    History,
}

impl Restates {
    /// Returns the value of the header; `None` without one.
    fn header(self) -> Option<&'static [u8]> {
        match self {
            Self::Nothing => None,
            Self::Definition => Some(b"definition"),
            Self::History => Some(b"history"),
        }
    }
}

impl SnapshotProgress {
    /// Starts a snapshot of all tables.
    pub(crate) fn of_all(restates: Restates) -> Self {
        let tables = ORDER.map(str::to_owned).to_vec();
        Self { tables, after: Vec::new(), rows: 0, restates }
    }

    /// Starts a snapshot of one table.
    pub(crate) fn of(table: &str, restates: Restates) -> Self {
        Self { tables: vec![table.to_owned()], after: Vec::new(), rows: 0, restates }
    }

    /// Adds `table`, unless it is already included.
    pub(crate) fn and(mut self, table: &str) -> Self {
        if !self.tables.iter().any(|known| known == table) {
            self.tables.push(table.to_owned());
        }
        self
    }

    /// Returns the tables that are not fully read.
    pub(crate) fn tables(&self) -> &[String] {
        &self.tables
    }

    /// Returns the number of rows sent.
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

    /// Returns one part of the key after which the next chunk starts.
    fn key(&self, part: usize) -> i64 {
        self.after.get(part).copied().unwrap_or(i64::MIN)
    }
}

/// Destination and metadata of the rows.
pub(crate) struct Snapshot<'a, O> {
    pub(crate) sink: &'a mut O,
    pub(crate) names: &'a TopicNames,
    pub(crate) database: &'a str,
    pub(crate) clock: &'a Clock,
}

impl<O: Sink> Snapshot<'_, O> {
    /// Sends the chunk after `progress`. Returns the progress, valid once the whole chunk is acknowledged.
    pub(crate) async fn chunk(
        &mut self,
        connection: &mut MySqlConnection,
        progress: &SnapshotProgress,
    ) -> anyhow::Result<SnapshotProgress> {
        let mut next = progress.clone();
        let Some(name) = progress.tables.first() else { return Ok(next) };
        let (topic, keys, ordering) = match name.as_str() {
            "coupon_template" => (self.names.template(), &["id"][..], "id"),
            "stock_movement" => (self.names.stock_movement(), &MOVEMENT_KEY[..], "template_id"),
            "user_coupon" => (self.names.user_coupon(), &["id"][..], "user_id"),
            other => bail!(
                "the checkpoint names a snapshot of {other}, which this version does not follow: take the \
                 version that wrote it, or start with --resnapshot"
            ),
        };
        let columns = store::columns(connection, name).await?;
        let table = described(self.database, name, &columns);
        schema::check(&table)?;
        let after: Vec<i64> = (0..keys.len()).map(|part| progress.key(part)).collect();
        let rows = store::rows_after(connection, name, &columns, keys, &after, CHUNK).await?;
        let now_ms = self.clock.now().timestamp_millis();
        let mut headers: Vec<(&str, &[u8])> = vec![(HEADER_SCHEMA, SCHEMA_VERSION.as_bytes())];
        headers.extend(progress.restates.header().map(|why| (HEADER_RESTATED, why)));
        let mut payload = Vec::new();
        let mut key = Vec::new();
        for row in &rows {
            let values = values(&table, row);
            let cells = cells(&table, &values);
            payload.clear();
            encode::read(&mut payload, &table, &cells, now_ms)?;
            key.clear();
            if let Some(cell) = table.column(ordering).map(|index| &cells[index]) {
                encode::key(&mut key, cell);
            }
            let record = Record { topic: &topic, key: &key, payload: &payload, headers: &headers };
            self.sink.put(&record).await?;
        }
        let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        next.rows += count;
        ::metrics::counter!(metrics::SNAPSHOT_ROWS.name).increment(count);
        // What is committed behind a chunk that is not full follows in the stream. Under load there is always more.
        match rows.last().filter(|_| count == u64::from(CHUNK)) {
            Some(last) => next.after = key_of(&table, keys, last)?,
            None => next.table_done(),
        }
        Ok(next)
    }
}

/// Returns the primary key of a row.
fn key_of(table: &Table, keys: &[&str], row: &TextRow) -> anyhow::Result<Vec<i64>> {
    let part = |key: &&str| {
        let text = table.column(key).and_then(|index| row.get(index)?.as_deref());
        text.unwrap_or_default().parse().with_context(|| format!("{}.{key}", table.name))
    };
    keys.iter().map(part).collect()
}

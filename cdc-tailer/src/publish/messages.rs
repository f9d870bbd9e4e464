//! Converts rows to messages: topic, key, headers.

use std::mem;

use anyhow::{Context as _, anyhow};
use runtime::trace::{self, Kind, Span};
use topic::{
    HEADER_POSITION, HEADER_SCHEMA, HEADER_TRACE_PARENT, Record, SCHEMA_VERSION, TopicNames,
};
use tracing::error;

use crate::{
    binlog::{
        encode::{self, ChangeOrigin},
        rows::Rows,
        table::Table,
    },
    cells::cell::Cell,
    metrics,
    publish::sink::Sink,
    transaction::{Transaction, row_buffer::RowsPacket},
};

/// The followed tables.
pub(crate) const TABLES: &[&str] = &["user_coupon", "coupon_template", "stock_movement"];

#[derive(Default)]
pub(crate) struct Messages {
    routes: Vec<Route>,
    /// Buffers, reused from row to row.
    event: Vec<u8>,
    key: Vec<u8>,
    position: Vec<u8>,
    /// Spans of the sampled rows sent since the last [`Messages::take_spans`].
    spans: Vec<Span>,
}

/// Topic of a table's rows.
struct Route {
    table: &'static str,
    topic: String,
    /// Column with the message key: changes with the same key stay in order.
    key: &'static str,
}

impl Messages {
    pub(crate) fn new(names: &TopicNames) -> Self {
        let route = |table, topic, key| Route { table, topic, key };
        let routes = vec![
            route("user_coupon", names.user_coupon(), "user_id"),
            route("coupon_template", names.template(), "id"),
            route("stock_movement", names.stock_movement(), "template_id"),
        ];
        Self { routes, ..Self::default() }
    }

    /// Returns the spans of the rows sent since the last call. Drop them when the broker has acknowledged the rows.
    pub(crate) fn take_spans(&mut self) -> Vec<Span> {
        mem::take(&mut self.spans)
    }

    /// Sends a transaction's rows; waits while the sink is full. Returns their number.
    pub(crate) async fn put_out<O: Sink>(
        &mut self,
        transaction: &Transaction,
        now_ms: i64,
        sink: &mut O,
    ) -> anyhow::Result<u32> {
        let mut number = 0;
        if transaction.rows.is_empty() {
            return Ok(number);
        }
        let gtid = transaction.gtid.to_string();
        for rows in transaction.rows.packets() {
            let rows = rows.context("a long transaction cannot be read back")?;
            let origin = ChangeOrigin {
                gtid: &gtid,
                file: &transaction.file.name,
                end: rows.end,
                committed_ms: i64::from(transaction.committed) * 1000,
                now_ms,
            };
            self.rows(&rows, &origin, &mut number, sink)
                .await
                .with_context(|| format!("transaction {gtid} cannot be published"))?;
        }
        Ok(number)
    }

    async fn rows<O: Sink>(
        &mut self,
        packet: &RowsPacket,
        origin: &ChangeOrigin<'_>,
        number: &mut u32,
        sink: &mut O,
    ) -> anyhow::Result<()> {
        let table: &Table = &packet.table;
        let route = self
            .routes
            .iter()
            .find(|route| route.table == table.name)
            .ok_or_else(|| anyhow!("table {} is followed without a topic", table.name))?;
        let key = table.column(route.key).ok_or_else(|| {
            anyhow!("table {} has lost its column {}; its events need it", table.name, route.key)
        })?;
        let trace = table.column("trace_parent");
        let version = table.column("version");
        let mut unversioned = 0u64;
        let mut rows = Rows::new(table, packet.change, packet.version, packet.body())?;
        while let Some(row) = rows.next_row()? {
            self.event.clear();
            encode::event(&mut self.event, table, packet.change, &row, origin, *number)?;
            let Some(image) = row.after.as_ref().or(row.before.as_ref()) else { continue };
            let versions = version.and_then(|index| {
                Some((&row.before.as_ref()?[index], &row.after.as_ref()?[index]))
            });
            unversioned += u64::from(versions.is_some_and(|(was, is)| !rises(was, is)));
            self.key.clear();
            encode::key(&mut self.key, &image[key]);
            self.position.clear();
            self.position.extend(origin.gtid.as_bytes());
            self.position.push(b'/');
            encode::key(&mut self.position, &Cell::Unsigned(u64::from(*number)));
            let claimed = match trace.map(|column| &image[column]) {
                Some(Cell::Text(trace)) => Some(*trace),
                _ => None,
            };
            let span = span(&route.topic, claimed);
            let published = span.trace_parent();
            let trace_parent = published.as_deref().map(str::as_bytes).or(claimed);
            let headers: [(&str, &[u8]); 3] = [
                (HEADER_SCHEMA, SCHEMA_VERSION.as_bytes()),
                (HEADER_POSITION, &self.position),
                (HEADER_TRACE_PARENT, trace_parent.unwrap_or_default()),
            ];
            let present = if trace_parent.is_some() { &headers[..] } else { &headers[..2] };
            let record = Record {
                topic: &route.topic,
                key: &self.key,
                payload: &self.event,
                headers: present,
            };
            sink.put(&record).await?;
            if !span.is_empty() {
                self.spans.push(span);
            }
            *number += 1;
        }
        if unversioned > 0 {
            ::metrics::counter!(metrics::UNVERSIONED.name).increment(unversioned);
            error!(
                table = table.name,
                binlog.gtid = origin.gtid,
                rows = unversioned,
                "rows were changed and kept their version, by which readers know what is newer: is the \
                 trigger user_coupon_version there? Views of these users are dropped"
            );
        }
        Ok(())
    }
}

/// Returns whether the version increased.
fn rises(was: &Cell<'_>, is: &Cell<'_>) -> bool {
    matches!((was, is), (Cell::Int(was), Cell::Int(is)) if is > was)
}

/// Creates a row's publishing span, in the trace of the request that wrote the row.
fn span(topic: &str, trace_parent: Option<&[u8]>) -> Span {
    let mut span = trace::follow("cdc-tailer.publish", Kind::Producer, trace_parent);
    if !span.is_empty() {
        span.set("messaging.system", "kafka");
        span.set("messaging.destination.name", topic.to_owned());
    }
    span
}

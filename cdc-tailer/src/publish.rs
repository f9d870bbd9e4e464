//! From transactions to messages, and from acknowledgements back to a safe position.
//!
//! Each transaction leaves a mark: the number behind its last message. The safe position moves over
//! a mark once the producer's watermark has reached it, so it is always a transaction's end of which
//! everything, and everything earlier, was acknowledged. Transactions without followed rows leave
//! marks too: a quiet table's position does not grow old.

use std::{collections::VecDeque, sync::Arc};

use anyhow::{Context as _, anyhow};
use topic::{
    HEADER_POSITION, HEADER_SCHEMA, HEADER_TRACE_PARENT, OrderedProducer, Record, SCHEMA_VERSION,
    TopicNames,
};

use crate::{
    assembler::{RowsPacket, Transaction},
    cell::Cell,
    encode::{self, Place},
    metrics,
    position::{Gtid, Position},
    rows::Rows,
    table::Table,
};

/// The tables that are followed.
pub(crate) const TABLES: &[&str] = &["user_coupon", "coupon_template", "stock_movement"];

/// Sends transactions' rows and keeps the safe position.
pub(crate) struct Publisher {
    producer: OrderedProducer,
    routes: Vec<Route>,
    marks: VecDeque<Mark>,
    safe: Position,
    /// Reused from row to row.
    event: Vec<u8>,
    key: Vec<u8>,
    position: Vec<u8>,
}

/// Where a table's rows go.
struct Route {
    table: &'static str,
    topic: String,
    /// The column whose value keeps changes in order.
    key: &'static str,
}

/// A transaction that is enqueued.
struct Mark {
    /// All its messages have lower numbers.
    end: u64,
    gtid: Gtid,
    file: Arc<str>,
    offset: u32,
    committed: u32,
}

impl Publisher {
    pub(crate) fn new(producer: OrderedProducer, names: &TopicNames, start: Position) -> Self {
        let route = |table, topic, key| Route { table, topic, key };
        let routes = vec![
            route("user_coupon", names.user_coupon(), "user_id"),
            route("coupon_template", names.template(), "id"),
            route("stock_movement", names.stock_movement(), "template_id"),
        ];
        Self {
            producer,
            routes,
            marks: VecDeque::new(),
            safe: start,
            event: Vec::new(),
            key: Vec::new(),
            position: Vec::new(),
        }
    }

    /// Up to here everything is acknowledged.
    pub(crate) fn safe(&self) -> &Position {
        &self.safe
    }

    pub(crate) fn producer(&self) -> &OrderedProducer {
        &self.producer
    }

    /// For the snapshot, which sends rows of its own making.
    pub(crate) fn producer_mut(&mut self) -> &mut OrderedProducer {
        &mut self.producer
    }

    /// Begins anew at `position`, once everything enqueued is acknowledged.
    pub(crate) fn restart(&mut self, position: Position) {
        self.marks.clear();
        self.safe = position;
    }

    /// Enqueues a transaction's rows; waits while the producer's queue is full.
    pub(crate) async fn publish(
        &mut self,
        transaction: &Transaction,
        now_ms: i64,
    ) -> anyhow::Result<()> {
        let mut number = 0;
        if !transaction.rows.is_empty() {
            let gtid = transaction.gtid.to_string();
            for rows in &transaction.rows {
                let place = Place {
                    gtid: &gtid,
                    file: &transaction.file,
                    end: rows.end,
                    committed_ms: i64::from(transaction.committed) * 1000,
                    now_ms,
                };
                self.publish_rows(rows, &place, &mut number)
                    .await
                    .with_context(|| format!("transaction {gtid} cannot be published"))?;
            }
            ::metrics::counter!(metrics::ROWS).increment(u64::from(number));
        }
        ::metrics::counter!(metrics::TRANSACTIONS).increment(1);
        self.marks.push_back(Mark {
            end: self.producer.next_number(),
            gtid: transaction.gtid,
            file: Arc::clone(&transaction.file),
            offset: transaction.end,
            committed: transaction.committed,
        });
        Ok(())
    }

    async fn publish_rows(
        &mut self,
        packet: &RowsPacket,
        place: &Place<'_>,
        number: &mut u32,
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
        let mut rows = Rows::new(table, packet.change, packet.version, packet.body())?;
        while let Some(row) = rows.next_row()? {
            self.event.clear();
            encode::event(&mut self.event, table, packet.change, &row, place, *number)?;
            let Some(image) = row.after.as_ref().or(row.before.as_ref()) else { continue };
            self.key.clear();
            encode::key(&mut self.key, &image[key]);
            self.position.clear();
            self.position.extend(place.gtid.as_bytes());
            self.position.push(b'/');
            encode::key(&mut self.position, &Cell::Unsigned(u64::from(*number)));
            let headers: [(&str, &[u8]); 3] = [
                (HEADER_SCHEMA, SCHEMA_VERSION.as_bytes()),
                (HEADER_POSITION, &self.position),
                match trace.map(|column| &image[column]) {
                    Some(Cell::Text(trace)) => (HEADER_TRACE_PARENT, trace),
                    _ => ("", b""),
                },
            ];
            let present = if headers[2].0.is_empty() { &headers[..2] } else { &headers[..] };
            let record = Record {
                topic: &route.topic,
                key: &self.key,
                payload: &self.event,
                headers: present,
            };
            self.producer.enqueue(&record).await?;
            *number += 1;
        }
        Ok(())
    }

    /// Moves the safe position as far as the acknowledgements allow. Says whether it moved.
    pub(crate) fn settle(&mut self, now_ms: i64) -> anyhow::Result<bool> {
        let acknowledged = self.producer.acknowledged()?;
        let mut last = None;
        while let Some(mark) = self.marks.front()
            && mark.end <= acknowledged
        {
            self.safe.gtids.add(&mark.gtid);
            last = self.marks.pop_front();
        }
        ::metrics::gauge!(metrics::UNACKNOWLEDGED).set(count(self.marks.len()));
        let Some(mark) = last else { return Ok(false) };
        self.safe.file = mark.file;
        self.safe.offset = u64::from(mark.offset);
        let lag_ms = (now_ms - i64::from(mark.committed) * 1000).max(0);
        ::metrics::gauge!(metrics::LAG).set(seconds(lag_ms));
        Ok(true)
    }

    /// The server has nothing more: with nothing under way there is no lag.
    pub(crate) fn idle(&self) {
        if self.marks.is_empty() {
            ::metrics::gauge!(metrics::LAG).set(0.0);
        }
    }
}

/// Gauges are floating-point numbers.
pub(crate) fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}

fn seconds(ms: i64) -> f64 {
    std::time::Duration::from_millis(ms.unsigned_abs()).as_secs_f64()
}

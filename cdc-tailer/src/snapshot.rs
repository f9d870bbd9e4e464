//! Reading the followed tables whole, through the same topics: `op: r`.
//!
//! The binlog position is taken first and the stream goes on from there, so every change that a
//! chunk has missed comes afterwards, and one that a chunk has seen comes again. Versions make that
//! converge. Nothing is locked; each chunk is one short read by primary key. How far it came is part
//! of the checkpoint: a tailer that is killed goes on behind the last chunk that was acknowledged.

use anyhow::bail;
use chrono::{DateTime, Utc};
use coupon::Validity;
use mysql_store::{MySqlConnection, snapshot as store, user_coupon::UserCoupon};
use runtime::Clock;
use serde::{Deserialize, Serialize};
use topic::{
    Event, HEADER_SCHEMA, Op, Record, SCHEMA_VERSION, Source, StockMovementRow, TemplateRow,
    TopicNames, UserCouponRow,
};

use crate::{base64, metrics, outlet::Outlet};

/// Rows read at a time: under 1 MB, and under 10 ms for the server.
const CHUNK: u32 = 2_000;

/// Templates first: readers of coupons and movements may want to know them.
const ORDER: [&str; 3] = ["coupon_template", "stock_movement", "user_coupon"];

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
        let Some(table) = progress.tables.first() else { return Ok(next) };
        let last = match table.as_str() {
            "coupon_template" => {
                let chunk = store::template_after(connection, progress.key(0), CHUNK).await?;
                let topic = self.names.template();
                for row in &chunk {
                    self.row(&topic, table, row.template.id.0, template(row)).await?;
                }
                next.rows += number(chunk.len());
                chunk.last().map(|row| vec![row.template.id.0])
            }
            "stock_movement" => {
                let (template, seq) = (progress.key(0), progress.key(1));
                let chunk = store::movement_after(connection, template, seq, CHUNK).await?;
                let topic = self.names.stock_movement();
                for row in &chunk {
                    self.row(&topic, table, row.template_id.0, movement(row)).await?;
                }
                next.rows += number(chunk.len());
                chunk.last().map(|row| vec![row.template_id.0, row.seq])
            }
            "user_coupon" => {
                let chunk = store::user_coupon_after(connection, progress.key(0), CHUNK).await?;
                let topic = self.names.user_coupon();
                for row in &chunk {
                    self.row(&topic, table, row.user_id.0, coupon(row)).await?;
                }
                next.rows += number(chunk.len());
                chunk.last().map(|row| vec![row.id.0])
            }
            other => bail!("the checkpoint tells of a snapshot of {other}, which is not followed"),
        };
        ::metrics::counter!(metrics::SNAPSHOT_ROWS).increment(next.rows - progress.rows);
        match last {
            Some(key) => next.after = key,
            None => next.table_done(),
        }
        Ok(next)
    }

    async fn row<R: Serialize>(
        &mut self,
        topic: &str,
        table: &str,
        key: i64,
        row: R,
    ) -> anyhow::Result<()> {
        let now = millis(self.clock.now());
        let source = Source {
            db: self.database.to_owned(),
            table: table.to_owned(),
            ts_ms: now,
            snapshot: true,
            ..Source::default()
        };
        let event = Event { before: None, after: Some(row), op: Op::Read, source, ts_ms: now };
        let payload = serde_json::to_vec(&event)?;
        let headers: [(&str, &[u8]); 1] = [(HEADER_SCHEMA, SCHEMA_VERSION.as_bytes())];
        let key = key.to_string();
        let record = Record { topic, key: key.as_bytes(), payload: &payload, headers: &headers };
        self.outlet.put(&record).await
    }
}

fn number(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

fn millis(time: DateTime<Utc>) -> i64 {
    time.timestamp_millis()
}

fn coupon(row: &UserCoupon) -> UserCouponRow {
    UserCouponRow {
        id: row.id.0,
        template_id: row.template_id.0,
        user_id: row.user_id.0,
        claim_no: row.claim_no,
        claim_id: row.claim_id.0,
        merchant_id: row.merchant_id.0,
        status: row.status.code(),
        version: row.version,
        expiry_shard: row.expiry_shard,
        claimed_at: millis(row.claimed_at),
        changed_at: millis(row.changed_at),
        valid_from: millis(row.valid_from),
        valid_until: millis(row.valid_until),
        used_at: row.used_at.map(millis),
        order_ref: row.order_ref.clone(),
        trace_parent: row.trace_parent.clone(),
    }
}

fn template(row: &store::TemplateRow) -> TemplateRow {
    let template = &row.template;
    let (from, until, valid_for) = match template.validity {
        Validity::Absolute { from, until } => (Some(millis(from)), Some(millis(until)), None),
        Validity::Relative { valid_for } => (None, None, Some(valid_for.num_milliseconds())),
    };
    TemplateRow {
        id: template.id.0,
        merchant_id: template.merchant_id.0,
        name: template.name.clone(),
        discount_kind: template.discount.kind.code(),
        discount_value: template.discount.value,
        discount_cap: template.discount.cap,
        minimum_spend: template.discount.minimum_spend,
        currency: template.discount.currency.clone(),
        per_user_limit: template.per_user_limit.cast_signed(),
        max_per_claim: template.max_per_claim.cast_signed(),
        claim_starts_at: millis(template.window.starts_at),
        claim_ends_at: millis(template.window.ends_at),
        valid_from: from,
        valid_until: until,
        valid_for_ms: valid_for,
        self_redeem: template.self_redeem.into(),
        state: template.state.code(),
        version: template.version,
        created_at: millis(row.created_at),
        changed_at: millis(row.changed_at),
    }
}

fn movement(row: &store::MovementRow) -> StockMovementRow {
    StockMovementRow {
        template_id: row.template_id.0,
        seq: row.seq,
        delta: row.delta,
        reason: row.reason.clone(),
        actor: row.actor.clone(),
        created_at: millis(row.created_at),
        request_id: row.request_id.as_deref().map(base64::text),
        total_after: row.total_after,
        stock_after: row.stock_after,
    }
}

//! Reading the followed tables whole, through the same topics: `op: r`.
//!
//! The binlog position is taken first and the stream goes on from there, so every change that a
//! chunk has missed comes afterwards, and one that a chunk has seen comes again. Versions make that
//! converge. Nothing is locked; each chunk is one short read by primary key.

use chrono::{DateTime, Utc};
use coupon::Validity;
use mysql_store::{MySqlConnection, snapshot as store, user_coupon::UserCoupon};
use runtime::Clock;
use serde::Serialize;
use topic::{
    Event, HEADER_SCHEMA, Op, OrderedProducer, Record, SCHEMA_VERSION, Source, StockMovementRow,
    TemplateRow, TopicNames, UserCouponRow,
};
use tracing::info;

use crate::metrics;

/// Rows read at a time: under 1 MB, and under 10 ms for the server.
const CHUNK: u32 = 2_000;

/// Sends every row of the followed tables. What is enqueued may not be acknowledged yet.
pub(crate) async fn send(
    connection: &mut MySqlConnection,
    producer: &mut OrderedProducer,
    names: &TopicNames,
    database: &str,
    clock: &Clock,
) -> anyhow::Result<()> {
    let mut snapshot = Snapshot { connection, producer, names, database, clock, rows: 0 };
    // Templates first: readers of coupons and movements may want to know them.
    snapshot.templates().await?;
    snapshot.movements().await?;
    snapshot.coupons().await?;
    info!(snapshot.rows = snapshot.rows, "snapshot sent");
    Ok(())
}

struct Snapshot<'a> {
    connection: &'a mut MySqlConnection,
    producer: &'a mut OrderedProducer,
    names: &'a TopicNames,
    database: &'a str,
    clock: &'a Clock,
    rows: u64,
}

impl Snapshot<'_> {
    async fn templates(&mut self) -> anyhow::Result<()> {
        let mut after = i64::MIN;
        let topic = self.names.template();
        loop {
            let chunk = store::template_after(self.connection, after, CHUNK).await?;
            let Some(last) = chunk.last() else { return Ok(()) };
            after = last.template.id.0;
            for row in &chunk {
                let id = row.template.id.0;
                self.row(&topic, "coupon_template", id, template(row)).await?;
            }
        }
    }

    async fn movements(&mut self) -> anyhow::Result<()> {
        let mut after = (i64::MIN, i64::MIN);
        let topic = self.names.stock_movement();
        loop {
            let chunk = store::movement_after(self.connection, after.0, after.1, CHUNK).await?;
            let Some(last) = chunk.last() else { return Ok(()) };
            after = (last.template_id.0, last.seq);
            for row in &chunk {
                let key = row.template_id.0;
                self.row(&topic, "stock_movement", key, movement(row)).await?;
            }
        }
    }

    async fn coupons(&mut self) -> anyhow::Result<()> {
        let mut after = i64::MIN;
        let topic = self.names.user_coupon();
        loop {
            let chunk = store::user_coupon_after(self.connection, after, CHUNK).await?;
            let Some(last) = chunk.last() else { return Ok(()) };
            after = last.id.0;
            for row in &chunk {
                let key = row.user_id.0;
                self.row(&topic, "user_coupon", key, coupon(row)).await?;
            }
        }
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
        self.producer.enqueue(&record).await?;
        self.rows += 1;
        ::metrics::counter!(metrics::SNAPSHOT_ROWS).increment(1);
        Ok(())
    }
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
    }
}

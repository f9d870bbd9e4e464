//! Events as the tailer publishes them.

use mysql_store::{user_coupon::UserCoupon, verify::topic_rows::MovementRow};
use topic::{Event, Op, Source, StockMovementRow, UserCouponRow};

/// The event of one version of a coupon.
pub(crate) fn event(row: &UserCoupon, version: i64) -> Event<UserCouponRow> {
    let is_first = version < row.version;
    let after = UserCouponRow {
        id: row.id.0,
        template_id: row.template_id.0,
        user_id: row.user_id.0,
        claim_no: row.claim_no,
        claim_id: row.claim_id.0,
        merchant_id: row.merchant_id.0,
        status: if is_first { 0 } else { row.status.code() },
        version,
        expiry_shard: row.expiry_shard,
        claimed_at: row.claimed_at.timestamp_millis(),
        changed_at: if is_first { row.claimed_at } else { row.changed_at }.timestamp_millis(),
        valid_from: row.valid_from.timestamp_millis(),
        valid_until: row.valid_until.timestamp_millis(),
        used_at: row.used_at.filter(|_| !is_first).map(|at| at.timestamp_millis()),
        order_ref: row.order_ref.clone().filter(|_| !is_first),
        trace_parent: row.trace_parent.clone(),
        issued_no: row.issued_no,
    };
    let op = if version == 1 { Op::Create } else { Op::Update };
    Event { before: None, after: Some(after), op, source: Source::default(), ts_ms: 0 }
}

pub(crate) fn movement_event(row: &MovementRow) -> Event<StockMovementRow> {
    // No movement of these tests has a request.
    let after = StockMovementRow {
        template_id: row.template_id.0,
        seq: row.seq,
        delta: row.delta,
        reason: row.reason.clone(),
        actor: row.actor.clone(),
        created_at: row.created_at.timestamp_millis(),
        request_id: None,
        total_after: row.total_after,
        stock_after: row.stock_after,
        kind: row.kind.code(),
        delta_stock: row.delta_stock,
        returned: row.returned.clone(),
    };
    Event { before: None, after: Some(after), op: Op::Create, source: Source::default(), ts_ms: 0 }
}

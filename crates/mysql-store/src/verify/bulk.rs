//! Rows in bulk, for benches and for tests of many rows.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimState, CouponStatus, PayloadHash, TemplateId, UserId, expiry_shard};
use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::{StoreError, datetime::datetime};

/// Rows of one bulk insert: all numbers of four digits.
pub const BULK_ROWS: i64 = 10_000;

/// Inserts [`BULK_ROWS`] coupons in one transaction, with ids from `first_id` on and a user for each, as changes for
/// the tailer to follow. They belong to no template and no claim.
pub async fn insert_bulk(
    connection: &mut MySqlConnection,
    first_id: i64,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    insert_bulk_of(connection, TemplateId(0), first_id, now).await
}

/// Like [`insert_bulk`], with coupons that belong to a template, and to no claim.
pub async fn insert_bulk_of(
    connection: &mut MySqlConnection,
    template: TemplateId,
    first_id: i64,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let valid_until = now + TimeDelta::days(1);
    insert(connection, template, first_id, CouponStatus::Unused, now, valid_until).await
}

/// Like [`insert_bulk_of`], with coupons that are held from a minute before `held_until` on, each of a claim of its
/// own, and taken from the stock. For a draft of the platform's own merchant, whose gate is not loaded.
pub async fn hold_bulk(
    connection: &mut MySqlConnection,
    template: TemplateId,
    first_id: i64,
    held_until: DateTime<Utc>,
) -> Result<(), StoreError> {
    let held_from = held_until - TimeDelta::minutes(1);
    insert(connection, template, first_id, CouponStatus::Held, held_from, held_until).await?;
    sqlx::query(
        "insert into claim (template_id, user_id, request_id, id, quantity, state, payload_hash, \
         valid_from, valid_until, created_at, held_until) \
         select template_id, user_id, concat('bulk-', id), claim_id, 1, ?, ?, valid_from, \
         valid_until + interval 1 day, claimed_at, valid_until from user_coupon \
         where id between ? and ?",
    )
    .bind(ClaimState::Landed.code())
    .bind(&PayloadHash::of_quantity(1).0[..])
    .bind(first_id)
    .bind(first_id + BULK_ROWS - 1)
    .execute(&mut *connection)
    .await
    .map_err(StoreError::query("insert claims in bulk"))?;
    sqlx::query("update template_stock set stock = stock - ? where template_id = ?")
        .bind(BULK_ROWS)
        .bind(template.0)
        .execute(connection)
        .await
        .map_err(StoreError::query("take the stock of a bulk"))?;
    Ok(())
}

async fn insert(
    connection: &mut MySqlConnection,
    template: TemplateId,
    first_id: i64,
    status: CouponStatus,
    claimed_at: DateTime<Utc>,
    valid_until: DateTime<Utc>,
) -> Result<(), StoreError> {
    // One byte per row, because MySQL lacks this hash.
    let users = (first_id..first_id + BULK_ROWS).map(UserId);
    let shards: Vec<u8> = users.map(expiry_shard).collect();
    let digits = "(select 0 as digit union all select 1 union all select 2 union all select 3 \
                  union all select 4 union all select 5 union all select 6 union all select 7 \
                  union all select 8 union all select 9)";
    let sql = format!(
        "insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, \
         status, version, expiry_shard, claimed_at, changed_at, valid_from, valid_until) \
         select ? + number, ?, ? + number, 1, ? + number, 1, ?, 1, \
         ord(substring(?, number + 1, 1)), ?, ?, ?, ? \
         from (select a.digit * 1000 + b.digit * 100 + c.digit * 10 + d.digit as number \
         from {digits} a, {digits} b, {digits} c, {digits} d) numbers"
    );
    sqlx::query(AssertSqlSafe(sql))
        .bind(first_id)
        .bind(template.0)
        .bind(first_id)
        .bind(first_id)
        .bind(status.code())
        .bind(shards)
        .bind(datetime(claimed_at))
        .bind(datetime(claimed_at))
        .bind(datetime(claimed_at))
        .bind(datetime(valid_until))
        .execute(connection)
        .await
        .map_err(StoreError::query("insert coupons in bulk"))?;
    Ok(())
}

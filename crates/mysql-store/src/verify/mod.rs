//! SQL that only the verifier, tests, demo and benches need, behind the feature `verify`. No process of the platform is
//! built with it.
//!
//! A function that finds offenders returns at most [`EXAMPLES`]: one is enough to fail, a few are enough to understand.

mod claim_ends;
mod desk;
mod ends;
mod fields;
mod reader;
mod redemptions;
mod rejections;
pub mod topic_rows;
mod walk;

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{
    ClaimId, ClaimState, CouponId, CouponStatus, Epoch, RequestId, TemplateId, UserId, expiry_shard,
};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection, Row, mysql::MySqlRow};

pub use self::{
    claim_ends::{ClaimEnd, ends_of},
    desk::{odd_replacements, unrecorded_cancellations},
    ends::{bad_ends, bad_validities, unrecorded_returns},
    fields::{OddCoupon, Payload, Terms, misplaced_claims, odd_coupons, payloads, terms},
    reader::{Reader, STATEMENT_MAX, counted, number, rows_read},
    redemptions::{count_redemptions, odd_rollbacks, odd_sums, unredeemed, unused},
    rejections::{count_rejections, odd_queues, odd_rejections, rejected_with_coupons},
    walk::{ClaimKey, claims_by_id, coupon_counts_of_users, coupons_of_users, numbers_of_users},
};
use crate::{StoreError, datetime::datetime};

/// Largest number of offenders that a query returns.
pub const EXAMPLES: u32 = 10;

/// Rows of one bulk insert: all numbers of four digits.
pub const BULK_ROWS: i64 = 10_000;

/// A template's account, read by one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    pub template: TemplateId,
    /// The stock row's total.
    pub total: i64,
    /// The stock row's stock.
    pub stock: i64,
    /// The stock row's epoch.
    pub epoch: Epoch,
    /// Sum of the movements.
    pub moved: i64,
    /// Sum of the quantities of landed claims.
    pub landed: i64,
    /// Number of coupons, without replacements: a replacement takes no stock, because the unit of the coupon that it
    /// replaces is gone.
    pub coupons: i64,
    /// Limit per user; 0 if there is none.
    pub limit: u32,
}

/// Returns every template's account, from one statement, which sees all tables at one moment.
///
/// # Errors
/// The statement fails.
pub async fn balances(connection: &mut MySqlConnection) -> Result<Vec<Balance>, StoreError> {
    let rows = sqlx::query(
        "select stock.template_id, stock.total, stock.stock, stock.epoch, template.per_user_limit, \
         (select cast(coalesce(sum(delta), 0) as signed) from stock_movement movement \
          where movement.template_id = stock.template_id) as moved, \
         (select cast(coalesce(sum(quantity), 0) as signed) from claim \
          where claim.template_id = stock.template_id and claim.state = ?) as landed, \
         (select count(*) from user_coupon coupon \
          where coupon.template_id = stock.template_id) - \
         (select count(*) from coupon_replacement replaced \
          where replaced.template_id = stock.template_id) as coupons \
         from template_stock stock \
         join coupon_template template on template.id = stock.template_id \
         order by stock.template_id",
    )
    .bind(ClaimState::Landed.code())
    .fetch_all(connection)
    .await;
    read_all("read the balances", rows, |row| {
        Ok(Balance {
            template: TemplateId(row.try_get("template_id")?),
            total: row.try_get("total")?,
            stock: row.try_get("stock")?,
            epoch: Epoch(row.try_get("epoch")?),
            moved: row.try_get("moved")?,
            landed: row.try_get("landed")?,
            coupons: row.try_get("coupons")?,
            limit: row.try_get::<i32, _>("per_user_limit")?.unsigned_abs(),
        })
    })
}

/// A landed claim and the number of its coupons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct UnevenClaim {
    #[sqlx(try_from = "i64")]
    pub id: ClaimId,
    pub quantity: i64,
    /// Number of coupons with this claim id.
    pub coupons: i64,
}

/// Returns landed claims with more or fewer coupons than their quantity.
///
/// # Errors
/// The statement fails.
pub async fn uneven_claims(
    connection: &mut MySqlConnection,
) -> Result<Vec<UnevenClaim>, StoreError> {
    sqlx::query_as(
        // Grouped first, because no index begins with `claim_id`: a join by row would read all coupons of a user for
        // each of the user's claims. Coupons with the claim of another user are found by [`orphans`].
        "select claim.id, cast(claim.quantity as signed) as quantity, \
         cast(coalesce(made.coupons, 0) as signed) as coupons from claim left join \
         (select claim_id, count(*) as coupons from user_coupon \
          where id not in (select replacement_id from coupon_replacement) group by claim_id) made \
         on made.claim_id = claim.id \
         where claim.state = ? and coalesce(made.coupons, 0) <> claim.quantity limit ?",
    )
    .bind(ClaimState::Landed.code())
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("compare claims with coupons"))
}

/// Returns coupons without a landed claim of their user.
///
/// # Errors
/// The statement fails.
pub async fn orphans(connection: &mut MySqlConnection) -> Result<Vec<CouponId>, StoreError> {
    let ids: Vec<i64> = sqlx::query_scalar(
        "select coupon.id from user_coupon coupon \
         left join claim on claim.id = coupon.claim_id and claim.template_id = coupon.template_id \
         and claim.user_id = coupon.user_id and claim.state = ? \
         where claim.id is null limit ?",
    )
    .bind(ClaimState::Landed.code())
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("look for coupons without a claim"))?;
    Ok(ids.into_iter().map(CouponId).collect())
}

/// A user's coupons of a template with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct Holding {
    #[sqlx(rename = "template_id", try_from = "i64")]
    pub template: TemplateId,
    #[sqlx(rename = "user_id", try_from = "i64")]
    pub user: UserId,
    /// Number of coupons.
    pub coupons: i64,
    /// The smallest number among them.
    pub lowest: i64,
    /// The largest number among them.
    pub highest: i64,
    /// The template's limit.
    #[sqlx(rename = "per_user_limit")]
    pub limit: i64,
}

/// Returns users with more coupons than the limit, or with a number outside 1 to the limit. Replacements do not count:
/// each has the place of a cancelled coupon, which does.
///
/// # Errors
/// The statement fails.
pub async fn over_limit(connection: &mut MySqlConnection) -> Result<Vec<Holding>, StoreError> {
    sqlx::query_as(
        "select coupon.template_id, coupon.user_id, count(*) as coupons, \
         min(coupon.claim_no) as lowest, max(coupon.claim_no) as highest, \
         cast(template.per_user_limit as signed) as per_user_limit \
         from user_coupon coupon join coupon_template template on template.id = coupon.template_id \
         where template.per_user_limit > 0 \
         and coupon.id not in (select replacement_id from coupon_replacement) \
         group by coupon.template_id, coupon.user_id, template.per_user_limit \
         having count(*) > template.per_user_limit or min(coupon.claim_no) < 1 \
         or max(coupon.claim_no) > template.per_user_limit limit ?",
    )
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("look for users over the limit"))
}

/// A landed claim with the ids of its coupons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandedRow {
    pub id: ClaimId,
    pub user: UserId,
    /// The client's key.
    pub request_id: RequestId,
    pub quantity: u32,
    /// As issued, without replacements, in no particular order.
    pub coupons: Vec<CouponId>,
}

/// Returns every landed claim of a template.
///
/// # Errors
/// A statement fails.
pub async fn landed_claims(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Vec<LandedRow>, StoreError> {
    let pairs: Vec<(i64, i64)> = sqlx::query_as(
        "select claim_id, id from user_coupon where template_id = ? \
             and id not in (select replacement_id from coupon_replacement)",
    )
    .bind(template.0)
    .fetch_all(&mut *connection)
    .await
    .map_err(StoreError::query("read a template's coupons"))?;
    let mut coupons: HashMap<i64, Vec<CouponId>> = HashMap::new();
    for (claim, coupon) in pairs {
        coupons.entry(claim).or_default().push(CouponId(coupon));
    }
    let rows: Vec<(i64, i64, Vec<u8>, i32)> = sqlx::query_as(
        "select id, user_id, request_id, quantity from claim where template_id = ? and state = ?",
    )
    .bind(template.0)
    .bind(ClaimState::Landed.code())
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read a template's claims"))?;
    let landed = rows.into_iter().map(|(id, user, request_id, quantity)| LandedRow {
        id: ClaimId(id),
        user: UserId(user),
        request_id: RequestId::from_stored(&request_id),
        quantity: quantity.unsigned_abs(),
        coupons: coupons.remove(&id).unwrap_or_default(),
    });
    Ok(landed.collect())
}

/// Number of coupons by status, and of their changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromRow)]
pub struct CouponCounts {
    /// Due or not.
    pub unused: i64,
    pub used: i64,
    /// Flipped to expired.
    pub expired: i64,
    /// Revoked by the shop.
    pub cancelled: i64,
    /// Unused, with a deadline that has passed.
    pub due: i64,
    /// Sum of all versions: the number of changes so far.
    pub changes: i64,
}

impl CouponCounts {
    /// Number of all coupons.
    pub fn all(&self) -> i64 {
        self.unused + self.used + self.expired + self.cancelled
    }
}

/// Counts the coupons of one template, or of all.
///
/// # Errors
/// The statement fails.
pub async fn count_coupons(
    connection: &mut MySqlConnection,
    template: Option<TemplateId>,
    now: DateTime<Utc>,
) -> Result<CouponCounts, StoreError> {
    sqlx::query_as(
        "select cast(coalesce(sum(status = ?), 0) as signed) as unused, \
         cast(coalesce(sum(status = ?), 0) as signed) as used, \
         cast(coalesce(sum(status = ?), 0) as signed) as expired, \
         cast(coalesce(sum(status = ?), 0) as signed) as cancelled, \
         cast(coalesce(sum(status = ? and valid_until <= ?), 0) as signed) as due, \
         cast(coalesce(sum(version), 0) as signed) as changes \
         from user_coupon where ? is null or template_id = ?",
    )
    .bind(CouponStatus::Unused.code())
    .bind(CouponStatus::Used.code())
    .bind(CouponStatus::Expired.code())
    .bind(CouponStatus::Cancelled.code())
    .bind(CouponStatus::Unused.code())
    .bind(datetime(now))
    .bind(template.map(|id| id.0))
    .bind(template.map(|id| id.0))
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("count the coupons"))
}

/// Returns the time from deadline to flip of each expired coupon of a template, ascending.
///
/// # Errors
/// The statement fails.
pub async fn lateness(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Vec<TimeDelta>, StoreError> {
    let rows: Vec<(DateTime<Utc>, DateTime<Utc>)> = sqlx::query_as(
        "select changed_at, valid_until from user_coupon where template_id = ? and status = ?",
    )
    .bind(template.0)
    .bind(CouponStatus::Expired.code())
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read how late coupons expired"))?;
    let late = rows.into_iter().map(|(changed_at, valid_until)| changed_at - valid_until);
    let mut late: Vec<TimeDelta> = late.collect();
    late.sort_unstable();
    Ok(late)
}

/// Inserts [`BULK_ROWS`] coupons in one transaction, with ids from `first_id` on and a user for each, as changes for
/// the tailer to follow. They belong to no template and no claim.
///
/// # Errors
/// The statement fails.
pub async fn insert_bulk(
    connection: &mut MySqlConnection,
    first_id: i64,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    insert_bulk_of(connection, TemplateId(0), first_id, now).await
}

/// Like [`insert_bulk`], with coupons that belong to a template, and to no claim.
///
/// # Errors
/// The statement fails.
pub async fn insert_bulk_of(
    connection: &mut MySqlConnection,
    template: TemplateId,
    first_id: i64,
    now: DateTime<Utc>,
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
        .bind(CouponStatus::Unused.code())
        .bind(shards)
        .bind(datetime(now))
        .bind(datetime(now))
        .bind(datetime(now))
        .bind(datetime(now + TimeDelta::days(1)))
        .execute(connection)
        .await
        .map_err(StoreError::query("insert coupons in bulk"))?;
    Ok(())
}

/// Runs one statement as is and returns the number of changed rows. For tests that damage data and expect the verifier
/// to find it.
///
/// # Errors
/// The statement fails.
pub async fn execute(connection: &mut MySqlConnection, sql: &str) -> Result<u64, StoreError> {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(connection)
        .await
        .map(|done| done.rows_affected())
        .map_err(StoreError::query("run a test's statement"))
}

fn read_all<T>(
    operation: &'static str,
    rows: Result<Vec<MySqlRow>, sqlx::Error>,
    read: impl FnMut(&MySqlRow) -> Result<T, sqlx::Error>,
) -> Result<Vec<T>, StoreError> {
    rows.and_then(|rows| rows.iter().map(read).collect()).map_err(StoreError::query(operation))
}

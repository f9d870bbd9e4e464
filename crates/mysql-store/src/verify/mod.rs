//! SQL that only the verifier, tests, demo and benches need, behind the feature `verify`. No process of the platform is
//! built with it.
//!
//! A function that finds offenders returns at most [`EXAMPLES`]. A page of rows, or a list of them, names those that
//! cannot be read.

mod balances;
mod bulk;
mod desk;
mod ends;
mod fields;
mod holds;
mod impossible;
mod ledger;
mod orders;
mod page;
mod reader;
mod redemptions;
mod rejections;
mod schema_copy;
pub mod topic_rows;
mod walk;

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimId, ClaimState, CouponId, CouponStatus, RequestId, TemplateId, UserId};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection, QueryBuilder, mysql::MySqlRow};

pub use self::{
    balances::{Account, Balance, account, balances, epochs},
    bulk::{BULK_ROWS, hold_bulk, insert_bulk, insert_bulk_of},
    desk::{odd_replacements, unrecorded_cancellations},
    ends::{bad_ends, bad_validities, unrecorded_returns},
    fields::{OddCoupon, Terms, misplaced_claims, odd_coupons, terms},
    holds::{
        Unnumbered, odd_confirmed_validities, odd_held_claims, odd_holds, odd_numbers,
        odd_payments, odd_returns,
    },
    impossible::{ImpossibleRow, Table, impossible_rows},
    ledger::{
        LapseRow, ReturnedCoupon, gaps_in_movements, lapses_from, lapses_of_template_from,
        lapses_of_users, returned_coupons_from, sum_of_ledger,
    },
    orders::{LostUse, OddOrder, OddOrderWhy, lost_uses, odd_orders},
    page::{Page, Rows, UnreadableRow},
    reader::{Reader, STATEMENT_MAX, counted, number, rows_read, sessions},
    redemptions::{count_redemptions, odd_rollbacks, odd_sums, unredeemed, unused},
    rejections::{count_rejections, odd_queues, odd_rejections, rejected_with_coupons},
    schema_copy::copy_schema,
    walk::{
        ClaimEnd, ClaimKey, Span, claims_by_id, coupon_counts_of_users, coupons_of_users, ends_of,
        numbers_of_users,
    },
};
use crate::{StoreError, datetime::datetime};

/// Largest number of offenders that a query returns: as many as a report keeps. A sound platform has none, so the
/// statement reads all rows whatever the number.
pub const EXAMPLES: u32 = 1_000;

/// A landed claim and the number of its coupons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct UnevenClaim {
    #[sqlx(try_from = "i64")]
    pub id: ClaimId,
    #[sqlx(rename = "template_id", try_from = "i64")]
    pub template: TemplateId,
    pub quantity: i64,
    /// Number of coupons with this claim id.
    pub coupons: i64,
}

/// Returns landed claims with more or fewer coupons than their quantity.
pub async fn uneven_claims(
    connection: &mut MySqlConnection,
) -> Result<Vec<UnevenClaim>, StoreError> {
    uneven_claims_in(connection, &Span::ALL).await
}

/// Returns those of a span.
pub async fn uneven_claims_in(
    connection: &mut MySqlConnection,
    span: &Span,
) -> Result<Vec<UnevenClaim>, StoreError> {
    // Grouped first, because no index begins with `claim_id`: a join by row would read all coupons of a user for
    // each of the user's claims. Coupons with the claim of another user are found by [`orphans`].
    let mut query = QueryBuilder::new(
        "select claim.id, claim.template_id, cast(claim.quantity as signed) as quantity, \
         cast(coalesce(made.coupons, 0) as signed) as coupons from claim left join \
         (select claim_id, count(*) as coupons from user_coupon coupon \
          where id not in (select replacement_id from coupon_replacement)",
    );
    span.narrow(&mut query, "coupon");
    query.push(" group by claim_id) made on made.claim_id = claim.id where claim.state = ");
    query.push_bind(ClaimState::Landed.code());
    query.push(" and coalesce(made.coupons, 0) <> claim.quantity");
    span.narrow(&mut query, "claim");
    query.push(" limit ").push_bind(EXAMPLES);
    let rows = query.build_query_as().fetch_all(connection).await;
    rows.map_err(StoreError::query("compare claims with coupons"))
}

/// A coupon without a landed claim of its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct Orphan {
    #[sqlx(try_from = "i64")]
    pub id: CouponId,
    #[sqlx(rename = "template_id", try_from = "i64")]
    pub template: TemplateId,
    #[sqlx(rename = "user_id", try_from = "i64")]
    pub user: UserId,
}

/// Returns coupons without a landed claim of their user.
pub async fn orphans(connection: &mut MySqlConnection) -> Result<Vec<Orphan>, StoreError> {
    orphans_in(connection, &Span::ALL).await
}

/// Returns those of a span.
pub async fn orphans_in(
    connection: &mut MySqlConnection,
    span: &Span,
) -> Result<Vec<Orphan>, StoreError> {
    let mut query = QueryBuilder::new(
        "select coupon.id, coupon.template_id, coupon.user_id from user_coupon coupon \
         left join claim on claim.id = coupon.claim_id and claim.template_id = coupon.template_id \
         and claim.user_id = coupon.user_id and claim.state = ",
    );
    query.push_bind(ClaimState::Landed.code()).push(" where claim.id is null");
    span.narrow(&mut query, "coupon");
    query.push(" limit ").push_bind(EXAMPLES);
    let rows = query.build_query_as().fetch_all(connection).await;
    rows.map_err(StoreError::query("look for coupons without a claim"))
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

/// Returns users with more coupons than the limit, or with a number outside 1 to the limit. Returned coupons do not
/// count, nor do replacements: each is in the place of a cancelled coupon, which counts. Both have their own ids as
/// numbers; [`odd_numbers`] finds others that do.
pub async fn over_limit(
    connection: &mut MySqlConnection,
    span: &Span,
) -> Result<Vec<Holding>, StoreError> {
    let mut query = QueryBuilder::new(
        "select coupon.template_id, coupon.user_id, count(*) as coupons, \
         min(coupon.claim_no) as lowest, max(coupon.claim_no) as highest, \
         cast(template.per_user_limit as signed) as per_user_limit \
         from user_coupon coupon join coupon_template template on template.id = coupon.template_id \
         where template.per_user_limit > 0 and coupon.claim_no <> coupon.id",
    );
    span.narrow(&mut query, "coupon");
    query.push(
        " group by coupon.template_id, coupon.user_id, template.per_user_limit \
         having count(*) > template.per_user_limit or min(coupon.claim_no) < 1 \
         or max(coupon.claim_no) > template.per_user_limit limit ",
    );
    query.push_bind(EXAMPLES);
    let rows = query.build_query_as().fetch_all(connection).await;
    rows.map_err(StoreError::query("look for users over the limit"))
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
    /// Revoked or cancelled.
    pub cancelled: i64,
    /// Due or not.
    pub held: i64,
    /// Recorded as lapsed.
    pub lapsed: i64,
    /// Unused or held, with a deadline that has passed.
    pub due: i64,
    /// Sum of all versions: the number of changes so far.
    pub changes: i64,
}

impl CouponCounts {
    /// Number of all coupons.
    pub fn all(&self) -> i64 {
        self.unused + self.used + self.expired + self.cancelled + self.held + self.lapsed
    }
}

/// Counts the coupons of one template, or of all.
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
         cast(coalesce(sum(status = ?), 0) as signed) as held, \
         cast(coalesce(sum(status = ?), 0) as signed) as lapsed, \
         cast(coalesce(sum(status in (?, ?) and valid_until <= ?), 0) as signed) as due, \
         cast(coalesce(sum(version), 0) as signed) as changes \
         from user_coupon where ? is null or template_id = ?",
    )
    .bind(CouponStatus::Unused.code())
    .bind(CouponStatus::Used.code())
    .bind(CouponStatus::Expired.code())
    .bind(CouponStatus::Cancelled.code())
    .bind(CouponStatus::Held.code())
    .bind(CouponStatus::Lapsed.code())
    .bind(CouponStatus::Unused.code())
    .bind(CouponStatus::Held.code())
    .bind(datetime(now))
    .bind(template.map(|id| id.0))
    .bind(template.map(|id| id.0))
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("count the coupons"))
}

/// Returns how long after its deadline each coupon of a template expired or lapsed, ascending.
pub async fn lateness(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Vec<TimeDelta>, StoreError> {
    let rows: Vec<(DateTime<Utc>, DateTime<Utc>)> = sqlx::query_as(
        "select changed_at, valid_until from user_coupon where template_id = ? and status in (?, ?)",
    )
    .bind(template.0)
    .bind(CouponStatus::Expired.code())
    .bind(CouponStatus::Lapsed.code())
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read how late coupons ended"))?;
    let late = rows.into_iter().map(|(changed_at, valid_until)| changed_at - valid_until);
    let mut late: Vec<TimeDelta> = late.collect();
    late.sort_unstable();
    Ok(late)
}

/// Runs one statement as is and returns the number of changed rows. For tests that damage data and expect the verifier
/// to find it.
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

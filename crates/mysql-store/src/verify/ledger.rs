//! Reads what the ledger of the stock must agree with: returned coupons, and lapses.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, TemplateId, UserId};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection, QueryBuilder, Row, mysql::MySqlRow};

use super::{
    EXAMPLES,
    page::{Page, Reading, after_id, after_pair, id},
    read_all,
    topic_rows::coupon_name,
};
use crate::{StoreError, code::Code};

/// A returned coupon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct ReturnedCoupon {
    #[sqlx(try_from = "i64")]
    pub id: CouponId,
    #[sqlx(rename = "template_id", try_from = "i64")]
    pub template: TemplateId,
    #[sqlx(rename = "user_id", try_from = "i64")]
    pub user: UserId,
    pub issued_no: i64,
    #[sqlx(try_from = "Code")]
    pub status: CouponStatus,
    /// When it was returned.
    pub changed_at: DateTime<Utc>,
}

/// How often a user let holds of a template lapse, and the movement up to which this counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow)]
pub struct LapseRow {
    #[sqlx(rename = "template_id", try_from = "i64")]
    pub template: TemplateId,
    #[sqlx(rename = "user_id", try_from = "i64")]
    pub user: UserId,
    pub count: i64,
    pub seq: i64,
}

/// Returns returned coupons with ids of `from` or above, at most `limit`, by id. Those that cannot be read are among
/// [`super::topic_rows::coupons_from`] too.
pub async fn returned_coupons_from(
    connection: &mut MySqlConnection,
    from: i64,
    limit: u32,
) -> Result<Page<ReturnedCoupon, i64>, StoreError> {
    let rows = sqlx::query(
        "select id, template_id, user_id, issued_no, status, changed_at from user_coupon \
         where id >= ? and issued_no is not null order by id limit ?",
    )
    .bind(from)
    .bind(limit)
    .fetch_all(connection)
    .await;
    let coupons = Reading { read: |row| ReturnedCoupon::from_row(row), key: id, name: coupon_name };
    coupons.page("read a chunk of the coupons that came back", rows, after_id)
}

/// Returns users' lapses from (`template`, `user`) on, at most `limit`, by primary key.
pub async fn lapses_from(
    connection: &mut MySqlConnection,
    template: i64,
    user: i64,
    limit: u32,
) -> Result<Page<LapseRow, (i64, i64)>, StoreError> {
    let rows = sqlx::query(
        "select template_id, user_id, cast(count as signed) as count, seq from user_lapse \
         where template_id >= ? and (template_id > ? or user_id >= ?) \
         order by template_id, user_id limit ?",
    )
    .bind(template)
    .bind(template)
    .bind(user)
    .bind(limit)
    .fetch_all(connection)
    .await;
    let lapses = Reading {
        read: |row| LapseRow::from_row(row),
        key: |row: &MySqlRow| Ok((row.try_get("template_id")?, row.try_get("user_id")?)),
        name: |(template, user): &(i64, i64)| format!("template {template}: lapses of user {user}"),
    };
    lapses.page("read a chunk of the lapses", rows, after_pair)
}

/// Rows of one page of a template's lapses.
const LAPSES_PER_PAGE: u32 = 10_000;

/// Returns the lapses of a template's users from `user` on, ordered; empty at the end.
pub async fn lapses_of_template_from(
    connection: &mut MySqlConnection,
    template: TemplateId,
    user: i64,
) -> Result<Vec<LapseRow>, StoreError> {
    sqlx::query_as(
        "select template_id, user_id, cast(count as signed) as count, seq from user_lapse \
         where template_id = ? and user_id >= ? order by user_id limit ?",
    )
    .bind(template.0)
    .bind(user)
    .bind(LAPSES_PER_PAGE)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read a template's lapses"))
}

/// Returns how often each of these users let holds of a template lapse; none for a user who never did.
pub async fn lapses_of_users(
    connection: &mut MySqlConnection,
    template: TemplateId,
    users: &[UserId],
) -> Result<HashMap<UserId, i64>, StoreError> {
    if users.is_empty() {
        return Ok(HashMap::new());
    }
    let mut query = QueryBuilder::new(
        "select user_id, cast(count as signed) from user_lapse where template_id = ",
    );
    query.push_bind(template.0).push(" and user_id in (");
    let mut ids = query.separated(", ");
    for user in users {
        ids.push_bind(user.0);
    }
    query.push(")");
    let rows: Result<Vec<(i64, i64)>, _> = query.build_query_as().fetch_all(connection).await;
    let rows = rows.map_err(StoreError::query("read users' lapses"))?;
    Ok(rows.into_iter().map(|(user, count)| (UserId(user), count)).collect())
}

/// Returns templates whose movements are not numbered 1, 2, 3 and so on.
pub async fn gaps_in_movements(
    connection: &mut MySqlConnection,
) -> Result<Vec<TemplateId>, StoreError> {
    let rows = sqlx::query(
        "select template_id from stock_movement group by template_id \
         having min(seq) <> 1 or max(seq) <> count(*) limit ?",
    )
    .bind(EXAMPLES)
    .fetch_all(connection)
    .await;
    read_all("look for gaps in movements", rows, |row| Ok(TemplateId(row.try_get(0)?)))
}

/// Returns the sum of a template's ledger, as the view `stock_ledger` shows it.
pub async fn sum_of_ledger(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<i64, StoreError> {
    // The id is in the text, not a parameter: only so does MariaDB read the view by template.
    let sql = format!(
        "select cast(coalesce(sum(quantity), 0) as signed) from stock_ledger where template_id = {}",
        template.0
    );
    sqlx::query_scalar(AssertSqlSafe(sql))
        .persistent(false)
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("add up a ledger"))
}

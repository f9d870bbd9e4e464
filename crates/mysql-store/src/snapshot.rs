//! Chunked reads of the followed tables by primary key, for the tailer's snapshot.

use chrono::{DateTime, Utc};
use coupon::{Template, TemplateId};
use sqlx::{MySqlConnection, Row};

use crate::{
    StoreError, template,
    user_coupon::{self, UserCoupon},
};

/// A movement's row, with its template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovementRow {
    /// Of which template.
    pub template_id: TemplateId,
    /// 1 for the first of a template.
    pub seq: i64,
    /// By how much the total changed.
    pub delta: i64,
    /// Why.
    pub reason: String,
    /// Who.
    pub actor: String,
    /// When.
    pub created_at: DateTime<Utc>,
    /// The key under which it was asked for; absent: the template's creation.
    pub request_id: Option<Vec<u8>>,
    /// What the first answer said of the total.
    pub total_after: Option<i64>,
    /// And of what was left.
    pub stock_after: Option<i64>,
}

/// A template's row, with the times that [`Template`] leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateRow {
    /// The template.
    pub template: Template,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When it last changed.
    pub changed_at: DateTime<Utc>,
}

/// About how many rows a table of this connection's database holds, by the server's estimate.
///
/// # Errors
/// The statement fails.
pub async fn estimated_rows(
    connection: &mut MySqlConnection,
    table: &str,
) -> Result<u64, StoreError> {
    let rows: Option<u64> = sqlx::query_scalar(
        "select cast(table_rows as unsigned) from information_schema.tables \
         where table_schema = database() and table_name = ?",
    )
    .bind(table)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("estimate a table's rows"))?
    .flatten();
    Ok(rows.unwrap_or(0))
}

/// Coupons with ids above `after`, at most `limit`, by id.
///
/// # Errors
/// The statement fails.
pub async fn user_coupon_after(
    connection: &mut MySqlConnection,
    after: i64,
    limit: u32,
) -> Result<Vec<UserCoupon>, StoreError> {
    let rows = sqlx::query("select * from user_coupon where id > ? order by id limit ?")
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read a chunk of coupons"))?;
    rows.iter().map(user_coupon::from_row).collect()
}

/// The version of a coupon; `None`: there is none.
///
/// # Errors
/// The statement fails.
pub async fn user_coupon_version(
    connection: &mut MySqlConnection,
    id: i64,
) -> Result<Option<i64>, StoreError> {
    sqlx::query_scalar("select version from user_coupon where id = ?")
        .bind(id)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read a coupon's version"))
}

/// Templates with ids above `after`, at most `limit`, by id.
///
/// # Errors
/// The statement fails.
pub async fn template_after(
    connection: &mut MySqlConnection,
    after: i64,
    limit: u32,
) -> Result<Vec<TemplateRow>, StoreError> {
    let rows = sqlx::query("select * from coupon_template where id > ? order by id limit ?")
        .bind(after)
        .bind(limit)
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read a chunk of templates"))?;
    rows.iter()
        .map(|row| {
            let time = |column| row.try_get(column).map_err(StoreError::query("read a template"));
            Ok(TemplateRow {
                template: template::from_row(row)?,
                created_at: time("created_at")?,
                changed_at: time("changed_at")?,
            })
        })
        .collect()
}

/// Movements after (`template`, `seq`), at most `limit`, by primary key.
///
/// # Errors
/// The statement fails.
pub async fn movement_after(
    connection: &mut MySqlConnection,
    template: i64,
    seq: i64,
    limit: u32,
) -> Result<Vec<MovementRow>, StoreError> {
    let rows = sqlx::query(
        "select * from stock_movement where template_id > ? or (template_id = ? and seq > ?) \
         order by template_id, seq limit ?",
    )
    .bind(template)
    .bind(template)
    .bind(seq)
    .bind(limit)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read a chunk of movements"))?;
    rows.iter()
        .map(|row| {
            Ok(MovementRow {
                template_id: TemplateId(row.try_get("template_id")?),
                seq: row.try_get("seq")?,
                delta: row.try_get("delta")?,
                reason: row.try_get("reason")?,
                actor: row.try_get("actor")?,
                created_at: row.try_get("created_at")?,
                request_id: row.try_get("request_id")?,
                total_after: row.try_get("total_after")?,
                stock_after: row.try_get("stock_after")?,
            })
        })
        .collect::<Result<_, sqlx::Error>>()
        .map_err(StoreError::query("read a chunk of movements"))
}

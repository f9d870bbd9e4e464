//! `audit_entry`: operators' actions. The row is written in the transaction of the action itself, so it exists exactly
//! if the action took effect. The row of an action outside MySQL is written before the action.

use chrono::{DateTime, Utc};
use coupon::{ApiKeyId, AuditId, MerchantId};
use sqlx::{MySqlConnection, Row, mysql::MySqlRow};

use crate::{StoreError, datetime::datetime};

/// One action of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Rises with time.
    pub id: AuditId,
    /// Owner of the changed object.
    pub merchant_id: MerchantId,
    /// The key used; `None` for the platform's own.
    pub key_id: Option<ApiKeyId>,
    /// Name of the action, e.g. `template.publish`.
    pub action: String,
    /// The changed object: the path below `/v1`.
    pub target: String,
    /// State before, as JSON; `None` if there was none.
    pub before: Option<String>,
    /// State after, as JSON; `None` if there is none, or if the end of an action outside MySQL was not recorded.
    pub after: Option<String>,
    /// Trace of the request, 32 hexadecimal digits, if it had one.
    pub trace_id: Option<String>,
    /// Time by the api's clock.
    pub at: DateTime<Utc>,
}

/// Records an action. Call it in the transaction of the action.
///
/// # Errors
/// The statement fails.
pub async fn record(transaction: &mut MySqlConnection, entry: &Entry) -> Result<(), StoreError> {
    sqlx::query(
        "insert into audit_entry (id, merchant_id, key_id, action, target, before_json, \
         after_json, trace_id, created_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(entry.id.0)
    .bind(entry.merchant_id.0)
    .bind(entry.key_id.map(|id| id.0))
    .bind(&entry.action)
    .bind(&entry.target)
    .bind(&entry.before)
    .bind(&entry.after)
    .bind(&entry.trace_id)
    .bind(datetime(entry.at))
    .execute(transaction)
    .await
    .map_err(StoreError::query("record an operator's action"))?;
    Ok(())
}

/// Records the end of an action outside MySQL, whose entry was written before it began.
///
/// # Errors
/// The statement fails.
pub async fn complete(
    connection: &mut MySqlConnection,
    id: AuditId,
    after: &str,
) -> Result<(), StoreError> {
    sqlx::query("update audit_entry set after_json = ? where id = ? and after_json is null")
        .bind(after)
        .bind(id.0)
        .execute(connection)
        .await
        .map_err(StoreError::query("record the end of an operator's action"))?;
    Ok(())
}

/// Returns one entry of any merchant.
///
/// # Errors
/// The statement fails.
pub async fn get(
    connection: &mut MySqlConnection,
    id: AuditId,
) -> Result<Option<Entry>, StoreError> {
    let row = sqlx::query("select * from audit_entry where id = ?")
        .bind(id.0)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read what an operator did"))?;
    row.map(|row| from_row(&row)).transpose()
}

/// Returns a merchant's entries with ids below `before`, the newest first, optionally for one target.
///
/// # Errors
/// The statement fails.
pub async fn page(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    target: Option<&str>,
    before: Option<AuditId>,
    limit: u32,
) -> Result<Vec<Entry>, StoreError> {
    let before = before.map_or(i64::MAX, |id| id.0);
    let query = match target {
        Some(target) => sqlx::query(
            "select * from audit_entry where merchant_id = ? and target = ? and id < ? \
             order by id desc limit ?",
        )
        .bind(merchant.0)
        .bind(target.to_owned()),
        None => sqlx::query(
            "select * from audit_entry where merchant_id = ? and id < ? order by id desc limit ?",
        )
        .bind(merchant.0),
    };
    let rows = query
        .bind(before)
        .bind(limit)
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read what operators did"))?;
    rows.iter().map(from_row).collect()
}

fn from_row(row: &MySqlRow) -> Result<Entry, StoreError> {
    let read = || -> Result<_, sqlx::Error> {
        Ok(Entry {
            id: AuditId(row.try_get("id")?),
            merchant_id: MerchantId(row.try_get("merchant_id")?),
            key_id: row.try_get::<Option<i64>, _>("key_id")?.map(ApiKeyId),
            action: row.try_get("action")?,
            target: row.try_get("target")?,
            before: row.try_get("before_json")?,
            after: row.try_get("after_json")?,
            trace_id: row.try_get("trace_id")?,
            at: row.try_get("created_at")?,
        })
    };
    read().map_err(StoreError::query("read a row of the record"))
}

//! `audit_entry`: what operators did. A row is written in the transaction of the action itself, so it is
//! there exactly if the action stands; that of an action outside MySQL is written before it.

use chrono::{DateTime, Utc};
use coupon::{ApiKeyId, AuditId, MerchantId};
use sqlx::{MySqlConnection, Row, mysql::MySqlRow};

use crate::{StoreError, datetime::datetime};

/// One action of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id; rises with time.
    pub id: AuditId,
    /// Whose thing was changed.
    pub merchant_id: MerchantId,
    /// By which key; absent: the platform's own.
    pub key_id: Option<ApiKeyId>,
    /// What was done, e.g. `template.publish`.
    pub action: String,
    /// To what: the path below `/v1`.
    pub target: String,
    /// What there was before, as JSON; absent: nothing.
    pub before: Option<String>,
    /// What there is after, as JSON; absent: nothing, or an action outside MySQL was not seen to its end.
    pub after: Option<String>,
    /// The trace of the request, 32 hexadecimal digits, if it had one.
    pub trace_id: Option<String>,
    /// When, by the api's clock.
    pub at: DateTime<Utc>,
}

/// Records an action; to be called in the transaction of the action.
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

/// An action outside MySQL, recorded before it began, has come to its end.
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

/// One entry, whoever's it is.
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

/// The entries of a merchant with ids below `before`, the newest first; of one target, if it is named.
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

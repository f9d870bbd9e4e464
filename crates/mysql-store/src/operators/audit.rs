//! `audit_entry`: operators' actions. The row is written in the transaction of the action itself, so it exists exactly
//! if the action took effect. The row of an action outside MySQL is written before the action.

use std::ops::Range;

use chrono::{DateTime, Utc};
use coupon::{ApiKeyId, AuditId, MerchantId};
use sqlx::{AssertSqlSafe, MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    StoreError,
    datetime::datetime,
    listed::{Listed, listed},
    rows,
};

/// Later than any action: the last second that a `datetime` can hold.
const END_OF_TIME: DateTime<Utc> = match DateTime::from_timestamp(253_402_300_799, 0) {
    Some(end) => end,
    None => DateTime::<Utc>::MAX_UTC,
};

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

/// An action, with the name of the key that did it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub entry: Entry,
    /// `None`: the platform's own key.
    pub key_name: Option<String>,
}

/// Filter by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Of any key.
    Anyone,
    /// Of the platform's own key.
    Platform,
    /// Of this key.
    Key(ApiKeyId),
}

/// Which entries a page shows.
#[derive(Debug, Clone)]
pub struct Filter<'a> {
    pub merchant: MerchantId,
    /// Only entries with these ids. Ids rise with time, so times bound them.
    pub ids: Range<AuditId>,
    /// Only actions on this object.
    pub target: Option<&'a str>,
    pub by: By,
    /// Only actions at this time or later.
    pub from: Option<DateTime<Utc>>,
    /// Only actions before this time.
    pub to: Option<DateTime<Utc>>,
}

impl Filter<'static> {
    /// All entries of a merchant.
    pub fn of(merchant: MerchantId) -> Self {
        let ids = AuditId(0)..AuditId(i64::MAX);
        Self { merchant, ids, target: None, by: By::Anyone, from: None, to: None }
    }
}

/// Records an action. Call it in the transaction of the action.
pub async fn record(transaction: &mut MySqlConnection, entry: &Entry) -> Result<(), StoreError> {
    record_all(transaction, std::slice::from_ref(entry)).await
}

/// Records several actions. Call it in the transaction of the actions.
pub async fn record_all(
    transaction: &mut MySqlConnection,
    entries: &[Entry],
) -> Result<(), StoreError> {
    for run in rows::runs(entries) {
        let sql = rows::repeat(
            "insert into audit_entry (id, merchant_id, key_id, action, target, before_json, \
             after_json, trace_id, created_at) values ",
            "(?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ", ",
            run.len(),
            "",
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for entry in run {
            query = query
                .bind(entry.id.0)
                .bind(entry.merchant_id.0)
                .bind(entry.key_id.map(|id| id.0))
                .bind(&entry.action)
                .bind(&entry.target)
                .bind(&entry.before)
                .bind(&entry.after)
                .bind(&entry.trace_id)
                .bind(datetime(entry.at));
        }
        let done = query.execute(&mut *transaction).await;
        done.map_err(StoreError::query("record operators' actions"))?;
    }
    Ok(())
}

/// Records the end of an action outside MySQL, whose entry was written before it began.
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
pub async fn get(
    connection: &mut MySqlConnection,
    id: AuditId,
) -> Result<Option<Entry>, StoreError> {
    let row = sqlx::query("select * from audit_entry where id = ?")
        .bind(id.0)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read what an operator did"))?;
    let entry = row.map(|row| from_row(&row)).transpose();
    entry.map_err(StoreError::query("read a row of the record"))
}

/// Most index entries that one page reads: few enough for one statement, even if the filter passes none.
pub const SCANNED_MAX: u32 = 10_000;

/// A part of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries that pass the filter, the newest first. Those that cannot be read are named.
    pub lines: Vec<Listed<Named, AuditId>>,
    /// The id down to which every entry was looked at, if there may be more behind it.
    pub down_to: Option<AuditId>,
}

impl Filter<'_> {
    /// Returns the index to read, and its condition behind the merchant's.
    fn index(&self) -> (&'static str, &'static str) {
        match self.target {
            Some(_) => ("ix_target", "and entry.target = ? "),
            None => ("ix_merchant", ""),
        }
    }
}

/// Returns a merchant's entries with ids below `before`, the newest first, that pass the filter: at most `limit`, among
/// the next [`SCANNED_MAX`].
pub async fn page(
    connection: &mut MySqlConnection,
    filter: &Filter<'_>,
    before: Option<AuditId>,
    limit: u32,
) -> Result<Page, StoreError> {
    let below = before.map_or(i64::MAX, |id| id.0).min(filter.ids.end.0);
    let (index, of_target) = filter.index();
    // Only the index is read.
    let head = format!(
        "select count(*), min(id) from (select id from audit_entry entry force index ({index}) \
         where merchant_id = ? {of_target}and id < ? and id >= ? order by id desc limit ?) passed"
    );
    let passed = sqlx::query_as(AssertSqlSafe(head)).bind(filter.merchant.0);
    let passed =
        filter.target.iter().fold(passed, |query, target| query.bind((*target).to_owned()));
    let passed: (i64, Option<i64>) = passed
        .bind(below)
        .bind(filter.ids.start.0)
        .bind(SCANNED_MAX)
        .fetch_one(&mut *connection)
        .await
        .map_err(StoreError::query("bound a part of the record"))?;
    let (scanned, Some(lowest)) = passed else {
        return Ok(Page { lines: Vec::new(), down_to: None });
    };
    let lines = lines(connection, filter, lowest, below, limit).await?;
    let is_cut = lines.len() >= limit as usize;
    let down_to = match lines.last() {
        Some(line) if is_cut => Some(line.position(|line| line.entry.id)),
        _ => (scanned >= i64::from(SCANNED_MAX)).then_some(AuditId(lowest)),
    };
    Ok(Page { lines, down_to })
}

async fn lines(
    connection: &mut MySqlConnection,
    filter: &Filter<'_>,
    lowest: i64,
    below: i64,
    limit: u32,
) -> Result<Vec<Listed<Named, AuditId>>, StoreError> {
    let (is_any, key) = match filter.by {
        By::Anyone => (true, None),
        By::Platform => (false, None),
        By::Key(id) => (false, Some(id.0)),
    };
    let (index, of_target) = filter.index();
    let sql = format!(
        "select entry.*, api_key.name as key_name from audit_entry entry force index ({index}) \
         left join api_key on api_key.id = entry.key_id \
         where entry.merchant_id = ? {of_target}and entry.id < ? and entry.id >= ? \
         and (? or entry.key_id <=> ?) and (? or entry.created_at >= ?) and entry.created_at < ? \
         order by entry.id desc limit ?"
    );
    let query = sqlx::query(AssertSqlSafe(sql)).bind(filter.merchant.0);
    let query = filter.target.iter().fold(query, |query, target| query.bind((*target).to_owned()));
    query
        .bind(below)
        .bind(lowest)
        .bind(is_any)
        .bind(key)
        // A damaged time is before every other one, and its line must not be hidden.
        .bind(filter.from.is_none())
        .bind(datetime(time(filter.from.unwrap_or(DateTime::UNIX_EPOCH))))
        .bind(datetime(time(filter.to.unwrap_or(END_OF_TIME))))
        .bind(limit)
        .fetch_all(connection)
        .await
        .and_then(|rows| {
            let named = |row: &MySqlRow| {
                Ok(Named { entry: from_row(row)?, key_name: row.try_get("key_name")? })
            };
            listed(&rows, named, |row| row.try_get("id").map(AuditId))
        })
        .map_err(StoreError::query("read what operators did"))
}

/// Returns the nearest time that a column can hold.
fn time(at: DateTime<Utc>) -> DateTime<Utc> {
    at.clamp(DateTime::UNIX_EPOCH, END_OF_TIME)
}

fn from_row(row: &MySqlRow) -> Result<Entry, sqlx::Error> {
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
}

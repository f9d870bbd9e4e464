//! `idempotent_request`: operators' requests by idempotency key, with their answers.
//!
//! [`begin`] makes sure that the request has a row, in a statement of its own, and then locks the row in the transaction
//! that carries the request out. So of two equal requests one waits for the other, and then finds its answer. [`end`]
//! writes the answer in the same transaction: the stored answer exists exactly if its request took effect.
//!
//! A row without an answer stands for nothing: its request failed or was refused, and another may take the key. Were the
//! row inserted in the transaction instead, its rollback would leave those that waited with locks on the same gap, and
//! all but one of them would end in a deadlock (docs/decisions/0037).

use chrono::{DateTime, Utc};
use coupon::{AuditId, MerchantId, RequestId};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection, MySqlPool};

use crate::{
    DuplicateKey, StoreError,
    connect::{self, Transaction},
    datetime::datetime,
};

/// SHA-256 of the request and its sender.
pub type Digest = [u8; 32];

/// A request, identified by its key.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The sender's merchant.
    pub merchant_id: MerchantId,
    /// First half of the SHA-256 of method and path. The same key on another route is a different one.
    pub route: [u8; 16],
    pub key: &'a RequestId,
    pub digest: Digest,
}

/// A stored answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The answer's own headers, one per line.
    pub head: String,
    pub body: String,
}

/// What is known of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// The request is new: carry it out.
    New,
    /// The request was carried out, with this answer.
    Answered(Answer),
    /// The request was begun outside MySQL, under this audit entry, and its end was not recorded.
    UnderWay(AuditId),
    /// The key belongs to another request.
    Other,
}

/// A request that was begun.
#[derive(Debug)]
pub struct Begun {
    /// The transaction that carries the request out. It has locked the key.
    pub transaction: Transaction,
    pub known: Known,
}

/// Begins a request, and the transaction that carries it out. Waits for an equal request in progress.
///
/// # Errors
/// A statement fails, or the other request took too long ([`StoreError::is_conflict`]).
pub async fn begin(
    pool: &MySqlPool,
    request: Request<'_>,
    now: DateTime<Utc>,
) -> Result<Begun, StoreError> {
    let mut connection = connect::acquire(pool).await?;
    let is_first = add_row(&mut connection, request, now).await?;
    let mut transaction = connect::begin_pooled(connection).await?;
    let row = read(&mut transaction, request, " for update").await?;
    // The row was deleted just now. Repeating the call adds it again.
    let row = row.ok_or(StoreError::Contended)?;
    if row.is_open() && !is_first {
        take_over(&mut transaction, request, now).await?;
    }
    Ok(Begun { transaction, known: row.known(request) })
}

/// Returns what is known of a request without beginning it. Does not wait for an equal request in progress, whose answer
/// is not seen.
pub async fn look_up(
    connection: &mut MySqlConnection,
    request: Request<'_>,
) -> Result<Known, StoreError> {
    let row = read(connection, request, "").await?;
    Ok(row.map_or(Known::New, |row| row.known(request)))
}

/// Adds the row of a key, and returns whether it had none.
async fn add_row(
    connection: &mut MySqlConnection,
    request: Request<'_>,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let inserted = sqlx::query(
        "insert into idempotent_request (merchant_id, route, request_key, digest, created_at) \
         values (?, ?, ?, ?, ?)",
    )
    .bind(request.merchant_id.0)
    .bind(request.route.as_slice())
    .bind(request.key.as_str().as_bytes())
    .bind(request.digest.as_slice())
    .bind(datetime(now))
    .execute(connection)
    .await
    .map_err(StoreError::query("begin a request under its key"));
    match inserted {
        Err(error) if error.duplicate_key() == Some(DuplicateKey::Primary) => Ok(false),
        inserted => inserted.map(|_| true),
    }
}

#[derive(FromRow)]
struct KeyRow {
    digest: Vec<u8>,
    status: Option<i16>,
    head: Option<String>,
    body: Option<String>,
    audit_id: Option<i64>,
}

impl KeyRow {
    /// Whether no request under the key took effect.
    fn is_open(&self) -> bool {
        self.status.is_none() && self.audit_id.is_none()
    }

    fn known(self, request: Request<'_>) -> Known {
        if self.is_open() {
            return Known::New;
        }
        if self.digest != request.digest {
            return Known::Other;
        }
        match (self.status, self.audit_id) {
            (Some(status), _) => {
                let head = self.head.unwrap_or_default();
                let body = self.body.unwrap_or_default();
                Known::Answered(Answer { status: status.unsigned_abs(), head, body })
            }
            (None, Some(id)) => Known::UnderWay(AuditId(id)),
            (None, None) => Known::New,
        }
    }
}

async fn read(
    connection: &mut MySqlConnection,
    request: Request<'_>,
    lock: &str,
) -> Result<Option<KeyRow>, StoreError> {
    sqlx::query_as(AssertSqlSafe(format!(
        "select digest, status, head, body, audit_id from idempotent_request \
         where merchant_id = ? and route = ? and request_key = ?{lock}"
    )))
    .bind(request.merchant_id.0)
    .bind(request.route.as_slice())
    .bind(request.key.as_str().as_bytes())
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read a request by its key"))
}

/// Gives this request the key of one that took no effect. Its answer is kept as long as any other.
async fn take_over(
    transaction: &mut MySqlConnection,
    request: Request<'_>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query(
        "update idempotent_request set digest = ?, created_at = ? \
         where merchant_id = ? and route = ? and request_key = ?",
    )
    .bind(request.digest.as_slice())
    .bind(datetime(now))
    .bind(request.merchant_id.0)
    .bind(request.route.as_slice())
    .bind(request.key.as_str().as_bytes())
    .execute(transaction)
    .await
    .map_err(StoreError::query("take over a key"))?;
    Ok(())
}

/// Stores a request's answer, in the transaction of [`begin`].
pub async fn end(
    connection: &mut MySqlConnection,
    request: Request<'_>,
    answer: &Answer,
) -> Result<(), StoreError> {
    sqlx::query(
        "update idempotent_request set status = ?, head = ?, body = ? \
         where merchant_id = ? and route = ? and request_key = ? and digest = ? and status is null",
    )
    .bind(answer.status)
    .bind(&answer.head)
    .bind(&answer.body)
    .bind(request.merchant_id.0)
    .bind(request.route.as_slice())
    .bind(request.key.as_str().as_bytes())
    .bind(request.digest.as_slice())
    .execute(connection)
    .await
    .map_err(StoreError::query("write what a request was answered"))?;
    Ok(())
}

/// Records that a request is carried out outside MySQL, under an audit entry.
pub async fn is_under_way(
    transaction: &mut MySqlConnection,
    request: Request<'_>,
    audit_id: AuditId,
) -> Result<(), StoreError> {
    sqlx::query(
        "update idempotent_request set audit_id = ? where merchant_id = ? and route = ? and request_key = ?",
    )
    .bind(audit_id.0)
    .bind(request.merchant_id.0)
    .bind(request.route.as_slice())
    .bind(request.key.as_str().as_bytes())
    .execute(transaction)
    .await
    .map_err(StoreError::query("write under which line a request is done"))?;
    Ok(())
}

/// Deletes at most `limit` requests created before `before`, the oldest first, and returns how many.
pub async fn forget(
    connection: &mut MySqlConnection,
    before: DateTime<Utc>,
    limit: u32,
) -> Result<u64, StoreError> {
    let done = sqlx::query(
        "delete from idempotent_request where created_at < ? order by created_at limit ?",
    )
    .bind(datetime(before))
    .bind(limit)
    .execute(connection)
    .await
    .map_err(StoreError::query("forget old requests"))?;
    Ok(done.rows_affected())
}

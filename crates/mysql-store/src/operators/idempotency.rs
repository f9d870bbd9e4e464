//! `idempotent_request`: operators' requests by idempotency key, with their answers.
//!
//! [`begin`] is the first statement of the transaction that carries out the request. The row's primary key makes one of
//! two equal requests wait for the other, and then find its answer. [`end`] writes the answer in the same transaction.
//! So the answer is stored exactly if its request took effect, and a failed request leaves nothing.

use chrono::{DateTime, Utc};
use coupon::{AuditId, MerchantId, RequestId};
use sqlx::{FromRow, MySqlConnection};

use crate::{DuplicateKey, StoreError, datetime::datetime};

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

/// Result of [`begin`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// The request is new: carry it out.
    New,
    /// The request was carried out, with this answer.
    Answered(Answer),
    /// The request was begun outside MySQL, under this audit entry, and its end was not recorded.
    UnderWay(AuditId),
    /// The key belongs to another request.
    Other,
}

/// Begins a request; call it first in the transaction. Waits for an equal request in progress.
///
/// # Errors
/// A statement fails, or the other request took too long ([`StoreError::is_conflict`]).
pub async fn begin(
    transaction: &mut MySqlConnection,
    request: Request<'_>,
    now: DateTime<Utc>,
) -> Result<Begun, StoreError> {
    let inserted = sqlx::query(
        "insert into idempotent_request (merchant_id, route, request_key, digest, created_at) \
         values (?, ?, ?, ?, ?)",
    )
    .bind(request.merchant_id.0)
    .bind(request.route.as_slice())
    .bind(request.key.as_str().as_bytes())
    .bind(request.digest.as_slice())
    .bind(datetime(now))
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("begin a request under its key"));
    match inserted {
        Ok(_) => Ok(Begun::New),
        Err(error) if error.duplicate_key() == Some(DuplicateKey::Primary) => {
            known(transaction, request).await
        }
        Err(error) => Err(error),
    }
}

#[derive(FromRow)]
struct Known {
    digest: Vec<u8>,
    status: Option<i16>,
    head: Option<String>,
    body: Option<String>,
    audit_id: Option<i64>,
}

async fn known(
    transaction: &mut MySqlConnection,
    request: Request<'_>,
) -> Result<Begun, StoreError> {
    // Not a locking read: all calls that waited for the insert share the row's lock by now, and would block each other.
    let row: Option<Known> = sqlx::query_as(
        "select digest, status, head, body, audit_id from idempotent_request \
         where merchant_id = ? and route = ? and request_key = ?",
    )
    .bind(request.merchant_id.0)
    .bind(request.route.as_slice())
    .bind(request.key.as_str().as_bytes())
    .fetch_optional(transaction)
    .await
    .map_err(StoreError::query("read a request by its key"))?;
    // The row was deleted just now. Repeating the call begins the request.
    let row = row.ok_or(StoreError::Contended)?;
    if row.digest != request.digest {
        return Ok(Begun::Other);
    }
    if let Some(status) = row.status {
        let (head, body) = (row.head.unwrap_or_default(), row.body.unwrap_or_default());
        return Ok(Begun::Answered(Answer { status: status.unsigned_abs(), head, body }));
    }
    row.audit_id.map(|id| Begun::UnderWay(AuditId(id))).ok_or_else(|| {
        StoreError::unreadable("a request without an answer and a line of the record")
    })
}

/// Stores a request's answer.
///
/// # Errors
/// The statement fails.
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
///
/// # Errors
/// The statement fails.
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
///
/// # Errors
/// The statement fails.
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

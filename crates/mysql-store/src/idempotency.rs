//! `idempotent_request`: what operators asked for under a key of theirs, and what they were answered.
//!
//! [`begin`] is the first statement of the transaction that does what is asked for: the row's primary key lets one of
//! two equal requests wait for the other, and then find its answer. [`end`] writes the answer in the same transaction. So
//! an answer stands exactly if what it tells of does, and what failed leaves nothing.

use chrono::{DateTime, Utc};
use coupon::{AuditId, MerchantId, RequestId};
use sqlx::{MySqlConnection, Row};

use crate::{DuplicateKey, StoreError, datetime::datetime};

/// SHA-256 of what is asked for and by whom.
pub type Digest = [u8; 32];

/// A request, by its key.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Who asks.
    pub merchant_id: MerchantId,
    /// Where: the first half of SHA-256 of method and path. Another route's key is another key.
    pub route: [u8; 16],
    /// Under which key.
    pub key: &'a RequestId,
    /// For what.
    pub digest: Digest,
}

/// An answer as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its HTTP status.
    pub status: u16,
    /// Its own headers, one in a line.
    pub head: String,
    /// Its body.
    pub body: String,
}

/// What is known of a request that is about to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Nothing: it is to be done now.
    New,
    /// It was done, and answered so.
    Answered(Answer),
    /// It was begun outside MySQL, under this line of the record, and nobody saw its end.
    UnderWay(AuditId),
    /// The key stands for another request.
    Other,
}

/// Begins a request; to be called first in its transaction. Waits for an equal one that is being done.
///
/// # Errors
/// A statement fails, or the other one took too long ([`StoreError::is_conflict`]).
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

async fn known(
    transaction: &mut MySqlConnection,
    request: Request<'_>,
) -> Result<Begun, StoreError> {
    // Not locked: all who waited for the insert share the row's lock by now, and would stand in each other's way.
    let row = sqlx::query(
        "select digest, status, head, body, audit_id from idempotent_request \
         where merchant_id = ? and route = ? and request_key = ?",
    )
    .bind(request.merchant_id.0)
    .bind(request.route.as_slice())
    .bind(request.key.as_str().as_bytes())
    .fetch_optional(transaction)
    .await
    .map_err(StoreError::query("read a request by its key"))?;
    // Swept in this moment: the same call again begins it.
    let row = row.ok_or(StoreError::Contended)?;
    let read = || -> Result<_, sqlx::Error> {
        if row.try_get::<Vec<u8>, _>("digest")? != request.digest {
            return Ok(Some(Begun::Other));
        }
        if let Some(status) = row.try_get::<Option<i16>, _>("status")? {
            let status = status.unsigned_abs();
            let head = row.try_get::<Option<String>, _>("head")?.unwrap_or_default();
            let body = row.try_get::<Option<String>, _>("body")?.unwrap_or_default();
            return Ok(Some(Begun::Answered(Answer { status, head, body })));
        }
        let audit_id: Option<i64> = row.try_get("audit_id")?;
        Ok(audit_id.map(|id| Begun::UnderWay(AuditId(id))))
    };
    read().map_err(StoreError::query("read a request by its key"))?.ok_or_else(|| {
        StoreError::unreadable("a request without an answer and a line of the record")
    })
}

/// Writes a request's answer.
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

/// Says that a request is done outside MySQL, under a line of the record.
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

/// Removes at most `limit` requests made before `before`, the oldest first; answers how many.
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

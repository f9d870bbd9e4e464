//! The fence: a void row under an admission's id, so that a later landing of the admission fails.
//!
//! A fence says that this id does not land *in its template*. The id alone does not show to which template it belongs,
//! and a lookup that names the wrong one places its fence there. Such a foreign fence does not count: the process that
//! holds the claim itself, from the gate or from the queue, lifts it with [`lift_foreign`].

use chrono::{DateTime, Utc};
use coupon::{ClaimId, ClaimState, RequestId, TemplateId, UserId};
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::claim::state_of;
use crate::{StoreError, datetime::datetime, rows};

/// Attempts to insert a fence: a foreign fence may be lifted between the insert and the read.
const TRIES: u32 = 3;

/// Result of fencing an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// A fence exists, from now or earlier, or the admission was rejected: it can never land.
    Stands,
    /// The admission had landed.
    Landed,
}

/// Fences an admission that a client looks up, or finds that it has landed. A fence of the id in another template
/// stays.
///
/// One row, autocommit. UNIQUE(id) makes it wait for an open insert of the same admission.
///
/// # Errors
/// A statement fails. After a conflict (1205, 1213) the caller tries again.
pub async fn place(
    connection: &mut MySqlConnection,
    template: TemplateId,
    user: UserId,
    id: ClaimId,
    now: DateTime<Utc>,
) -> Result<Fence, StoreError> {
    for _ in 0..TRIES {
        match insert(connection, template, user, id, now).await {
            Ok(()) => return Ok(Fence::Stands),
            Err(error) if error.duplicate_key().is_some() => {}
            Err(error) => return Err(error),
        }
        match state_of(connection, id).await? {
            Some(ClaimState::Landed) => return Ok(Fence::Landed),
            Some(ClaimState::Void | ClaimState::Rejected) => return Ok(Fence::Stands),
            None => {}
        }
    }
    Err(unreadable())
}

/// A foreign fence is lifted once, so a connection that never sees the row leads to another server than the insert.
fn unreadable() -> StoreError {
    StoreError::Settings(
        "the row of a claim's id that is taken cannot be read: DATABASE_URL must lead to one server, \
         for reads and writes"
            .to_owned(),
    )
}

/// Fences an admission that the caller holds, so that its template is known for certain, or finds that it has landed.
/// A foreign fence moves to this template in one statement, so that nothing lands meanwhile.
///
/// # Errors
/// As of [`place`].
pub async fn place_held(
    connection: &mut MySqlConnection,
    template: TemplateId,
    user: UserId,
    id: ClaimId,
    now: DateTime<Utc>,
) -> Result<Fence, StoreError> {
    for _ in 0..TRIES {
        match place(connection, template, user, id, now).await? {
            Fence::Landed => return Ok(Fence::Landed),
            Fence::Stands => {}
        }
        let moved = sqlx::query(
            "update claim set template_id = ?, user_id = ? where id = ? and state = ? and template_id <> ?",
        )
        .bind(template.0)
        .bind(user.0)
        .bind(id.0)
        .bind(ClaimState::Void.code())
        .bind(template.0)
        .execute(&mut *connection)
        .await
        .map_err(StoreError::query("move another template's fence"))?;
        // A rejected claim, or this template's own fence, stays.
        if moved.rows_affected() > 0 || state_of(connection, id).await?.is_some() {
            return Ok(Fence::Stands);
        }
    }
    Err(unreadable())
}

async fn insert(
    connection: &mut MySqlConnection,
    template: TemplateId,
    user: UserId,
    id: ClaimId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into claim (template_id, user_id, request_id, id, quantity, state, payload_hash, \
         valid_from, valid_until, created_at) values (?, ?, ?, ?, 0, ?, repeat(x'00', 16), ?, ?, ?)",
    )
    .bind(template.0)
    .bind(user.0)
    .bind(RequestId::fence(id).as_str().as_bytes())
    .bind(id.0)
    .bind(ClaimState::Void.code())
    .bind(datetime(now))
    .bind(datetime(now))
    .bind(datetime(now))
    .execute(connection)
    .await
    .map(drop)
    .map_err(StoreError::query("place a fence"))
}

/// Lifts the foreign fences of claims that the caller holds, each with its own template. Returns how many there were.
/// Lifting loses nothing: no other template has a claim with the id.
///
/// # Errors
/// A statement fails. Each fence is lifted or stands; the call may be repeated.
pub async fn lift_foreign(
    connection: &mut MySqlConnection,
    claims: &[(ClaimId, TemplateId)],
) -> Result<u64, StoreError> {
    let mut lifted = 0;
    for run in rows::runs(claims) {
        // Read first: a foreign fence is rare, and a delete would lock rows that are just landing.
        let head = "select id, template_id from claim force index (uq_claim_id) where id in (";
        let sql = rows::repeat(head, "?", ",", run.len(), ") and state = ?");
        let query = sqlx::query_as(AssertSqlSafe(sql));
        let query = run.iter().fold(query, |query, (id, _)| query.bind(id.0));
        let fences: Vec<(i64, i64)> = query
            .bind(ClaimState::Void.code())
            .fetch_all(&mut *connection)
            .await
            .map_err(StoreError::query("read fences"))?;
        for (id, template) in fences {
            let own = run.iter().find(|(claim, _)| claim.0 == id).map(|(_, template)| *template);
            if own.is_some_and(|own| own.0 != template) {
                lifted += lift(connection, id, template).await?;
            }
        }
    }
    Ok(lifted)
}

async fn lift(connection: &mut MySqlConnection, id: i64, template: i64) -> Result<u64, StoreError> {
    sqlx::query("delete from claim where id = ? and template_id = ? and state = ?")
        .bind(id)
        .bind(template)
        .bind(ClaimState::Void.code())
        .execute(connection)
        .await
        .map(|done| done.rows_affected())
        .map_err(StoreError::query("lift another template's fence"))
}

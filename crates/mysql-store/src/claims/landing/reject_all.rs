//! Rejects many queued claims in one transaction. A gate that admitted too much, or a pause that rejects accepted
//! claims, ends thousands of them at once, and each transaction waits for the disk.

use chrono::{DateTime, Utc};
use coupon::{ClaimState, LandingMode, RejectReason, TemplateId, UserId, decide};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

use super::{Landing, RejectOutcome, reject::stands, reread};
use crate::{StoreError, connect, datetime::datetime, rows};

/// Rejects each of `landings` for its reason, as [`super::reject()`] does, and returns the outcomes in order. `None`:
/// nothing was written, because two of the rows conflict, or one conflicts with a fence placed meanwhile; reject each
/// alone. Call it on a connection that the server ends if the process stops ([`crate::connect::lander`]).
///
/// # Errors
/// As of [`super::reject()`].
pub async fn reject_all(
    connection: &mut MySqlConnection,
    landings: &[Landing],
    reasons: &[RejectReason],
    now: DateTime<Utc>,
) -> Result<Option<Vec<RejectOutcome>>, StoreError> {
    let mut transaction =
        connection.begin().await.map_err(StoreError::query("begin rejections"))?;
    let done = try_all(&mut transaction, landings, reasons, now).await;
    connect::finish(
        transaction,
        done,
        Option::is_some,
        ["commit rejections", "roll back rejections"],
    )
    .await
}

async fn try_all(
    transaction: &mut MySqlConnection,
    landings: &[Landing],
    reasons: &[RejectReason],
    now: DateTime<Utc>,
) -> Result<Option<Vec<RejectOutcome>>, StoreError> {
    hold_stocks(transaction, landings).await?;
    let found = reread(transaction, LandingMode::Queued, landings).await?;
    let mut rejected = Vec::new();
    let mut outcomes = Vec::with_capacity(landings.len());
    for ((landing, reason), found) in landings.iter().zip(reasons).zip(&found) {
        let decision = decide(LandingMode::Queued, &landing.admission, found);
        outcomes.push(if stands(*reason, &decision) {
            rejected.push((landing, *reason));
            RejectOutcome::Written
        } else {
            RejectOutcome::Otherwise(decision)
        });
    }
    match insert_claims(transaction, rejected.clone(), now).await {
        Ok(()) => {}
        Err(error) if error.duplicate_key().is_some() => return Ok(None),
        Err(error) => return Err(error),
    }
    note_users(transaction, &rejected).await?;
    Ok(Some(outcomes))
}

/// Locks the stock rows, in the order in which landings lock them.
async fn hold_stocks(
    transaction: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<(), StoreError> {
    let mut ids: Vec<TemplateId> =
        landings.iter().map(|landing| landing.claim().template_id).collect();
    ids.sort_unstable();
    ids.dedup();
    for run in rows::runs(&ids) {
        let head = "select template_id from template_stock force index (primary) \
                    where template_id in (";
        let sql = rows::repeat(head, "?", ",", run.len(), ") order by template_id for update");
        let query = run.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, id| query.bind(id.0));
        query.execute(&mut *transaction).await.map_err(StoreError::query("hold the stock rows"))?;
    }
    Ok(())
}

/// Inserts the rows, sorted by the clients' keys, so that all transactions lock in the same order.
pub(super) async fn insert_claims(
    transaction: &mut MySqlConnection,
    mut rejected: Vec<(&Landing, RejectReason)>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    rejected.sort_by_key(|(landing, _)| {
        let claim = landing.claim();
        (claim.template_id, claim.user_id, claim.request_id.clone())
    });
    for run in rows::runs(&rejected) {
        let sql = rows::repeat(
            "insert into claim (template_id, user_id, request_id, id, quantity, state, reason, \
             payload_hash, valid_from, valid_until, created_at, admitted_at, left_after) values ",
            "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ",",
            run.len(),
            "",
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for (landing, reason) in run {
            let claim = landing.claim();
            query = query
                .bind(claim.template_id.0)
                .bind(claim.user_id.0)
                .bind(claim.request_id.as_str().as_bytes())
                .bind(claim.id.0)
                .bind(claim.quantity)
                .bind(ClaimState::Rejected.code())
                .bind(reason.code())
                .bind(&claim.payload_hash.0[..])
                .bind(datetime(now))
                .bind(datetime(now))
                .bind(datetime(now))
                .bind(landing.admitted_at.map(datetime))
                .bind(landing.left_after);
        }
        query.execute(&mut *transaction).await.map_err(StoreError::query("insert rejections"))?;
    }
    Ok(())
}

/// Adds the users to those that a rebuilt gate looks up. Some may have been rejected before.
pub(super) async fn note_users(
    transaction: &mut MySqlConnection,
    rejected: &[(&Landing, RejectReason)],
) -> Result<(), StoreError> {
    let owner = |landing: &Landing| (landing.claim().template_id, landing.claim().user_id);
    let mut users: Vec<(TemplateId, UserId)> =
        rejected.iter().map(|(landing, _)| owner(landing)).collect();
    users.sort_unstable();
    users.dedup();
    for run in rows::runs(&users) {
        let head = "insert ignore into rejected_user (template_id, user_id) values ";
        let mut query =
            sqlx::query(AssertSqlSafe(rows::repeat(head, "(?, ?)", ",", run.len(), "")));
        for (template, user) in run {
            query = query.bind(template.0).bind(user.0);
        }
        query.execute(&mut *transaction).await.map_err(StoreError::query("note rejected users"))?;
    }
    Ok(())
}

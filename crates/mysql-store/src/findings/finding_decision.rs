//! What becomes of a finding. Each decision is guarded by the state that it was made for, so of two only one takes effect.

use chrono::{DateTime, Utc};
use coupon::{Epoch, FindingId, FindingState};
use sqlx::MySqlConnection;

use crate::{StoreError, datetime::datetime};

/// Who ended a finding that is overtaken.
pub const RECONCILER: &str = "reconciler";

/// A decision about a finding.
#[derive(Debug, Clone, Copy)]
pub struct Decided<'a> {
    /// `key:<id>` or `platform`.
    pub by: &'a str,
    pub reason: &'a str,
    pub at: DateTime<Utc>,
}

/// What a repair's dry run showed. Its digest is made of this: traffic that is correct moves the stock, and keeps the
/// number of coupons by which it is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    pub epoch: Option<Epoch>,
    pub coupons: i64,
}

/// Accepts an open finding: it stands, and is not open any more until it changes. Returns false if it was not open.
pub async fn accept(
    transaction: &mut MySqlConnection,
    id: FindingId,
    decided: Decided<'_>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "update finding set state = ?, decided_at = ?, decided_by = ?, reason = ? \
         where id = ? and state = ?",
    )
    .bind(FindingState::Accepted.code())
    .bind(datetime(decided.at))
    .bind(decided.by)
    .bind(decided.reason)
    .bind(id.0)
    .bind(FindingState::Open.code())
    .execute(transaction)
    .await
    .map_err(StoreError::query("accept a finding"))?;
    Ok(done.rows_affected() == 1)
}

/// Marks an open finding as being repaired, if it is still what the dry run showed. For repairs that are not done in
/// MySQL. Returns false if the state moved.
pub async fn begin_repair(
    transaction: &mut MySqlConnection,
    id: FindingId,
    judged: Judged,
    decided: Decided<'_>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "update finding set state = ?, decided_at = ?, decided_by = ?, reason = ? \
         where id = ? and state = ? and coupons = ? and epoch <=> ?",
    )
    .bind(FindingState::Repairing.code())
    .bind(datetime(decided.at))
    .bind(decided.by)
    .bind(decided.reason)
    .bind(id.0)
    .bind(FindingState::Open.code())
    .bind(judged.coupons)
    .bind(judged.epoch.map(|epoch| epoch.0))
    .execute(transaction)
    .await
    .map_err(StoreError::query("begin a repair"))?;
    Ok(done.rows_affected() == 1)
}

/// Ends a finding as repaired, if it is open or being repaired, and still what the dry run showed. Call it in the
/// transaction of the repair, and roll back if it returns false: the state moved, or another has repaired it.
pub async fn end_repair(
    transaction: &mut MySqlConnection,
    id: FindingId,
    judged: Judged,
    decided: Decided<'_>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "update finding set state = ?, ended = id, decided_at = ?, decided_by = ?, reason = ? \
         where id = ? and state in (?, ?) and coupons = ? and epoch <=> ?",
    )
    .bind(FindingState::Repaired.code())
    .bind(datetime(decided.at))
    .bind(decided.by)
    .bind(decided.reason)
    .bind(id.0)
    .bind(FindingState::Open.code())
    .bind(FindingState::Repairing.code())
    .bind(judged.coupons)
    .bind(judged.epoch.map(|epoch| epoch.0))
    .execute(transaction)
    .await
    .map_err(StoreError::query("end a repair"))?;
    Ok(done.rows_affected() == 1)
}

/// Ends a finding whose subject is gone, or that a look which began at `looked_at` did not find any more. Returns false if
/// it does not stand, or was found again since.
pub async fn overtake(
    connection: &mut MySqlConnection,
    id: FindingId,
    looked_at: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "update finding set state = ?, ended = id, decided_at = ?, decided_by = ?, reason = null \
         where id = ? and ended = 0 and last_seen < ?",
    )
    .bind(FindingState::Overtaken.code())
    .bind(datetime(now))
    .bind(RECONCILER)
    .bind(id.0)
    .bind(datetime(looked_at))
    .execute(connection)
    .await
    .map_err(StoreError::query("end a finding that is overtaken"))?;
    Ok(done.rows_affected() == 1)
}

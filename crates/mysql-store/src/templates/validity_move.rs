//! `validity_move`: moves issued coupons to their template's new validity, in chunks.
//!
//! A chunk is one transaction. It locks the move's row, reads the next coupons in the order of `uq_number`, moves those
//! that can still be used, and records the progress in the row. So a move can stop at any moment and any process can
//! continue it, each coupon is moved once, and a later change waits for one chunk at most. Used, ended and held coupons
//! do not change, nor do coupons that already have the new validity because they were claimed or confirmed after the
//! change.
//!
//! The moves take turns, a chunk each: coupons of one template must not expire by their old deadline because another
//! template has millions of them.

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, MoveState, TemplateId, Validity};
use sqlx::{AssertSqlSafe, FromRow, MySqlConnection};

use crate::{
    StoreError,
    code::Code,
    confirmed_at::CONFIRMED_AT,
    connect,
    datetime::{NullableTime, datetime},
    expiries::expiry::FLIP_MAX,
    rows,
    templates::template::{StoredValidity, validity_columns},
};

/// Coupons in one chunk: as many as in a flip, for the same reasons.
pub const CHUNK: usize = FLIP_MAX;

/// Most moves that one step tries to lock. Other workers lock one each, and there are few workers.
const CANDIDATES_MAX: u32 = 16;

/// A move and its progress.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ValidityMove {
    #[sqlx(try_from = "i64")]
    pub template_id: TemplateId,
    /// The template's version after the change.
    pub version: i64,
    /// The new validity.
    #[sqlx(flatten, try_from = "StoredValidity")]
    pub validity: Validity,
    #[sqlx(try_from = "Code")]
    pub state: MoveState,
    /// Number of coupons issued before the change and not returned.
    pub total: i64,
    /// Number of coupons processed, including those claimed after the change.
    pub looked_at: i64,
    /// How many of them were moved.
    pub moved: i64,
    /// When the first chunk was committed.
    #[sqlx(try_from = "NullableTime")]
    pub started_at: Option<DateTime<Utc>>,
    /// When the last chunk was committed or a later move took over.
    #[sqlx(try_from = "NullableTime")]
    pub ended_at: Option<DateTime<Utc>>,
    /// User of the last processed coupon.
    after_user: i64,
    /// Number of the last processed coupon.
    after_number: i64,
}

/// Result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub template_id: TemplateId,
    /// Number of coupons processed.
    pub looked_at: usize,
    /// How many of them were moved.
    pub moved: u64,
    /// Whether the move is complete.
    pub finished: bool,
}

/// A coupon of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ChunkCoupon {
    user: i64,
    number: i64,
    id: CouponId,
    unused: bool,
}

/// Returns the last move of a template, or `None` if issued coupons never had to follow a change.
pub async fn last(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Option<ValidityMove>, StoreError> {
    sqlx::query_as(
        "select * from validity_move where template_id = ? order by version desc limit 1",
    )
    .bind(template.0)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read a validity's move"))
}

/// Returns the number of moves under way.
pub async fn under_way(connection: &mut MySqlConnection) -> Result<i64, StoreError> {
    sqlx::query_scalar("select count(*) from validity_move where state = ?")
        .bind(MoveState::UnderWay.code())
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("count the moves under way"))
}

/// Moves the next chunk of a move under way that no other process works on: of the next template after `last`, which is
/// updated. Returns `None` if there is none. Awaits `reach` before the commit, where a test can end the process.
///
/// # Errors
/// A statement or `reach` fails. After a conflict the chunk is unchanged. After a lost connection it is moved or not,
/// and the next step continues correctly either way.
pub async fn step<F: Future<Output = std::io::Result<()>>>(
    connection: &mut MySqlConnection,
    last: &mut Option<TemplateId>,
    now: DateTime<Utc>,
    reach: impl FnOnce() -> F,
) -> Result<Option<Step>, StoreError> {
    let mut transaction = connect::begin_on(connection).await?;
    let step = match try_step(&mut transaction, last, now).await {
        Ok(Some(step)) => step,
        Ok(None) => {
            transaction.rollback().await.map_err(StoreError::query("roll back"))?;
            return Ok(None);
        }
        Err(error) => {
            // Roll back now: left to the connection's next use, the transaction would keep rows locked that uses wait
            // for.
            drop(transaction.rollback().await);
            return Err(error);
        }
    };
    let stopped = |error| StoreError::query("go on with a chunk")(sqlx::Error::Io(error));
    reach().await.map_err(stopped)?;
    transaction.commit().await.map_err(StoreError::query("commit a chunk"))?;
    Ok(Some(step))
}

async fn try_step(
    transaction: &mut MySqlConnection,
    last: &mut Option<TemplateId>,
    now: DateTime<Utc>,
) -> Result<Option<Step>, StoreError> {
    let Some(job) = take_next(transaction, *last).await? else { return Ok(None) };
    // Also if its chunk meets a locked coupon: it then waits for its next turn.
    *last = Some(job.template_id);
    let chunk = chunk(transaction, &job).await?;
    let unused: Vec<_> =
        chunk.iter().filter(|coupon| coupon.unused).map(|coupon| coupon.id).collect();
    let moved = move_all(transaction, unused, &job.validity, now).await?;
    let finished = chunk.len() < CHUNK;
    let before = (job.after_user, job.after_number);
    let (user, number) = chunk.last().map_or(before, |coupon| (coupon.user, coupon.number));
    let state = if finished { MoveState::Finished } else { MoveState::UnderWay };
    sqlx::query(
        "update validity_move set state = ?, looked_at = looked_at + ?, moved = moved + ?, \
         after_user = ?, after_number = ?, started_at = coalesce(started_at, ?), ended_at = ? \
         where template_id = ? and version = ?",
    )
    .bind(state.code())
    .bind(chunk.len() as u64)
    .bind(moved)
    .bind(user)
    .bind(number)
    .bind(datetime(now))
    .bind(finished.then(|| datetime(now)))
    .bind(job.template_id.0)
    .bind(job.version)
    .execute(transaction)
    .await
    .map_err(StoreError::query("write how far a move has come"))?;
    let template_id = job.template_id;
    Ok(Some(Step { template_id, looked_at: chunk.len(), moved, finished }))
}

/// Locks the first move after `last` that no other process has locked; behind the last template it starts over.
async fn take_next(
    transaction: &mut MySqlConnection,
    last: Option<TemplateId>,
) -> Result<Option<ValidityMove>, StoreError> {
    // A plain read: a locking one would also lock moves that are only passed over.
    let candidates: Vec<(i64, i64)> = sqlx::query_as(
        "select template_id, version from validity_move where state = ? \
         order by template_id <= ?, template_id limit ?",
    )
    .bind(MoveState::UnderWay.code())
    .bind(last.map_or(-1, |last| last.0))
    .bind(CANDIDATES_MAX)
    .fetch_all(&mut *transaction)
    .await
    .map_err(StoreError::query("look for a move"))?;
    for (template, version) in candidates {
        // By the index of the states, as an edit that supersedes the move does: both lock its entry first, then the row.
        let job: Option<ValidityMove> = sqlx::query_as(
            "select * from validity_move force index (ix_state) \
             where state = ? and template_id = ? and version = ? for update skip locked",
        )
        .bind(MoveState::UnderWay.code())
        .bind(template)
        .bind(version)
        .fetch_optional(&mut *transaction)
        .await
        .map_err(StoreError::query("take a move"))?;
        if job.is_some() {
            return Ok(job);
        }
    }
    Ok(None)
}

/// Returns the next coupons of a move, in the order of `uq_number`: first the rest of the last user's, who may have any
/// number of them, then those of the following users.
async fn chunk(
    connection: &mut MySqlConnection,
    job: &ValidityMove,
) -> Result<Vec<ChunkCoupon>, StoreError> {
    let limit = u32::try_from(CHUNK).unwrap_or(u32::MAX);
    let rows: Vec<(i64, i64, i64, Code)> = sqlx::query_as(CHUNK_SQL)
        .bind(job.template_id.0)
        .bind(job.after_user)
        .bind(job.after_number)
        .bind(limit)
        .bind(job.template_id.0)
        .bind(job.after_user)
        .bind(limit)
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read a chunk of coupons"))?;
    let coupon = |(id, user, number, status): (i64, i64, i64, Code)| ChunkCoupon {
        user,
        number,
        id: CouponId(id),
        // A status that this version does not know is not unused.
        unused: CouponStatus::try_from(status) == Ok(CouponStatus::Unused),
    };
    let mut chunk: Vec<_> = rows.into_iter().map(coupon).collect();
    // A union guarantees no order.
    chunk.sort_unstable();
    chunk.truncate(CHUNK);
    Ok(chunk)
}

/// The statement of a chunk. A test checks its plan.
pub const CHUNK_SQL: &str = "\
    (select id, user_id, claim_no, status from user_coupon force index (uq_number) \
     where template_id = ? and user_id = ? and claim_no > ? order by claim_no limit ?) \
    union all \
    (select id, user_id, claim_no, status from user_coupon force index (uq_number) \
     where template_id = ? and user_id > ? order by user_id, claim_no limit ?)";

/// Moves those of `ids` that can still be used by both clocks and have another validity.
async fn move_all(
    connection: &mut MySqlConnection,
    mut ids: Vec<CouponId>,
    validity: &Validity,
    now: DateTime<Utc>,
) -> Result<u64, StoreError> {
    // In primary key order, as every writer locks.
    ids.sort_unstable();
    if ids.is_empty() {
        return Ok(0);
    }
    let ids = rows::filled(&ids);
    let (valid_from, valid_until, valid_for_ms) = validity_columns(validity);
    let valid_for_micros = valid_for_ms.map(|ms| ms * 1000);
    // A period counts from when the coupon became usable.
    let since = format!("coalesce({CONFIRMED_AT}, user_coupon.claimed_at)");
    let from = format!("coalesce(cast(? as datetime(3)), {since})");
    let until = format!("coalesce(cast(? as datetime(3)), {since} + interval ? microsecond)");
    let head = format!(
        "update user_coupon set valid_from = {from}, valid_until = {until}, \
         version = version + 1, changed_at = ? where id in ("
    );
    let tail = format!(
        ") and status = ? and valid_until > greatest(cast(? as datetime(3)), utc_timestamp(3)) \
         and (valid_from <> {from} or valid_until <> {until})"
    );
    let statement = sqlx::query(AssertSqlSafe(rows::repeat(&head, "?", ", ", ids.len(), &tail)))
        .bind(valid_from)
        .bind(valid_until)
        .bind(valid_for_micros)
        .bind(datetime(now));
    let done = ids
        .iter()
        .fold(statement, |statement, id| statement.bind(id.0))
        .bind(CouponStatus::Unused.code())
        .bind(datetime(now))
        .bind(valid_from)
        .bind(valid_until)
        .bind(valid_for_micros)
        .execute(connection)
        .await
        .map_err(StoreError::query("move coupons to another validity"))?;
    Ok(done.rows_affected())
}

//! `job`: grants to many users, worked on in turns.
//!
//! A turn is one chunk of rows. A process takes a job for it with [`take`], by a lease that only saves work: two
//! processes that work on one chunk land the same claims once, because a row's claim has the row's own key
//! ([`RequestId::grant`]). What a turn found is written with [`end_turn`], whose guard is the lease.

use std::time::Duration;

use chrono::{DateTime, Utc};
use coupon::{ApiKeyId, JobId, JobState, MerchantId, RequestId, RowOutcome, TemplateId};
use sqlx::{FromRow, MySqlConnection};

use crate::{
    StoreError,
    code::Code,
    datetime::{NullableTime, datetime},
    operators::merchant,
};

/// SHA-256 of the request and its sender.
pub type Digest = [u8; 32];

/// Jobs looked at by one search for a turn: more than the workers that may be ahead of this one.
const CANDIDATES_MAX: u32 = 16;

/// A job's row in MySQL.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Job {
    #[sqlx(try_from = "i64")]
    pub id: JobId,
    #[sqlx(try_from = "i64")]
    pub merchant_id: MerchantId,
    #[sqlx(try_from = "i64")]
    pub template_id: TemplateId,
    /// Digest of its request.
    pub digest: Vec<u8>,
    /// Coupons for each row.
    pub quantity: u32,
    /// In the operator's words.
    pub reason: String,
    /// Name of the operator in stock movements.
    pub actor: String,
    /// The operator's key; `None` for the platform's own.
    pub key_id: Option<i64>,
    /// Whether it grants from the stock.
    pub from_stock: bool,
    /// Coupons that were added to the template's total for it; 0 if it grants from the stock.
    pub added: i64,
    pub total_rows: u32,
    #[sqlx(try_from = "Code")]
    pub state: JobState,
    /// The last row of this round that was tried.
    pub after_row: u32,
    /// Code of what its rows wait for; `None` if they are being granted.
    pub waits_for: Option<String>,
    /// Seconds since its end was first put off; `None` if it never was.
    pub ending_for: Option<i64>,
    pub created_at: DateTime<Utc>,
    #[sqlx(try_from = "NullableTime")]
    pub ended_at: Option<DateTime<Utc>>,
}

/// A job to be created.
#[derive(Debug, Clone)]
pub struct NewJob<'a> {
    pub id: JobId,
    pub merchant_id: MerchantId,
    pub template_id: TemplateId,
    /// The request's key. A merchant has one job for each.
    pub request_id: &'a RequestId,
    pub digest: Digest,
    pub quantity: u32,
    pub reason: &'a str,
    pub actor: &'a str,
    pub key_id: Option<ApiKeyId>,
    pub from_stock: bool,
    /// Coupons that are added to the total for it.
    pub added: i64,
    pub total_rows: u32,
}

/// Columns of [`Job`].
pub(super) const COLUMNS: &str = "id, merchant_id, template_id, digest, cast(quantity as unsigned) as quantity, reason, actor, \
     key_id, from_stock, added, cast(total_rows as unsigned) as total_rows, state, \
     cast(after_row as unsigned) as after_row, waits_for, \
     cast(timestampdiff(second, ending_since, utc_timestamp(3)) as signed) as ending_for, created_at, ended_at";

/// Creates a job, which may have its first turn at once.
///
/// # Errors
/// The statement fails. If the merchant has a job under this key, it is a duplicate of another key than the primary
/// ([`StoreError::duplicate_key`]).
pub async fn create(
    transaction: &mut MySqlConnection,
    job: &NewJob<'_>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query(
        "insert into job (id, merchant_id, template_id, request_key, digest, quantity, reason, actor, \
         key_id, from_stock, added, total_rows, state, after_row, served_at, next_at, created_at) \
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, utc_timestamp(3), utc_timestamp(3), ?)",
    )
    .bind(job.id.0)
    .bind(job.merchant_id.0)
    .bind(job.template_id.0)
    .bind(job.request_id.as_str().as_bytes())
    .bind(job.digest.as_slice())
    .bind(job.quantity)
    .bind(job.reason)
    .bind(job.actor)
    .bind(job.key_id.map(|id| id.0))
    .bind(job.from_stock)
    .bind(job.added)
    .bind(job.total_rows)
    .bind(JobState::Running.code())
    .bind(datetime(now))
    .execute(transaction)
    .await
    .map_err(StoreError::query("create a job"))?;
    Ok(())
}

/// Returns a merchant's job.
pub async fn get(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    id: JobId,
) -> Result<Option<Job>, StoreError> {
    let sql = format!("select {COLUMNS} from job where id = ? and merchant_id = ?");
    sqlx::query_as(sqlx::AssertSqlSafe(sql))
        .bind(id.0)
        .bind(merchant.0)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read a job"))
}

/// Returns a merchant's job under the key of its request.
pub async fn by_request(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    request_id: &RequestId,
) -> Result<Option<Job>, StoreError> {
    let sql = format!("select {COLUMNS} from job where merchant_id = ? and request_key = ?");
    sqlx::query_as(sqlx::AssertSqlSafe(sql))
        .bind(merchant.0)
        .bind(request_id.as_str().as_bytes())
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read a job by its key"))
}

/// Returns a merchant's jobs that have not ended, the oldest first. Until the transaction ends, other callers wait, so
/// none can create another job.
pub async fn open(
    transaction: &mut MySqlConnection,
    merchant: MerchantId,
) -> Result<Vec<JobId>, StoreError> {
    merchant::lock(transaction, merchant).await?;
    let sql = "select id from job where state in (?, ?) and merchant_id = ? order by id";
    let ids: Vec<i64> = sqlx::query_scalar(sql)
        .bind(JobState::Running.code())
        .bind(JobState::Cancelling.code())
        .bind(merchant.0)
        .fetch_all(transaction)
        .await
        .map_err(StoreError::query("list the merchant's open jobs"))?;
    Ok(ids.into_iter().map(JobId).collect())
}

/// Takes a job for one turn: the longest waiting one of the longest waiting merchant. No other worker takes it for
/// `time`, by the server's clock. `None`: no job is due.
pub async fn take(
    connection: &mut MySqlConnection,
    owner: &str,
    time: Duration,
) -> Result<Option<Job>, StoreError> {
    let candidates: Vec<(i64, i64)> = sqlx::query_as(
        "select id, merchant_id from job where state in (?, ?) and next_at <= utc_timestamp(3) \
         and (owned_until is null or owned_until <= utc_timestamp(3)) \
         order by (select max(other.served_at) from job other \
          where other.state in (?, ?) and other.merchant_id = job.merchant_id), served_at, id limit ?",
    )
    .bind(JobState::Running.code())
    .bind(JobState::Cancelling.code())
    .bind(JobState::Running.code())
    .bind(JobState::Cancelling.code())
    .bind(CANDIDATES_MAX)
    .fetch_all(&mut *connection)
    .await
    .map_err(StoreError::query("look for a job"))?;
    for (id, merchant) in candidates {
        let taken = sqlx::query(
            "update job set owner = ?, owned_until = utc_timestamp(3) + interval ? microsecond, \
             served_at = utc_timestamp(3) where id = ? and state in (?, ?) and next_at <= utc_timestamp(3) \
             and (owned_until is null or owned_until <= utc_timestamp(3))",
        )
        .bind(owner)
        .bind(micros(time))
        .bind(id)
        .bind(JobState::Running.code())
        .bind(JobState::Cancelling.code())
        .execute(&mut *connection)
        .await
        .map_err(StoreError::query("take a job"))?;
        if taken.rows_affected() == 1 {
            return get(connection, MerchantId(merchant), JobId(id)).await;
        }
    }
    Ok(None)
}

/// Rows that were begun and may still land. A cancelled job waits for them, and then finds what landed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnderWay<'a> {
    /// The job's `waits_for` meanwhile, which marks that there are such rows.
    pub code: &'a str,
    /// After this time each has landed or never will.
    pub lands_within: Duration,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnEnd<'a> {
    /// The next turn begins behind this row.
    pub after_row: u32,
    /// Code of what rows wait for.
    pub waits_for: Option<&'a str>,
    /// The next turn begins no earlier.
    pub pause: Duration,
    /// Earliest next turn if the job was cancelled meanwhile.
    pub pause_if_cancelling: Duration,
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Ends a turn. Returns whether the lease was still `owner`'s; if not, roll back.
pub async fn end_turn(
    transaction: &mut MySqlConnection,
    id: JobId,
    owner: &str,
    end: TurnEnd<'_>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "update job set owner = null, owned_until = null, after_row = ?, waits_for = ?, \
         next_at = utc_timestamp(3) + interval if(state = ?, ?, ?) microsecond \
         where id = ? and owner = ?",
    )
    .bind(end.after_row)
    .bind(end.waits_for)
    .bind(JobState::Cancelling.code())
    .bind(micros(end.pause_if_cancelling))
    .bind(micros(end.pause))
    .bind(id.0)
    .bind(owner)
    .execute(transaction)
    .await
    .map_err(StoreError::query("end a job's turn"))?;
    Ok(done.rows_affected() == 1)
}

/// Releases the leases of `owner`, which stops or failed during a turn: its rows may be under way.
///
/// # Errors
/// The statement fails. The leases then expire by themselves.
pub async fn release(
    connection: &mut MySqlConnection,
    owner: &str,
    under_way: UnderWay<'_>,
) -> Result<(), StoreError> {
    sqlx::query(
        "update job set owner = null, owned_until = null, waits_for = ?, \
         next_at = if(state = ?, utc_timestamp(3) + interval ? microsecond, next_at) \
         where state in (?, ?) and owner = ?",
    )
    .bind(under_way.code)
    .bind(JobState::Cancelling.code())
    .bind(micros(under_way.lands_within))
    .bind(JobState::Running.code())
    .bind(JobState::Cancelling.code())
    .bind(owner)
    .execute(connection)
    .await
    .map_err(StoreError::query("release a job"))?;
    Ok(())
}

/// Puts off by `pause` the end of a job whose rows all have their outcome or are being cancelled. The caller decides
/// what to try again then. Does nothing if the lease is not `owner`'s any more.
pub async fn put_end_off(
    connection: &mut MySqlConnection,
    id: JobId,
    owner: &str,
    waits_for: &str,
    pause: Duration,
) -> Result<(), StoreError> {
    sqlx::query(
        "update job set owner = null, owned_until = null, waits_for = ?, \
         ending_since = coalesce(ending_since, utc_timestamp(3)), \
         next_at = utc_timestamp(3) + interval ? microsecond where id = ? and owner = ?",
    )
    .bind(waits_for)
    .bind(micros(pause))
    .bind(id.0)
    .bind(owner)
    .execute(connection)
    .await
    .map_err(StoreError::query("put off the end of a job"))?;
    Ok(())
}

/// Ends a job whose rows all have their outcome. Returns whether the lease was still `owner`'s; if not, roll back.
pub async fn end(
    transaction: &mut MySqlConnection,
    job: &Job,
    owner: &str,
    now: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let state =
        if job.state == JobState::Cancelling { JobState::Cancelled } else { JobState::Finished };
    // A job cancelled at this moment has all its outcomes already: it has finished.
    let done = sqlx::query(
        "update job set state = ?, owner = null, owned_until = null, waits_for = null, ended_at = ? \
         where id = ? and owner = ?",
    )
    .bind(state.code())
    .bind(datetime(now))
    .bind(job.id.0)
    .bind(owner)
    .execute(transaction)
    .await
    .map_err(StoreError::query("end a job"))?;
    Ok(done.rows_affected() == 1)
}

/// Marks a running job as cancelling; it ends once each row under way has landed or never will. Returns whether that
/// changed anything.
pub async fn cancel(
    transaction: &mut MySqlConnection,
    merchant: MerchantId,
    id: JobId,
    under_way: UnderWay<'_>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "update job set state = ?, \
         next_at = utc_timestamp(3) + interval if(waits_for = ?, ?, 0) microsecond \
         where id = ? and merchant_id = ? and state = ?",
    )
    .bind(JobState::Cancelling.code())
    .bind(under_way.code)
    .bind(micros(under_way.lands_within))
    .bind(id.0)
    .bind(merchant.0)
    .bind(JobState::Running.code())
    .execute(transaction)
    .await
    .map_err(StoreError::query("cancel a job"))?;
    Ok(done.rows_affected() == 1)
}

/// Returns how many rows of a job have each outcome; outcomes of no row are absent.
pub async fn counts(
    connection: &mut MySqlConnection,
    id: JobId,
) -> Result<Vec<(RowOutcome, i64)>, StoreError> {
    let rows: Vec<(Code, i64)> = sqlx::query_as(
        "select outcome, count(*) from job_row where job_id = ? group by outcome order by outcome",
    )
    .bind(id.0)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("count a job's rows"))?;
    let read = |(code, count): (Code, i64)| -> Result<(RowOutcome, i64), StoreError> {
        Ok((RowOutcome::try_from(code)?, count))
    };
    rows.into_iter().map(read).collect()
}

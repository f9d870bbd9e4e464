//! State of the jobs of all merchants, for metrics and the log.

use coupon::{JobId, JobState};
use sqlx::{FromRow, MySqlConnection};

use crate::StoreError;

/// Jobs that have not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenJobs {
    /// Rows are being granted, or will be in the next turn.
    pub granting: i64,
    /// Rows wait for something to pass, e.g. a pause of their template.
    pub waiting: i64,
    pub cancelling: i64,
    /// The one that was created first; `None` if all have ended.
    pub oldest: Option<OldestJob>,
}

/// The oldest job that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct OldestJob {
    #[sqlx(try_from = "i64")]
    pub id: JobId,
    /// Code of what its rows wait for.
    pub waits_for: Option<String>,
    /// Microseconds since its creation, by the server's clock; below 0 if the creating api's clock was ahead.
    pub age_micros: i64,
}

/// Counts the jobs that have not ended.
pub async fn open(connection: &mut MySqlConnection) -> Result<OpenJobs, StoreError> {
    let running = JobState::Running.code();
    let cancelling = JobState::Cancelling.code();
    let (granting, waiting, cancelled): (i64, i64, i64) = sqlx::query_as(
        "select cast(coalesce(sum(state = ? and waits_for is null), 0) as signed), \
         cast(coalesce(sum(state = ? and waits_for is not null), 0) as signed), \
         cast(coalesce(sum(state = ?), 0) as signed) from job where state in (?, ?)",
    )
    .bind(running)
    .bind(running)
    .bind(cancelling)
    .bind(running)
    .bind(cancelling)
    .fetch_one(&mut *connection)
    .await
    .map_err(StoreError::query("count the open jobs"))?;
    let oldest: Option<OldestJob> = sqlx::query_as(
        "select id, waits_for, \
         cast(timestampdiff(microsecond, created_at, utc_timestamp(3)) as signed) as age_micros \
         from job where state in (?, ?) order by created_at, id limit 1",
    )
    .bind(running)
    .bind(cancelling)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("read the oldest open job"))?;
    Ok(OpenJobs { granting, waiting, cancelling: cancelled, oldest })
}

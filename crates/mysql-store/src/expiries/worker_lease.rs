//! `worker_lease`: the worker numbers under which processes generate ids.

use std::time::Duration;

use sqlx::MySqlConnection;

use crate::{StoreError, connect};

/// Worker numbers that fit a snowflake id: ten bits.
pub const WORKERS: u16 = 1024;

/// A worker number that this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerLease {
    pub worker: u16,
    /// No id may be generated for this time or earlier, in milliseconds since 1970, because an earlier holder may have
    /// done so.
    pub last_ms: i64,
}

/// Takes the lowest free worker number for `time`. Returns `None` if all are taken.
///
/// Skips numbers under which ids may exist for a time after `reach_ms` (milliseconds since 1970): the clock of their
/// last holder was ahead, and the caller would have to wait until its own clock reaches that time.
///
/// # Errors
/// A statement fails.
pub async fn take(
    connection: &mut MySqlConnection,
    holder: &str,
    time: Duration,
    reach_ms: i64,
) -> Result<Option<WorkerLease>, StoreError> {
    // Processes that start together add the same next number, and one of them gets it. Each further round means that
    // another process has just got a number.
    for _ in 0..WORKERS {
        match take_once(connection, holder, time, reach_ms).await {
            Ok(Some(lease)) => return Ok(Some(lease)),
            Ok(None) if count(connection).await? >= i64::from(WORKERS) => return Ok(None),
            Ok(None) => {}
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

async fn count(connection: &mut MySqlConnection) -> Result<i64, StoreError> {
    sqlx::query_scalar("select count(*) from worker_lease")
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("count the worker numbers"))
}

async fn take_once(
    connection: &mut MySqlConnection,
    holder: &str,
    time: Duration,
    reach_ms: i64,
) -> Result<Option<WorkerLease>, StoreError> {
    let mut transaction = connect::begin_on(connection).await?;
    sqlx::query(
        "insert ignore into worker_lease (worker, holder, until, last_ms) \
         select coalesce(max(worker) + 1, 0), '', utc_timestamp(3), 0 from worker_lease \
         having coalesce(max(worker) + 1, 0) < ?",
    )
    .bind(WORKERS)
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("add a worker number"))?;
    let free: Option<(i16, i64)> = sqlx::query_as(
        "select worker, last_ms from worker_lease where until <= utc_timestamp(3) and last_ms <= ? \
         order by worker limit 1 for update skip locked",
    )
    .bind(reach_ms)
    .fetch_optional(&mut *transaction)
    .await
    .map_err(StoreError::query("find a worker number"))?;
    let Some((worker, last_ms)) = free else { return Ok(None) };
    sqlx::query(
        "update worker_lease set holder = ?, until = utc_timestamp(3) + interval ? microsecond \
         where worker = ?",
    )
    .bind(holder)
    .bind(micros(time))
    .bind(worker)
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("take a worker number"))?;
    transaction.commit().await.map_err(StoreError::query("take a worker number"))?;
    Ok(Some(WorkerLease { worker: worker.unsigned_abs(), last_ms }))
}

/// Renews a lease for `time`, and records that ids up to `last_ms` may be generated before it ends. Returns whether
/// `holder` still has it.
///
/// # Errors
/// The statement fails. The outcome is unknown, and the old end of the lease applies.
pub async fn renew(
    connection: &mut MySqlConnection,
    worker: u16,
    holder: &str,
    time: Duration,
    last_ms: i64,
) -> Result<bool, StoreError> {
    let renewed = sqlx::query(
        "update worker_lease set until = utc_timestamp(3) + interval ? microsecond, \
         last_ms = greatest(last_ms, ?) where worker = ? and holder = ?",
    )
    .bind(micros(time))
    .bind(last_ms)
    .bind(worker)
    .bind(holder)
    .execute(connection)
    .await
    .map_err(StoreError::query("renew the worker number"))?;
    Ok(renewed.rows_affected() == 1)
}

/// Releases the number after the last id, which was generated for `last_ms` or earlier.
///
/// # Errors
/// The statement fails. The lease then expires by itself.
pub async fn release(
    connection: &mut MySqlConnection,
    worker: u16,
    holder: &str,
    last_ms: i64,
) -> Result<(), StoreError> {
    sqlx::query(
        "update worker_lease set until = utc_timestamp(3), last_ms = ? \
         where worker = ? and holder = ?",
    )
    .bind(last_ms)
    .bind(worker)
    .bind(holder)
    .execute(connection)
    .await
    .map_err(StoreError::query("release the worker number"))?;
    Ok(())
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

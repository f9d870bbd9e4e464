//! `worker_lease`: the worker numbers under which processes generate ids.

use std::{collections::HashSet, time::Duration};

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
    pub before_ms: i64,
    /// Nor for a later time than this.
    pub last_ms: i64,
}

/// What a process asks for.
#[derive(Debug, Clone, Copy)]
pub struct Taking<'a> {
    /// A name that no other process has.
    pub holder: &'a str,
    /// For how long the number is wanted, and how far its first ids reach.
    pub time: Duration,
    /// The time of ids that the process would make now, in milliseconds since 1970.
    pub now_ms: i64,
    /// How far `before_ms` may be ahead of that. The caller has to wait until its own clock is there.
    pub wait_max: Duration,
    /// The number that is tried first, then those behind it. Random numbers make it unlikely that a process gets one
    /// whose taking a failover of MySQL has lost.
    pub first: u16,
}

/// Takes a free worker number. Returns `None` if all are taken, or were used by a clock that was ahead.
pub async fn take(
    connection: &mut MySqlConnection,
    taking: &Taking<'_>,
) -> Result<Option<WorkerLease>, StoreError> {
    let reach_ms = taking.now_ms.saturating_add(millis(taking.wait_max));
    let in_use = in_use(connection, reach_ms).await?;
    let numbers = (0..WORKERS).map(|number| (taking.first + number) % WORKERS);
    for worker in numbers.filter(|worker| !in_use.contains(worker)) {
        match take_one(connection, worker, taking, reach_ms).await {
            Ok(Some(lease)) => return Ok(Some(lease)),
            // Another process has just got it.
            Ok(None) => {}
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Returns the numbers that cannot be taken.
async fn in_use(
    connection: &mut MySqlConnection,
    reach_ms: i64,
) -> Result<HashSet<u16>, StoreError> {
    let numbers: Vec<i16> = sqlx::query_scalar(
        "select worker from worker_lease where until > utc_timestamp(3) or last_ms > ?",
    )
    .bind(reach_ms)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the worker numbers in use"))?;
    Ok(numbers.into_iter().map(i16::cast_unsigned).collect())
}

async fn take_one(
    connection: &mut MySqlConnection,
    worker: u16,
    taking: &Taking<'_>,
    reach_ms: i64,
) -> Result<Option<WorkerLease>, StoreError> {
    let mut transaction = connect::begin_on(connection).await?;
    sqlx::query(
        "insert ignore into worker_lease (worker, holder, until, last_ms) \
         values (?, '', utc_timestamp(3), 0)",
    )
    .bind(worker)
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("add a worker number"))?;
    let before_ms: Option<i64> = sqlx::query_scalar(
        "select last_ms from worker_lease \
         where worker = ? and until <= utc_timestamp(3) and last_ms <= ? for update skip locked",
    )
    .bind(worker)
    .bind(reach_ms)
    .fetch_optional(&mut *transaction)
    .await
    .map_err(StoreError::query("find a worker number"))?;
    let Some(before_ms) = before_ms else { return Ok(None) };
    let last_ms = before_ms.max(taking.now_ms).saturating_add(millis(taking.time));
    // The range is written with the holder, so that no failover loses one and keeps the other.
    sqlx::query(
        "update worker_lease set holder = ?, until = utc_timestamp(3) + interval ? microsecond, \
         last_ms = ? where worker = ?",
    )
    .bind(taking.holder)
    .bind(micros(taking.time))
    .bind(last_ms)
    .bind(worker)
    .execute(&mut *transaction)
    .await
    .map_err(StoreError::query("take a worker number"))?;
    transaction.commit().await.map_err(StoreError::query("take a worker number"))?;
    Ok(Some(WorkerLease { worker, before_ms, last_ms }))
}

/// Renews a lease for `time`, and records that ids up to `last_ms` may be generated before it ends. Returns what was
/// recorded before, or `None` if `holder` no longer has the number.
///
/// # Errors
/// A statement fails. The outcome is unknown, and what was recorded before applies.
pub async fn renew(
    connection: &mut MySqlConnection,
    worker: u16,
    holder: &str,
    time: Duration,
    last_ms: i64,
) -> Result<Option<i64>, StoreError> {
    let recorded: Option<i64> =
        sqlx::query_scalar("select last_ms from worker_lease where worker = ? and holder = ?")
            .bind(worker)
            .bind(holder)
            .fetch_optional(&mut *connection)
            .await
            .map_err(StoreError::query("read the worker number"))?;
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
    Ok(recorded.filter(|_| renewed.rows_affected() == 1))
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

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

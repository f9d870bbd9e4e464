//! Named leases: they keep two processes from doing the same work. Correctness never depends on
//! them.

use std::time::Duration;

use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::{StoreError, rows};

/// Takes or renews a lease for `time`. Returns whether `holder` has it now.
pub async fn take(
    connection: &mut MySqlConnection,
    name: &str,
    holder: &str,
    time: Duration,
) -> Result<bool, StoreError> {
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    sqlx::query("insert ignore into lease (name, holder, until) values (?, ?, utc_timestamp(3))")
        .bind(name)
        .bind(holder)
        .execute(&mut *connection)
        .await
        .map_err(StoreError::query("create a lease"))?;
    let taken = sqlx::query(
        "update lease set holder = ?, until = utc_timestamp(3) + interval ? microsecond \
         where name = ? and (holder = ? or until <= utc_timestamp(3))",
    )
    .bind(holder)
    .bind(micros)
    .bind(name)
    .bind(holder)
    .execute(connection)
    .await
    .map_err(StoreError::query("take a lease"))?;
    Ok(taken.rows_affected() == 1)
}

/// Renews for `time` the leases that `holder` has or that have expired. Many take little more time than one. A lease
/// that was never taken is left out.
pub async fn renew_all(
    connection: &mut MySqlConnection,
    names: &[String],
    holder: &str,
    time: Duration,
) -> Result<(), StoreError> {
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    for run in rows::runs(names) {
        let head = "update lease set holder = ?, until = utc_timestamp(3) + interval ? microsecond \
                    where (holder = ? or until <= utc_timestamp(3)) and name in (";
        let sql = rows::repeat(head, "?", ",", run.len(), ")");
        let query = sqlx::query(AssertSqlSafe(sql)).bind(holder).bind(micros).bind(holder);
        run.iter()
            .fold(query, sqlx::query::Query::bind)
            .execute(&mut *connection)
            .await
            .map_err(StoreError::query("renew leases"))?;
    }
    Ok(())
}

/// Releases a lease, if `holder` still has it.
///
/// # Errors
/// The statement fails. The lease then expires by itself.
pub async fn release(
    connection: &mut MySqlConnection,
    name: &str,
    holder: &str,
) -> Result<(), StoreError> {
    sqlx::query("update lease set until = utc_timestamp(3) where name = ? and holder = ?")
        .bind(name)
        .bind(holder)
        .execute(connection)
        .await
        .map_err(StoreError::query("release a lease"))?;
    Ok(())
}

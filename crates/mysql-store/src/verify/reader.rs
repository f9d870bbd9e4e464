//! The verifier's connections: they only read, and the server works on none of their statements for long after
//! their process has gone.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sqlx::{AssertSqlSafe, Executor, MySqlConnection, MySqlPool, mysql::MySqlPoolOptions};

use crate::{StoreError, connect};

/// How long the server works on one statement at most: ten times what the largest one takes for ten million
/// coupons. It is what a process that was killed leaves behind at most; one that is asked to stop leaves nothing.
pub const STATEMENT_MAX: Duration = Duration::from_secs(300);

/// How long a caller waits for a connection.
const ACQUIRE_MAX: Duration = Duration::from_secs(10);

/// A pool that reads, and knows its connections by the server's numbers.
#[derive(Debug, Clone)]
pub struct Reader {
    pool: MySqlPool,
    url: String,
    numbers: Arc<Mutex<BTreeSet<u64>>>,
}

impl Reader {
    /// At most `connections` to the server at `url`.
    ///
    /// # Errors
    /// The URL is not one, or the server cannot be reached.
    pub async fn connect(url: &str, connections: u32) -> Result<Self, StoreError> {
        let numbers: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
        let known = Arc::clone(&numbers);
        let pool = MySqlPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(ACQUIRE_MAX)
            .after_connect(move |connection, _| {
                let known = Arc::clone(&known);
                Box::pin(async move {
                    let number = prepare(connection).await?;
                    known.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
                    Ok(())
                })
            })
            .connect_with(connect::options(url)?)
            .await
            .map_err(StoreError::query("connect"))?;
        Ok(Self { pool, url: url.to_owned(), numbers })
    }

    /// The pool.
    pub fn pool(&self) -> &MySqlPool {
        &self.pool
    }

    /// Ends what the server is working on for any of these connections.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn end_statements(&self) -> Result<(), StoreError> {
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut connection = connect::single(&self.url).await?;
        for number in numbers {
            // A connection that has gone has no statement either.
            drop(connection.execute(AssertSqlSafe(format!("kill {number}"))).await);
        }
        Ok(())
    }
}

/// Sets a connection up, and tells its number.
async fn prepare(connection: &mut MySqlConnection) -> Result<u64, sqlx::Error> {
    let version: String =
        sqlx::query_scalar("select version()").fetch_one(&mut *connection).await?;
    let limit = if version.to_ascii_lowercase().contains("mariadb") {
        format!("max_statement_time = {}", STATEMENT_MAX.as_secs())
    } else {
        format!("max_execution_time = {}", STATEMENT_MAX.as_millis())
    };
    connection.execute("set session transaction isolation level read committed").await?;
    connection.execute("set session transaction read only").await?;
    connection.execute(AssertSqlSafe(format!("set session {limit}"))).await?;
    sqlx::query_scalar("select cast(connection_id() as unsigned)").fetch_one(connection).await
}

/// The number that a statement answers: for tests.
///
/// # Errors
/// The statement fails, or answers something else.
pub async fn number(connection: &mut MySqlConnection, sql: &str) -> Result<i64, StoreError> {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("ask for a number"))
}

/// How many rows the server has read for this connection: for tests of what a statement costs.
///
/// # Errors
/// The statement fails.
pub async fn rows_read(connection: &mut MySqlConnection) -> Result<i64, StoreError> {
    let rows: Vec<(String, String)> = sqlx::query_as("show session status like 'Handler_read%'")
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("count what was read"))?;
    Ok(rows.iter().filter_map(|(_, value)| value.parse::<i64>().ok()).sum())
}

//! The verifier's connections. They only read, and the server soon stops working on their statements after the process
//! is gone.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sqlx::{AssertSqlSafe, Executor, MySqlConnection, MySqlPool, mysql::MySqlPoolOptions};

use crate::{
    StoreError,
    connect::{self, session},
};

/// Longest time that the server works on one statement: ten times what the largest one takes for ten million coupons. A
/// killed process may leave a statement running for this long; one that is asked to stop leaves none.
pub const STATEMENT_MAX: Duration = Duration::from_secs(300);

/// Longest wait for a connection.
const ACQUIRE_MAX: Duration = Duration::from_secs(10);

/// A pool for reads that knows the server's ids of its connections.
#[derive(Debug, Clone)]
pub struct Reader {
    pool: MySqlPool,
    url: String,
    numbers: Arc<Mutex<BTreeSet<u64>>>,
}

impl Reader {
    /// Opens at most `connections` to the server at `url`.
    ///
    /// # Errors
    /// The URL is invalid, or the server cannot be reached.
    pub async fn connect(url: &str, connections: u32) -> Result<Self, StoreError> {
        let numbers: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
        let known = Arc::clone(&numbers);
        let options = connect::options(url)?;
        let opening = session::opening(&options, &kind());
        let pool = MySqlPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(ACQUIRE_MAX)
            .after_connect(move |connection, _| {
                let known = Arc::clone(&known);
                let opening = opening.clone();
                Box::pin(async move {
                    session::set_up(connection, &opening).await?;
                    let number = number_of(connection).await?;
                    known.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
                    Ok(())
                })
            })
            .connect_with(options)
            .await
            .map_err(StoreError::query("connect"))?;
        Ok(Self { pool, url: url.to_owned(), numbers })
    }

    pub fn pool(&self) -> &MySqlPool {
        &self.pool
    }

    /// Ends all statements of these connections on the server.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub async fn end_statements(&self) -> Result<(), StoreError> {
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut connection = connect::single(&self.url).await?;
        for number in numbers {
            // A connection that is gone has no statement either.
            drop(connection.execute(AssertSqlSafe(format!("kill {number}"))).await);
        }
        Ok(())
    }
}

/// The session of a reader, beside what all connections have: it cannot write, and [`STATEMENT_MAX`] bounds each statement.
fn kind() -> String {
    format!(
        "set session transaction read only; \
         set session wait_timeout = 28800 \
         /*M! , session max_statement_time = {} */ /*!80000 , session max_execution_time = {} */",
        STATEMENT_MAX.as_secs(),
        STATEMENT_MAX.as_millis()
    )
}

/// Returns the server's id of a connection.
async fn number_of(connection: &mut MySqlConnection) -> Result<u64, sqlx::Error> {
    sqlx::query_scalar("select cast(connection_id() as unsigned)").fetch_one(connection).await
}

/// Returns the number that a statement selects, for tests.
///
/// # Errors
/// The statement fails, or selects something else.
pub async fn number(connection: &mut MySqlConnection, sql: &str) -> Result<i64, StoreError> {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("ask for a number"))
}

/// MySQL's error while it lists its sessions: one of them runs a statement with bytes that are not text, such as a hash
/// between quotes. It may be a session of any test on the server, whatever the columns and rows that are asked for.
const CANNOT_LIST: u16 = 3854;

/// Returns the ids of the sessions in `information_schema.processlist` for which `condition` holds. `None` if MySQL
/// cannot list its sessions at this moment.
///
/// # Errors
/// The statement fails for another reason.
pub async fn sessions(
    connection: &mut MySqlConnection,
    condition: &str,
) -> Result<Option<Vec<i64>>, StoreError> {
    let sql =
        format!("select cast(id as signed) from information_schema.processlist where {condition}");
    let listed = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(connection).await;
    match listed.map_err(StoreError::query("list the sessions")) {
        Ok(ids) => Ok(Some(ids)),
        Err(error) if error.number() == Some(CANNOT_LIST) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns how many rows the server has read for this connection, for tests of the cost of statements.
pub async fn rows_read(connection: &mut MySqlConnection) -> Result<i64, StoreError> {
    status(connection, "session", "Handler_read%").await
}

/// Returns the sum of the server's counters whose names are like `pattern`, for tests of the cost of statements.
pub async fn counted(connection: &mut MySqlConnection, pattern: &str) -> Result<i64, StoreError> {
    status(connection, "global", pattern).await
}

async fn status(
    connection: &mut MySqlConnection,
    of: &str,
    pattern: &str,
) -> Result<i64, StoreError> {
    // The only statement that both servers support.
    let sql = format!("show {of} status like '{pattern}'");
    let rows: Vec<(String, String)> = sqlx::query_as(AssertSqlSafe(sql))
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("count what was read"))?;
    Ok(rows.iter().filter_map(|(_, value)| value.parse::<i64>().ok()).sum())
}

//! Connections: pools for reads and operators, single ones for landers.

use std::{str::FromStr, time::Duration};

use sqlx::{
    ConnectOptions, Connection, Executor, MySql, MySqlConnection, MySqlPool,
    mysql::{MySqlConnectOptions, MySqlPoolOptions},
    pool::PoolConnection,
};

use crate::StoreError;

/// How long a caller waits for a pooled connection: longer than a checkpoint stall, shorter than a
/// handler's deadline.
const ACQUIRE_MAX: Duration = Duration::from_secs(3);

/// Distinct statements of one connection: every fixed one, and the sizes of the batched ones.
const STATEMENTS_CACHED: usize = 200;

/// A lander gives up waiting for a row after this; the row's holder may be a stopped process, which
/// loses its own locks after [`LANDER_IDLE_SECONDS`].
const LANDER_LOCK_WAIT_SECONDS: u32 = 3;

/// The server ends a lander's connection that says nothing for this long, so that a process stopped
/// inside a transaction frees the hot row. Landers ping more often than this.
pub const LANDER_IDLE_SECONDS: u32 = 5;

/// Parses a `mysql://` URL.
///
/// # Errors
/// It is not one.
pub fn options(url: &str) -> Result<MySqlConnectOptions, StoreError> {
    // The driver itself takes any scheme and would try host and port of another server's URL.
    let parsed = if url.starts_with("mysql://") {
        MySqlConnectOptions::from_str(url)
    } else {
        Err(sqlx::Error::Configuration("the scheme is not mysql".into()))
    };
    parsed
        .map(|options| {
            options
                .statement_cache_capacity(STATEMENTS_CACHED)
                .charset("utf8mb4")
                .disable_statement_logging()
        })
        .map_err(|source| StoreError::Url { what: "DATABASE_URL", source })
}

/// The database that a URL names.
///
/// # Errors
/// It is not a `mysql://` URL, or names none.
pub fn database_of(url: &str) -> Result<String, StoreError> {
    let options = options(url)?;
    options.get_database().map(str::to_owned).ok_or_else(|| {
        StoreError::Settings("DATABASE_URL names no database: end it with /coupon".to_owned())
    })
}

/// A pool of at most `connections` for reads and single statements, READ COMMITTED.
///
/// # Errors
/// The URL is not one, or the server cannot be reached.
pub async fn pool(url: &str, connections: u32) -> Result<MySqlPool, StoreError> {
    MySqlPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_MAX)
        .after_connect(|connection, _| {
            Box::pin(async move {
                connection
                    .execute("set session transaction isolation level read committed")
                    .await?;
                Ok(())
            })
        })
        .connect_with(options(url)?)
        .await
        .map_err(StoreError::query("connect"))
}

/// A connection of the pool.
///
/// # Errors
/// None was free in time, or the server cannot be reached.
pub async fn acquire(pool: &MySqlPool) -> Result<PoolConnection<MySql>, StoreError> {
    pool.acquire().await.map_err(StoreError::query("get a connection"))
}

/// One connection for one-off work, READ COMMITTED.
///
/// # Errors
/// The URL is not one, or the server cannot be reached.
pub async fn single(url: &str) -> Result<MySqlConnection, StoreError> {
    let mut connection = MySqlConnection::connect_with(&options(url)?)
        .await
        .map_err(StoreError::query("connect"))?;
    connection
        .execute("set session transaction isolation level read committed")
        .await
        .map_err(StoreError::query("set the isolation level"))?;
    Ok(connection)
}

/// A lander's own connection: it waits shortly for locks, and loses its own soon if it falls silent.
///
/// # Errors
/// The URL is not one, or the server cannot be reached.
pub async fn lander(url: &str) -> Result<MySqlConnection, StoreError> {
    let mut connection = single(url).await?;
    let settings = format!(
        "set session innodb_lock_wait_timeout = {LANDER_LOCK_WAIT_SECONDS}, \
         session wait_timeout = {LANDER_IDLE_SECONDS}"
    );
    connection
        .execute(sqlx::AssertSqlSafe(settings))
        .await
        .map_err(StoreError::query("set a lander's session"))?;
    Ok(connection)
}

/// Keeps an idle connection alive.
///
/// # Errors
/// The connection is lost.
pub async fn ping(connection: &mut MySqlConnection) -> Result<(), StoreError> {
    connection.ping().await.map_err(StoreError::query("ping"))
}

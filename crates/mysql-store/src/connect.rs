//! Connections: pools for reads and operators, single ones for landers.
//!
//! Nobody waits for ever for a MySQL that is stopped or gone without a word: a pool gives up soon, a row
//! that is held is given up by the server, and [`within`] gives up the answer to a statement. What it
//! gave up is unknown, as after any lost connection.

use std::{io, str::FromStr, time::Duration};

use sqlx::{
    ConnectOptions, Connection, Executor, MySql, MySqlConnection, MySqlPool,
    mysql::{MySqlConnectOptions, MySqlPoolOptions},
    pool::PoolConnection,
};
use tokio::time::timeout;

use crate::StoreError;

/// Whether and how a connection is encrypted: `ssl-mode` of a URL.
pub use sqlx::mysql::MySqlSslMode as SslMode;

/// How long a caller waits for a pooled connection: longer than a checkpoint stall, shorter than a
/// handler's deadline.
const ACQUIRE_MAX: Duration = Duration::from_secs(3);

/// How long a caller waits for what it asks of MySQL by a pooled connection: longer than for any row.
pub const ANSWER_MAX: Duration = Duration::from_secs(8);

/// What a pooled connection is like between transactions. A statement waits for a row longer than a stopped process can
/// hold one ([`IDLE_SECONDS`]), so that it hears how that ended.
const POOL_SESSION: &str =
    "set session innodb_lock_wait_timeout = 6, session wait_timeout = default";

/// The same for a connection that was used, and an error on a server that takes no writes by now: such a connection is
/// closed, and the next one may lead to the new primary. There the selection has two rows, which no value can be.
const POOL_SESSION_AGAIN: &str = "set session innodb_lock_wait_timeout = \
     (select 6 union select if(@@global.read_only, 7, 6)), session wait_timeout = default";

/// What a transaction's connection is like: the server ends it if it says nothing for [`IDLE_SECONDS`]. What waits for
/// a row in a process that is stopped gives up before the row's holder is ended, so it never gets the row itself.
const TRANSACTION_SESSION: &str =
    "set session innodb_lock_wait_timeout = 3, session wait_timeout = 5";

/// What a lander's connection is like: as a transaction's, but it waits less for a row, since all the templates of its
/// batch wait with it. One second is the least that the server knows besides none.
const LANDER_SESSION: &str = "set session innodb_lock_wait_timeout = 1, session wait_timeout = 5";

/// Begins a read-only transaction that sees everything as of one moment: the session reads what is committed, so this
/// transaction is told otherwise before it begins.
const SNAPSHOT: &str = "set transaction isolation level repeatable read; \
     start transaction with consistent snapshot, read only";

/// How often a transaction is run that others stand in the way of: three waits of 3 s are longer than a stopped
/// process can hold a row ([`IDLE_SECONDS`]).
const TRANSACTION_TRIES: u32 = 3;

/// How long a connection that comes back to the pool may take to end what was left undone by it, a
/// rollback or the answer to a statement that its caller gave up.
const RELEASE_MAX: Duration = Duration::from_secs(1);

/// The options of a URL that say how a connection is encrypted, by both of the names that the driver takes.
const SSL_OPTIONS: [&str; 8] =
    ["ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "sslcert", "ssl-key", "sslkey"];

/// Distinct statements of one connection: every fixed one, and the sizes of the batched ones.
const STATEMENTS_CACHED: usize = 200;

/// The server ends the connection of a lander or a transaction that says nothing for this long, so that a process
/// stopped inside frees its rows, the hot one above all. Landers ping more often than this.
pub const IDLE_SECONDS: u32 = 5;

/// Parses a `mysql://` URL. TLS is what its `ssl-mode` says, and none where it says nothing: the driver's
/// own default would take whatever certificate a server shows, which costs and protects nobody.
///
/// # Errors
/// It is not one, has certificates and no `ssl-mode`, or hides or misspells the name of an option.
pub fn options(url: &str) -> Result<MySqlConnectOptions, StoreError> {
    // The driver itself takes any scheme and would try host and port of another server's URL.
    let parsed = if url.starts_with("mysql://") {
        MySqlConnectOptions::from_str(url)
    } else {
        Err(sqlx::Error::Configuration("the scheme is not mysql".into()))
    };
    let options = parsed.map_err(|source| StoreError::Url { what: "DATABASE_URL", source })?;
    // The driver looks the host up with the brackets that an IPv6 address has in a URL.
    let in_brackets = options.get_host().strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let bare = in_brackets.map(str::to_owned);
    let options = match bare {
        Some(host) => options.host(&host),
        None => options,
    };
    let options = options
        .statement_cache_capacity(STATEMENTS_CACHED)
        .charset("utf8mb4")
        .disable_statement_logging();
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let names: Vec<&str> =
        query.split('&').map(|option| option.split('=').next().unwrap_or_default()).collect();
    // The driver would read it, and whoever looks for `ssl-mode` here would not find it.
    if let Some(hidden) = names.iter().find(|name| name.contains('%')) {
        return Err(StoreError::Settings(format!(
            "DATABASE_URL has an option {hidden}: spell it out"
        )));
    }
    // It would leave out what looks like one.
    let is_like = |name: &&&str| {
        let name = name.to_ascii_lowercase();
        name.starts_with("ssl") || name.starts_with("tls")
    };
    let mut like = names.iter().filter(is_like);
    if let Some(unknown) = like.find(|name| !SSL_OPTIONS.contains(name)) {
        return Err(StoreError::Settings(format!(
            "DATABASE_URL has an option {unknown}, which is none: {}",
            SSL_OPTIONS.join(", ")
        )));
    }
    let names = |wanted: &[&str]| names.iter().any(|name| wanted.contains(name));
    match (names(&["ssl-mode", "sslmode"]), names(&SSL_OPTIONS[2..])) {
        (true, _) => Ok(options),
        (false, true) => Err(StoreError::Settings(
            "DATABASE_URL names certificates but no ssl-mode: add ssl-mode=VERIFY_IDENTITY"
                .to_owned(),
        )),
        (false, false) => Ok(options.ssl_mode(SslMode::Disabled)),
    }
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
        .after_connect(|connection, _| Box::pin(prepare(connection)))
        .after_release(|connection, _| Box::pin(is_fit(connection)))
        .connect_with(options(url)?)
        .await
        .map_err(StoreError::query("connect"))
}

async fn prepare(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    connection.execute("set session transaction isolation level read committed").await?;
    connection.execute(POOL_SESSION).await?;
    Ok(())
}

/// Whether a connection that comes back can be used again; it is as it was before a transaction then. The driver reads
/// the rest of what was asked before this statement; a connection that stays silent is closed, and so is one to a server
/// that was demoted.
async fn is_fit(connection: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
    match timeout(RELEASE_MAX, connection.execute(POOL_SESSION_AGAIN)).await {
        Ok(answered) => answered.map(|_| true),
        Err(_) => Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into())),
    }
}

/// Waits for what is asked of MySQL by a pooled connection, at most [`ANSWER_MAX`]. A connection on which
/// it gave up must not be used again; dropped, it is closed unless the answer comes soon.
///
/// # Errors
/// No answer came, and what it would have been is unknown; else whatever `work` says.
pub fn within<T, E: From<StoreError>>(
    work: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T, E>> {
    // What asks MySQL is kilobytes, and would be part of every claim's task, which seldom asks.
    let work = Box::pin(work);
    async { timeout(ANSWER_MAX, work).await.unwrap_or_else(|_| Err(StoreError::Silent.into())) }
}

/// A connection of the pool.
///
/// # Errors
/// None was free in time, or the server cannot be reached.
pub async fn acquire(pool: &MySqlPool) -> Result<PoolConnection<MySql>, StoreError> {
    pool.acquire().await.map_err(StoreError::query("get a connection"))
}

/// A transaction on one of a pool's connections; rolled back if it is dropped. What begins one of its own
/// inside, as functions of this crate do, is a part of it.
pub type Transaction = sqlx::Transaction<'static, MySql>;

/// Begins a transaction on a connection of the pool. If the process falls silent inside, the server rolls it back after
/// [`IDLE_SECONDS`]: every transaction but a landing begins here.
///
/// # Errors
/// No connection was free in time, or the server cannot be reached.
pub async fn begin(pool: &MySqlPool) -> Result<Transaction, StoreError> {
    let mut transaction = pool.begin().await.map_err(StoreError::query("begin"))?;
    let limited = transaction.execute(TRANSACTION_SESSION).await;
    limited.map_err(StoreError::query("bound a transaction"))?;
    Ok(transaction)
}

/// The same on a connection that the caller has; between transactions it must not stay silent for so long any more.
pub(crate) async fn begin_on(
    connection: &mut MySqlConnection,
) -> Result<sqlx::Transaction<'_, MySql>, StoreError> {
    let limited = connection.execute(TRANSACTION_SESSION).await;
    limited.map_err(StoreError::query("bound a transaction"))?;
    connection.begin().await.map_err(StoreError::query("begin"))
}

/// Begins a read-only transaction on a connection of the pool: whatever it reads, and whenever, is as of now. If the
/// process falls silent inside, the server ends it as every other.
///
/// # Errors
/// No connection was free in time, or the server cannot be reached.
pub async fn begin_snapshot(pool: &MySqlPool) -> Result<Transaction, StoreError> {
    let begun = pool.begin_with(SNAPSHOT).await;
    let mut transaction = begun.map_err(StoreError::query("begin a snapshot"))?;
    let limited = transaction.execute(TRANSACTION_SESSION).await;
    limited.map_err(StoreError::query("bound a transaction"))?;
    Ok(transaction)
}

/// Runs `work`, a transaction from its begin to its end, again where others stood in its way.
///
/// # Errors
/// Whatever `work` says at last; `conflicts` tells which of its errors are others' doing.
pub async fn retried<T, E, F: Future<Output = Result<T, E>>>(
    mut work: impl FnMut() -> F,
    conflicts: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let mut tries = 1;
    loop {
        match work().await {
            Err(error) if tries < TRANSACTION_TRIES && conflicts(&error) => tries += 1,
            ended => return ended,
        }
    }
}

/// Commits a transaction.
///
/// # Errors
/// The connection is lost; whether it was committed is unknown.
pub async fn commit(transaction: Transaction) -> Result<(), StoreError> {
    transaction.commit().await.map_err(StoreError::query("commit"))
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
    let limited = connection.execute(LANDER_SESSION).await;
    limited.map_err(StoreError::query("set a lander's session"))?;
    Ok(connection)
}

/// Keeps an idle connection alive.
///
/// # Errors
/// The connection is lost.
pub async fn ping(connection: &mut MySqlConnection) -> Result<(), StoreError> {
    connection.ping().await.map_err(StoreError::query("ping"))
}

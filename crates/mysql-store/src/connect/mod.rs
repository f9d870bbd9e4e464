//! Connections: pools for reads and operators, single ones for landers.
//!
//! Every wait for an unresponsive MySQL is bounded: acquiring a pooled connection times out soon, the server ends a
//! wait for a locked row, and [`within`] bounds the wait for an answer. After such a timeout the outcome is unknown, as
//! after any lost connection.

use std::{io, str::FromStr, time::Duration};

use sqlx::{
    ConnectOptions, Connection, Executor, MySql, MySqlConnection, MySqlPool,
    mysql::{MySqlConnectOptions, MySqlPoolOptions},
};
use tokio::time::{Instant, sleep, timeout};

use self::pooled::Abandonable;
use crate::StoreError;
pub use crate::error::ANSWER_MAX;

mod pooled;
pub mod session;

pub use pooled::{Pooled, Transaction};

/// Whether and how a connection is encrypted: `ssl-mode` of a URL.
pub use sqlx::mysql::MySqlSslMode as SslMode;

/// Longest wait for a pooled connection: longer than a checkpoint stall, shorter than a handler's deadline.
const ACQUIRE_MAX: Duration = Duration::from_secs(3);

/// Session of a pooled connection outside transactions, beside [`session::opening`]. A statement waits for a row longer
/// than a stopped process can lock one ([`IDLE_SECONDS`]), so that it sees the outcome. An idle connection lasts eight
/// hours, as by MySQL's own default.
const POOL_SESSION: &str = "set session innodb_lock_wait_timeout = 6, session wait_timeout = 28800";

/// Session of a single connection: both values are MySQL's own defaults.
const SINGLE_SESSION: &str =
    "set session innodb_lock_wait_timeout = 50, session wait_timeout = 28800";

/// Session of a migration. New statements on a table wait behind one that waits for the table, so that is for half a
/// minute at most: without a limit, a forgotten transaction of somebody would stop all claims. MariaDB's `alter_algorithm`
/// would refuse a change that needs another algorithm.
const MIGRATION_SESSION: &str = "set session innodb_lock_wait_timeout = 30, session lock_wait_timeout = 30, \
     session wait_timeout = 28800 /*M! , session alter_algorithm = 'DEFAULT' */";

/// Session of a connection that returns to the pool. On a server that has become read-only it fails: there the
/// subquery returns two rows, which is an error. Such a connection is closed, and the next one may lead to the new
/// primary.
const POOL_SESSION_AGAIN: &str = "set session innodb_lock_wait_timeout = \
     (select 6 union select if(@@global.read_only, 7, 6)), session wait_timeout = 28800";

/// Text of [`TRANSACTION_SESSION`], for `concat!`.
macro_rules! transaction_session {
    () => {
        "set session innodb_lock_wait_timeout = 3, session wait_timeout = 5"
    };
}

/// Session of a transaction. The server ends the connection after [`IDLE_SECONDS`] without a statement. If a process
/// stops while it waits for a row, its wait ends before the server ends the connection that locks the row, so a
/// stopped process never gets it.
const TRANSACTION_SESSION: &str = transaction_session!();

/// Begins a transaction with this session, in one round trip.
const TRANSACTION: &str = concat!(transaction_session!(), "; start transaction");

/// Session of a lander: like a transaction's, with a shorter lock wait, since all templates of its batch wait with it.
/// One second is the server's smallest wait other than none.
const LANDER_SESSION: &str = "set session innodb_lock_wait_timeout = 1, session wait_timeout = 5";

/// Begins a read-only transaction with a transaction's session. It sees everything as of one moment: sessions are READ
/// COMMITTED, so this sets another level for the next transaction only.
const SNAPSHOT: &str = concat!(
    transaction_session!(),
    "; set transaction isolation level repeatable read; \
     start transaction with consistent snapshot, read only"
);

/// Attempts to run a transaction that conflicts with others. Three waits of 3 s are longer than a stopped process can
/// lock a row ([`IDLE_SECONDS`]).
const TRANSACTION_TRIES: u32 = 3;

/// How long a transaction is repeated, beyond [`TRANSACTION_TRIES`], after conflicts that end at once, as deadlocks do:
/// time for some dozen transactions, one after the other, that all want the same rows.
const CONFLICTS_MAX: Duration = Duration::from_secs(2);

/// Longest pause before a repetition. Without one, those that met would meet again.
const REPEAT_AFTER_MAX: Duration = Duration::from_millis(20);

/// Time that a connection returned to the pool has to finish what its caller left open: a rollback, or the answer to an
/// abandoned statement.
const RELEASE_MAX: Duration = Duration::from_secs(1);

/// The URL options for encryption, with both spellings that the driver accepts.
const SSL_OPTIONS: [&str; 8] =
    ["ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "sslcert", "ssl-key", "sslkey"];

/// Distinct statements of one connection: all fixed ones, and the sizes of the batched ones.
const STATEMENTS_CACHED: usize = 200;

/// The server ends the connection of a lander or a transaction after this many seconds without a statement, so that a
/// stopped process releases its rows, the hot one above all. Landers ping more often.
pub const IDLE_SECONDS: u32 = 5;

/// Parses a `mysql://` URL. Without `ssl-mode` there is no TLS: the driver's own default accepts any certificate, which
/// costs time and protects nothing.
///
/// # Errors
/// It is no such URL, names certificates but no `ssl-mode`, or encodes or misspells the name of an option.
pub fn options(url: &str) -> Result<MySqlConnectOptions, StoreError> {
    // The driver accepts any scheme, and would try host and port of another server's URL.
    let parsed = if url.starts_with("mysql://") {
        MySqlConnectOptions::from_str(url)
    } else {
        Err(sqlx::Error::Configuration("the scheme is not mysql".into()))
    };
    let options = parsed.map_err(|source| StoreError::Url { what: "DATABASE_URL", source })?;
    // The driver resolves the host with the brackets around an IPv6 address in the URL.
    let in_brackets = options.get_host().strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let bare = in_brackets.map(str::to_owned);
    let options = match bare {
        Some(host) => options.host(&host),
        None => options,
    };
    let options = options
        .statement_cache_capacity(STATEMENTS_CACHED)
        .charset("utf8mb4")
        // `session::opening` sets what the driver would set by these.
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        .timezone(None)
        .set_names(false)
        .disable_statement_logging();
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let names: Vec<&str> =
        query.split('&').map(|option| option.split('=').next().unwrap_or_default()).collect();
    // The driver would decode it, and the search for `ssl-mode` below would miss it.
    if let Some(hidden) = names.iter().find(|name| name.contains('%')) {
        return Err(StoreError::Settings(format!(
            "DATABASE_URL has an option {hidden}: spell it out"
        )));
    }
    // The driver would ignore an unknown option.
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

/// Returns the database that a URL names.
///
/// # Errors
/// It is not a `mysql://` URL, or names no database.
pub fn database_of(url: &str) -> Result<String, StoreError> {
    let options = options(url)?;
    options.get_database().map(str::to_owned).ok_or_else(|| {
        StoreError::Settings("DATABASE_URL names no database: end it with /coupon".to_owned())
    })
}

/// Opens a pool of at most `connections` for reads and single statements, READ COMMITTED.
///
/// # Errors
/// The URL is invalid, the server cannot be reached, or a session there is not what we depend on ([`session::check`]).
pub async fn pool(url: &str, connections: u32) -> Result<MySqlPool, StoreError> {
    let options = options(url)?;
    let opening = session::opening(&options, POOL_SESSION);
    let connected = MySqlPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_MAX)
        .after_connect(move |connection, _| {
            let opening = opening.clone();
            Box::pin(async move { session::set_up(connection, &opening).await })
        })
        .after_release(|connection, _| Box::pin(is_fit(connection)))
        .connect_with(options.clone())
        .await;
    let pool = match connected {
        // A pool tries again after a refusal, until its time is over, and then does not say why.
        Err(sqlx::Error::PoolTimedOut) => {
            let refused = timeout(ACQUIRE_MAX, open(&options, POOL_SESSION)).await;
            let said = refused.ok().and_then(Result::err).filter(|error| !error.is_unavailable());
            let silent = || StoreError::query("connect")(sqlx::Error::PoolTimedOut);
            return Err(said.unwrap_or_else(silent));
        }
        connected => connected.map_err(StoreError::query("connect"))?,
    };
    within(async { session::check(&mut *acquire(&pool).await?).await }).await?;
    Ok(pool)
}

/// Opens a connection with a session of this kind.
async fn open(options: &MySqlConnectOptions, kind: &str) -> Result<MySqlConnection, StoreError> {
    let mut connection =
        MySqlConnection::connect_with(options).await.map_err(StoreError::query("connect"))?;
    let opening = session::opening(options, kind);
    let set_up = session::set_up(&mut connection, &opening).await;
    set_up.map_err(StoreError::query("set up the session of a connection"))?;
    Ok(connection)
}

/// Returns whether a returned connection can be used again, and resets its session from that of a transaction. The
/// driver first reads the rest of earlier answers. A connection that does not answer is closed, and so is one to a
/// demoted server.
async fn is_fit(connection: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
    match timeout(RELEASE_MAX, connection.execute(POOL_SESSION_AGAIN)).await {
        Ok(answered) => answered.map(|_| true),
        Err(_) => Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into())),
    }
}

/// Bounds the wait for work on pooled connections by [`ANSWER_MAX`]. If the work is dropped before its end, by this limit
/// or with the caller, the task's pooled connections are closed instead of going back.
///
/// # Errors
/// There was no answer and the outcome is unknown, or the error of `work`.
pub fn within<T, E: From<StoreError>>(
    work: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T, E>> {
    let work = Abandonable::new(work);
    async { timeout(ANSWER_MAX, work).await.unwrap_or_else(|_| Err(StoreError::Silent.into())) }
}

/// Runs work that its caller may drop: if that happens before its end, the task's pooled connections are closed instead
/// of going back.
pub fn abandonable<F: Future>(work: F) -> impl Future<Output = F::Output> {
    Abandonable::new(work)
}

/// Takes a connection from the pool.
///
/// # Errors
/// None was free in time, or the server cannot be reached.
pub async fn acquire(pool: &MySqlPool) -> Result<Pooled, StoreError> {
    Pooled::acquire(pool).await.map_err(StoreError::query("get a connection"))
}

/// Begins a transaction on a connection of the pool. If the process stops inside, the server rolls it back after
/// [`IDLE_SECONDS`]. Use it for every transaction but a landing.
///
/// # Errors
/// No connection was free in time, or the server cannot be reached.
pub async fn begin(pool: &MySqlPool) -> Result<Transaction, StoreError> {
    begin_pooled(acquire(pool).await?).await
}

/// Like [`begin`], on a connection that was taken from the pool before.
pub(crate) async fn begin_pooled(connection: Pooled) -> Result<Transaction, StoreError> {
    Transaction::begin(connection, TRANSACTION).await.map_err(StoreError::query("begin"))
}

/// Like [`begin`], on the caller's own connection. From then on the limit on its idle time also holds between
/// transactions.
pub(crate) async fn begin_on(
    connection: &mut MySqlConnection,
) -> Result<sqlx::Transaction<'_, MySql>, StoreError> {
    let limited = connection.execute(TRANSACTION_SESSION).await;
    limited.map_err(StoreError::query("bound a transaction"))?;
    connection.begin().await.map_err(StoreError::query("begin"))
}

/// Ends a transaction with the result of its work: commits it if `keeps` says so, otherwise rolls it back. After an
/// error it rolls back at once: left to the connection's next use, the transaction would keep rows locked. `commit` and
/// `roll_back` name the two in an error.
pub(crate) async fn finish<T>(
    transaction: sqlx::Transaction<'_, MySql>,
    done: Result<T, StoreError>,
    keeps: impl FnOnce(&T) -> bool,
    [commit, roll_back]: [&'static str; 2],
) -> Result<T, StoreError> {
    match &done {
        Ok(result) if keeps(result) => {
            transaction.commit().await.map_err(StoreError::query(commit))?;
        }
        Ok(_) => transaction.rollback().await.map_err(StoreError::query(roll_back))?,
        Err(_) => drop(transaction.rollback().await),
    }
    done
}

/// Begins a read-only transaction on a connection of the pool. All its reads see the state as of now. If the process
/// stops inside, the server ends it like any other.
///
/// # Errors
/// No connection was free in time, or the server cannot be reached.
pub async fn begin_snapshot(pool: &MySqlPool) -> Result<Transaction, StoreError> {
    let begun = Transaction::begin(acquire(pool).await?, SNAPSHOT).await;
    begun.map_err(StoreError::query("begin a snapshot"))
}

/// Runs `work`, a whole transaction, and repeats it after conflicts with other transactions: for 2 s, or three times if
/// each attempt takes longer.
///
/// # Errors
/// The last error of `work`. `conflicts` returns whether an error is such a conflict.
pub async fn retried<T, E, F: Future<Output = Result<T, E>>>(
    mut work: impl FnMut() -> F,
    conflicts: impl Fn(&E) -> bool,
) -> Result<T, E> {
    let mut tries = 1;
    let began = Instant::now();
    loop {
        match work().await {
            Err(error)
                if (tries < TRANSACTION_TRIES || began.elapsed() < CONFLICTS_MAX)
                    && conflicts(&error) =>
            {
                tries += 1;
                sleep(REPEAT_AFTER_MAX.mul_f64(fastrand::f64())).await;
            }
            ended => return ended,
        }
    }
}

/// Commits a transaction.
///
/// # Errors
/// The connection is lost. Whether the transaction was committed is unknown.
pub async fn commit(transaction: Transaction) -> Result<(), StoreError> {
    transaction.commit().await.map_err(StoreError::query("commit"))
}

/// Opens one connection for one-off work, READ COMMITTED.
///
/// # Errors
/// The URL is invalid, the server cannot be reached, or it refuses our session.
pub async fn single(url: &str) -> Result<MySqlConnection, StoreError> {
    open(&options(url)?, SINGLE_SESSION).await
}

/// Opens a connection for migrations, to the URL's own database or to another one.
///
/// # Errors
/// As [`single`].
pub(crate) async fn migrating(
    url: &str,
    database: Option<&str>,
) -> Result<MySqlConnection, StoreError> {
    let options = options(url)?;
    let options = match database {
        Some(database) => options.database(database),
        None => options,
    };
    open(&options, MIGRATION_SESSION).await
}

/// Opens a connection for the transactions of one task, such as a lander or the mover of coupons: it waits briefly for
/// locks, and the server ends it soon if the process stops.
///
/// # Errors
/// As [`single`].
pub async fn lander(url: &str) -> Result<MySqlConnection, StoreError> {
    open(&options(url)?, LANDER_SESSION).await
}

/// Keeps an idle connection alive.
///
/// # Errors
/// The connection is lost.
pub async fn ping(connection: &mut MySqlConnection) -> Result<(), StoreError> {
    connection.ping().await.map_err(StoreError::query("ping"))
}

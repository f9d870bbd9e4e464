//! Required server settings, and the statements that correct them.

mod gaps;
mod prepared;
pub mod primary_server;
mod semi_sync;

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::{Executor, MySqlConnection, MySqlPool, Row, mysql::MySqlRow};

use crate::{StoreError, connect};
pub use gaps::{BinlogGaps, binlog_gaps};
pub use prepared::{XaId, prepared};
pub use semi_sync::semi_sync_gaps;

/// Interval between checks whether a position is readable. That takes about as long as a commit.
const SNAPSHOT_LOOK: Duration = Duration::from_millis(5);

/// Longest wait for a position to become readable.
const SNAPSHOT_MAX: Duration = Duration::from_secs(10);

/// Family of servers. Their GTIDs and some variables differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// MariaDB 10.11 and later.
    MariaDb,
    /// MySQL 8.4 and later.
    MySql,
}

/// The server's identity and binlog settings.
#[derive(Debug, Clone)]
pub struct BinlogSettings {
    pub flavor: Flavor,
    pub version: String,
    /// Replication id of the server.
    pub server_id: u64,
    /// Distinguishes this server from others: its server id and uuid (MariaDB: `server_uid`).
    pub server_identity: String,
    /// `log_bin`.
    pub log_bin: bool,
    /// `binlog_format`, e.g. `ROW`.
    pub format: String,
    /// `binlog_row_image`, e.g. `FULL`.
    pub row_image: String,
    /// `binlog_row_metadata`, e.g. `FULL`.
    pub row_metadata: String,
    /// `gtid_mode`, e.g. `ON`; empty for MariaDB, where every transaction has a GTID.
    pub gtid_mode: String,
    /// Whether events or transactions are compressed.
    pub compressed: bool,
}

/// Reads the binlog settings.
pub async fn binlog(connection: &mut MySqlConnection) -> Result<BinlogSettings, StoreError> {
    let variables = variables(connection).await?;
    // Empty for a variable that this server does not have.
    let text = |name: &str| variables.get(name).cloned().unwrap_or_default();
    let on = |name: &str| matches!(text(name).to_ascii_uppercase().as_str(), "ON" | "1");
    let mariadb = text("version").to_ascii_lowercase().contains("mariadb");
    let flavor = if mariadb { Flavor::MariaDb } else { Flavor::MySql };
    let uuid = if mariadb { text("server_uid") } else { text("server_uuid") };
    Ok(BinlogSettings {
        flavor,
        version: text("version"),
        server_id: text("server_id").parse().unwrap_or(0),
        server_identity: format!("{}/{uuid}", text("server_id")),
        log_bin: on("log_bin"),
        format: text("binlog_format").to_ascii_uppercase(),
        row_image: text("binlog_row_image").to_ascii_uppercase(),
        row_metadata: text("binlog_row_metadata").to_ascii_uppercase(),
        gtid_mode: text("gtid_mode").to_ascii_uppercase(),
        compressed: on("log_bin_compress") || on("binlog_transaction_compression"),
    })
}

/// Returns the connection's database as the server spells it, which may be in lower case.
pub async fn database(connection: &mut MySqlConnection) -> Result<String, StoreError> {
    sqlx::query_scalar("select cast(coalesce(database(), '') as char)")
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("read the database's name"))
}

/// A table of a connection's database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFacts {
    pub name: String,
    /// Whether it keeps the history of its rows (MariaDB's system versioning).
    pub is_versioned: bool,
    /// A foreign key that lets changes of another table change this table's rows.
    pub cascading: Option<String>,
}

/// Returns the tables of a connection's database.
pub async fn tables(connection: &mut MySqlConnection) -> Result<Vec<TableFacts>, StoreError> {
    let failed = || StoreError::query("read the tables");
    let names: Vec<(String, String)> = sqlx::query_as(
        "select cast(table_name as char), cast(table_type as char) from information_schema.tables \
         where table_schema = database()",
    )
    .fetch_all(&mut *connection)
    .await
    .map_err(failed())?;
    let keys: Vec<(String, String)> = sqlx::query_as(
        "select cast(table_name as char), cast(constraint_name as char) \
         from information_schema.referential_constraints where constraint_schema = database() \
         and (delete_rule in ('CASCADE', 'SET NULL') or update_rule in ('CASCADE', 'SET NULL'))",
    )
    .fetch_all(connection)
    .await
    .map_err(failed())?;
    let key_of = |table: &str| keys.iter().find(|(of, _)| of == table).map(|(_, key)| key.clone());
    let facts = names.into_iter().map(|(name, kind)| TableFacts {
        is_versioned: kind == "SYSTEM VERSIONED",
        cascading: key_of(&name),
        name,
    });
    Ok(facts.collect())
}

/// The binlog files on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinlogFiles {
    /// Names and sizes in bytes, the oldest first.
    pub files: Vec<(String, u64)>,
    /// How long a file is kept after its last event; `None` for ever.
    pub expiry: Option<Duration>,
}

/// Lists the binlog files. Requires REPLICATION CLIENT (MariaDB: BINLOG MONITOR).
pub async fn binlog_files(connection: &mut MySqlConnection) -> Result<BinlogFiles, StoreError> {
    let failed = || StoreError::query("list the binlog files");
    let variables = variables(connection).await?;
    let number = |name: &str| variables.get(name).and_then(|text| text.parse::<f64>().ok());
    // Both families have the first variable; older MariaDB versions have the second, in days.
    let seconds = number("binlog_expire_logs_seconds").filter(|seconds| *seconds > 0.0);
    let days = number("expire_logs_days").filter(|days| *days > 0.0);
    let expiry = seconds.or(days.map(|days| days * 86_400.0)).map(Duration::from_secs_f64);
    let rows = connection.fetch_all("show binary logs").await.map_err(failed())?;
    let file = |row: &MySqlRow| Ok((row.try_get::<String, _>(0)?, bytes(row)?));
    let files: Result<_, sqlx::Error> = rows.iter().map(file).collect();
    Ok(BinlogFiles { files: files.map_err(failed())?, expiry })
}

/// Reads a size: MySQL sends it signed, MariaDB unsigned.
fn bytes(row: &MySqlRow) -> Result<u64, sqlx::Error> {
    row.try_get::<u64, _>(1).or_else(|_| Ok(row.try_get::<i64, _>(1)?.unsigned_abs()))
}

/// Returns whether this user may read the binlog, according to its grants. A granted role counts as enough, since its
/// privileges are not examined.
pub async fn may_replicate(connection: &mut MySqlConnection) -> Result<bool, StoreError> {
    let grants = grants(connection).await?;
    // Privileges are between `grant` and `on *.*`; a role is granted without `on`.
    let enough = |grant: &String| match grant.to_ascii_uppercase().split_once(" ON *.* ") {
        Some((privileges, _)) => ["ALL PRIVILEGES", "REPLICATION SLAVE", "REPLICA"]
            .iter()
            .any(|p| privileges.contains(p)),
        None => !grant.to_ascii_uppercase().contains(" ON "),
    };
    Ok(grants.iter().any(enough))
}

async fn grants(connection: &mut MySqlConnection) -> Result<Vec<String>, StoreError> {
    sqlx::query_scalar("show grants")
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read the grants"))
}

/// Returns a GTID position whose transactions are all visible to reads after this call.
///
/// MariaDB's `gtid_binlog_pos` may be ahead of what is visible, since a transaction is in the binlog before it is in
/// the tables. So this waits until a consistent snapshot (which requires REPEATABLE READ) has reached the position.
/// `binlog_gtid_pos` would return a snapshot's position at once, but returns nothing once a file holds an event above
/// `max_allowed_packet`.
///
/// # Errors
/// A statement fails, or snapshots do not reach the position within 10 s.
pub async fn readable_position(
    connection: &mut MySqlConnection,
    flavor: Flavor,
) -> Result<String, StoreError> {
    let failed = || StoreError::query("read the binlog position");
    let position: String = match flavor {
        Flavor::MySql => sqlx::query_scalar("select cast(@@global.gtid_executed as char)"),
        Flavor::MariaDb => sqlx::query_scalar("select cast(@@global.gtid_binlog_pos as char)"),
    }
    .fetch_one(&mut *connection)
    .await
    .map_err(failed())?;
    if flavor == Flavor::MariaDb {
        let end = binlog_end(connection).await?;
        let reached = async {
            while snapshot_end(connection).await? < end {
                tokio::time::sleep(SNAPSHOT_LOOK).await;
            }
            Ok(())
        };
        tokio::time::timeout(SNAPSHOT_MAX, reached).await.unwrap_or(Err(StoreError::Silent))?;
    }
    Ok(position.split_whitespace().collect())
}

/// A binlog position: file number and offset. Positions of one server are ordered.
type BinlogPosition = (u64, u64);

/// Returns the end of the binlog.
async fn binlog_end(connection: &mut MySqlConnection) -> Result<BinlogPosition, StoreError> {
    let failed = || StoreError::query("read the end of the binlog");
    let row = connection.fetch_one("show master status").await.map_err(failed())?;
    let file: String = row.try_get(0).map_err(failed())?;
    Ok((file_number(&file), bytes(&row).map_err(failed())?))
}

/// Returns the end of the binlog that a transaction beginning now can see.
async fn snapshot_end(connection: &mut MySqlConnection) -> Result<BinlogPosition, StoreError> {
    let failed = || StoreError::query("read a snapshot's position");
    // Text protocol, because MariaDB does not prepare the first two statements.
    let begin = [
        "set transaction isolation level repeatable read",
        "start transaction with consistent snapshot",
    ];
    for statement in begin {
        connection.execute(statement).await.map_err(failed())?;
    }
    let rows: Result<Vec<(String, String)>, _> =
        sqlx::query_as("show status like 'binlog_snapshot_%'").fetch_all(&mut *connection).await;
    connection.execute("rollback").await.map_err(failed())?;
    let rows = rows.map_err(failed())?;
    let value = |name: &str| {
        let found = rows.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    };
    let offset = value("binlog_snapshot_position").parse().unwrap_or(0);
    Ok((file_number(value("binlog_snapshot_file")), offset))
}

/// Returns the number of a file name such as `binlog.000042`.
fn file_number(file: &str) -> u64 {
    file.rsplit('.').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Checks that this user may create the version trigger.
///
/// # Errors
/// The binlog is on and the server does not trust function creators. The message names the remedy.
pub async fn check_triggers_allowed(connection: &mut MySqlConnection) -> Result<(), StoreError> {
    let variables = variables(connection).await?;
    let on =
        |name: &str| variables.get(name).is_some_and(|value| matches!(value.as_str(), "ON" | "1"));
    if !on("log_bin") || on("log_bin_trust_function_creators") {
        return Ok(());
    }
    let grants = grants(connection).await?;
    let all = |grant: &String| {
        let grant = grant.to_ascii_uppercase();
        grant.contains(" ON *.* ") && (grant.contains("ALL PRIVILEGES") || grant.contains("SUPER"))
    };
    if grants.iter().any(all) {
        return Ok(());
    }
    Err(StoreError::Settings(
        "this user may not create triggers while the binlog is on: run \
         `set global log_bin_trust_function_creators = 1` as an administrator, then migrate again"
            .to_owned(),
    ))
}

/// Returns the server's time.
pub async fn server_time(connection: &mut MySqlConnection) -> Result<DateTime<Utc>, StoreError> {
    sqlx::query_scalar("select utc_timestamp(3)")
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("read the server's clock"))
}

/// Returns how far a clock is ahead of the server's, negative if it is behind; zero if the round trip explains the
/// difference.
pub async fn skew(
    connection: &mut MySqlConnection,
    clock: impl Fn() -> DateTime<Utc>,
) -> Result<TimeDelta, StoreError> {
    let before = clock();
    let theirs = server_time(connection).await?;
    let after = clock();
    Ok(if theirs < before {
        before - theirs
    } else if theirs > after {
        after - theirs
    } else {
        TimeDelta::zero()
    })
}

/// Like [`skew`], on a connection of the pool.
pub async fn pool_skew(
    pool: &MySqlPool,
    clock: impl Fn() -> DateTime<Utc>,
) -> Result<TimeDelta, StoreError> {
    connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        skew(&mut connection, clock).await
    })
    .await
}

/// Returns whether the server takes no changes, as a primary does while it becomes a replica.
pub async fn is_read_only(connection: &mut MySqlConnection) -> Result<bool, StoreError> {
    let read_only: i64 = sqlx::query_scalar("select if(@@global.read_only, 1, 0)")
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("read whether the server is read-only"))?;
    Ok(read_only != 0)
}

/// Returns the number of statements of all clients that have inserted or updated rows since the server started, as a
/// measure of its other work.
pub async fn writes(connection: &mut MySqlConnection) -> Result<u64, StoreError> {
    let rows: Vec<(String, String)> =
        sqlx::query_as("show global status where variable_name in ('com_insert', 'com_update')")
            .fetch_all(connection)
            .await
            .map_err(StoreError::query("count the server's writes"))?;
    Ok(rows.iter().filter_map(|(_, count)| count.parse::<u64>().ok()).sum())
}

async fn variables(
    connection: &mut MySqlConnection,
) -> Result<HashMap<String, String>, StoreError> {
    let rows: Vec<(String, String)> = sqlx::query_as(
        "show global variables where variable_name in \
         ('version', 'server_id', 'server_uid', 'server_uuid', 'log_bin', 'binlog_format', \
          'binlog_row_image', 'binlog_row_metadata', 'gtid_mode', 'log_bin_compress', \
          'binlog_transaction_compression', 'log_bin_trust_function_creators', \
          'binlog_expire_logs_seconds', 'expire_logs_days', 'log_slave_updates', \
          'log_replica_updates')",
    )
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read the server variables"))?;
    Ok(rows.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect())
}

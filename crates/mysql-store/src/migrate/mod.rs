//! Schema migrations: forward only, run by command.

mod progress;
mod readable;
mod statements;
mod steps;

use std::collections::HashMap;

use sqlx::{Connection, Executor, MySqlPool, migrate::Migrator};

use self::progress::Progress;
use crate::{
    StoreError,
    connect::{self, session},
    settings,
};

/// Every migration, compiled in.
static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations");

/// How long a process waits for another one's migration: far longer than creating every table takes.
const LOCK_WAIT_SECONDS: i32 = 60;

/// The server's error for a table that does not exist.
const NO_SUCH_TABLE: u16 = 1146;

/// Message for a database without a schema.
const MISSING: &str = "the schema is missing: run `api --migrate`";

/// Message for a schema that a later version has migrated.
const NEWER: &str = "the schema is newer than this program: run the version that migrated it";

/// Creates the database if it is absent, and applies the missing migrations. After it was cut short, wherever that was, the
/// next call goes on.
///
/// # Errors
/// The server cannot be reached, does not let this user create triggers, the schema is newer than this program or has a
/// migration with another text, another process migrates, or a migration fails.
pub async fn run(url: &str) -> Result<(), StoreError> {
    create_database(url, &connect::database_of(url)?).await?;
    let mut connection = connect::migrating(url, None).await?;
    session::check(&mut connection).await?;
    settings::check_triggers_allowed(&mut connection).await?;
    lock(&mut connection).await?;
    let recorded = recorded(&mut connection).await?;
    for migration in MIGRATIONS.iter() {
        match recorded.get(&migration.version) {
            Some(row) if row.is_finished => {}
            row => {
                let progress = row.map(|row| row.progress);
                steps::apply(&mut connection, migration, progress).await?;
            }
        }
    }
    connection.close().await.map_err(StoreError::query("close the connection"))
}

/// What `_sqlx_migrations` has of a migration.
struct Recorded {
    is_finished: bool,
    progress: Progress,
}

/// Reads which migrations have begun. Creates their table if it is absent, as the driver's own migrator did, which has
/// applied those of earlier versions.
async fn recorded(
    connection: &mut sqlx::MySqlConnection,
) -> Result<HashMap<i64, Recorded>, StoreError> {
    let table = "create table if not exists _sqlx_migrations (\
                 version bigint primary key, description text not null, \
                 installed_on timestamp not null default current_timestamp, \
                 success boolean not null, checksum blob not null, execution_time bigint not null\
                 ) engine = innodb";
    connection.execute(table).await.map_err(StoreError::query("create the migrations' table"))?;
    let rows: Vec<(i64, Vec<u8>, bool, i64)> =
        sqlx::query_as("select version, checksum, success, execution_time from _sqlx_migrations")
            .fetch_all(connection)
            .await
            .map_err(StoreError::query("read which migrations are applied"))?;
    let mut recorded = HashMap::new();
    for (version, checksum, is_finished, execution_time) in rows {
        let Some(migration) = MIGRATIONS.iter().find(|migration| migration.version == version)
        else {
            return Err(StoreError::Settings(NEWER.to_owned()));
        };
        if *migration.checksum != *checksum {
            return Err(StoreError::Settings(format!(
                "migration {version} has another text in this program than when it was applied: run a released version"
            )));
        }
        let progress = Progress::decode(execution_time);
        recorded.insert(version, Recorded { is_finished, progress });
    }
    Ok(recorded)
}

/// The statements of all migrations, in order, for tests.
#[cfg(feature = "verify")]
pub fn all_statements() -> Vec<String> {
    MIGRATIONS.iter().flat_map(|migration| statements::statements(migration.sql.as_str())).collect()
}

/// Waits until no other process migrates this database. The lock ends with the connection, and not before the server has
/// ended a statement whose process is gone.
async fn lock(connection: &mut sqlx::MySqlConnection) -> Result<(), StoreError> {
    let got: Option<i64> = sqlx::query_scalar("select get_lock(concat(database(), '.migrate'), ?)")
        .bind(LOCK_WAIT_SECONDS)
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("wait for the migration lock"))?;
    if got == Some(1) {
        return Ok(());
    }
    let sentence = "another process is migrating this database, or the server still carries out a statement of one that has \
                    ended: wait until `show full processlist` shows none, then migrate again";
    Err(StoreError::Settings(sentence.to_owned()))
}

/// Checks that the database's schema is the one this program was built with, or a later one that it can work with.
///
/// # Errors
/// A migration is missing, or the schema is newer and does not name this program's: the message names the remedy. Or the
/// query failed.
pub async fn check(connection: &mut sqlx::MySqlConnection) -> Result<(), StoreError> {
    let applied: Vec<(i64, String)> =
        sqlx::query_as("select version, description from _sqlx_migrations where success")
            .fetch_all(connection)
            .await
            .map_err(|source| {
                let error = StoreError::query("read which migrations are applied")(source);
                if error.number() == Some(NO_SUCH_TABLE) {
                    StoreError::Settings(MISSING.to_owned())
                } else {
                    error
                }
            })?;
    let known: Vec<i64> = MIGRATIONS.iter().map(|migration| migration.version).collect();
    if known.iter().any(|version| !applied.iter().any(|(applied, _)| applied == version)) {
        return Err(StoreError::Settings("the schema is older: run `api --migrate`".to_owned()));
    }
    let newest = known.iter().copied().max().unwrap_or_default();
    let newer = applied.iter().filter(|(version, _)| !known.contains(version));
    if newer.into_iter().any(|(_, description)| !readable::is_readable(description, newest)) {
        return Err(StoreError::Settings(NEWER.to_owned()));
    }
    Ok(())
}

/// Opens a pool on a database whose schema is the one this program was built with.
///
/// # Errors
/// As [`connect::pool`] and [`check_over`].
pub async fn checked_pool(url: &str, connections: u32) -> Result<MySqlPool, StoreError> {
    let pool = connect::pool(url, connections).await?;
    check_over(&pool).await?;
    Ok(pool)
}

/// Like [`check`], on one of a pool's connections, for a process that starts: the wait for an answer is bounded.
///
/// # Errors
/// As [`check`]; or MySQL cannot be reached, or does not answer.
pub async fn check_over(pool: &MySqlPool) -> Result<(), StoreError> {
    connect::within(async { check(&mut *connect::acquire(pool).await?).await }).await
}

/// Digest of all migrations: another one for each version of the schema.
#[cfg(feature = "verify")]
pub(crate) fn fingerprint() -> u32 {
    let checksums = MIGRATIONS.iter().flat_map(|migration| migration.checksum.iter());
    // FNV-1a.
    checksums
        .fold(0x811c_9dc5, |digest, byte| (digest ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Creates a database if it is absent.
///
/// # Errors
/// The name has characters outside `a-z0-9_`, or the server refuses.
pub async fn create_database(url: &str, name: &str) -> Result<(), StoreError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || !name.bytes().all(plain) {
        let sentence = format!("the database name {name:?} may hold only a-z, 0-9 and _");
        return Err(StoreError::Settings(sentence));
    }
    let mut connection = connect::migrating(url, Some("information_schema")).await?;
    let statement = format!("create database if not exists `{name}` character set utf8mb4");
    connection
        .execute(sqlx::AssertSqlSafe(statement))
        .await
        .map_err(StoreError::query("create the database"))?;
    connection.close().await.map_err(StoreError::query("close the connection"))
}

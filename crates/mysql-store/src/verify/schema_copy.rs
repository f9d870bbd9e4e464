//! [`copy_schema`]: the migrated schema for the database of a single test, without migrating it.
//!
//! The migrations run once on a server, in a template database that all test programs share. Each test's database gets
//! the statements that make the same tables, view and trigger, in one round trip.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row};
use tokio::sync::Mutex;

use crate::{StoreError, connect, migrate};

/// The statements that copy the template, of each server that this program has used, by its URL without a database.
static STATEMENTS: LazyLock<Mutex<HashMap<String, Arc<String>>>> = LazyLock::new(Mutex::default);

/// Creates the database that a URL names, with the schema and the rows that [`migrate::run`] would give it. The
/// database must not exist.
///
/// # Errors
/// As [`migrate::run`]; or the database exists with tables.
pub async fn copy_schema(url: &str) -> Result<(), StoreError> {
    let database = connect::database_of(url)?;
    let server = with_database(url, &database, "");
    let statements = {
        let mut known = STATEMENTS.lock().await;
        match known.get(&server) {
            Some(statements) => Arc::clone(statements),
            None => {
                let statements = Arc::new(statements(url, &database).await?);
                known.insert(server, Arc::clone(&statements));
                statements
            }
        }
    };
    migrate::create_database(url, &database).await?;
    let mut connection = connect::single(url).await?;
    run(&mut connection, &statements).await?;
    connection.close().await.map_err(StoreError::query("close the connection"))
}

/// Replaces the database in a URL, which is the last part of its path: the user may have the same name.
fn with_database(url: &str, database: &str, other: &str) -> String {
    match url.rsplit_once(&format!("/{database}")) {
        Some((server, options)) => format!("{server}/{other}{options}"),
        None => url.to_owned(),
    }
}

/// Migrates the template database, if that is still to be done, and returns the statements that copy it.
async fn statements(url: &str, database: &str) -> Result<String, StoreError> {
    let template = format!("t_schema_{:08x}", migrate::fingerprint());
    let url = with_database(url, database, &template);
    migrate::run(&url).await?;
    let mut connection = connect::single(&url).await?;
    let names = "select table_name, table_type = 'VIEW' from information_schema.tables \
                 where table_schema = database() order by table_type, table_name";
    let found = sqlx::raw_sql(names).fetch_all(&mut connection).await;
    let mut statements = Vec::new();
    for row in found.map_err(StoreError::query("list the template's tables"))? {
        let name: String = text(&row, 0)?;
        let is_view: i64 = row.try_get(1).map_err(StoreError::query("read a table's type"))?;
        let created = created(&mut connection, &format!("show create table `{name}`"), 1).await?;
        statements.push(created.replace(&format!("`{template}`."), ""));
        if is_view == 0 {
            statements.push(format!("insert into `{name}` select * from `{template}`.`{name}`"));
        }
    }
    let triggers = "select trigger_name from information_schema.triggers \
                    where trigger_schema = database() order by trigger_name";
    let found = sqlx::raw_sql(triggers).fetch_all(&mut connection).await;
    for row in found.map_err(StoreError::query("list the template's triggers"))? {
        let show = format!("show create trigger `{}`", text(&row, 0)?);
        statements.push(created(&mut connection, &show, 2).await?);
    }
    connection.close().await.map_err(StoreError::query("close the connection"))?;
    Ok(statements.join(";\n"))
}

/// Returns the column of a `show create` statement that holds the statement shown.
async fn created(
    connection: &mut MySqlConnection,
    show: &str,
    column: usize,
) -> Result<String, StoreError> {
    let row = sqlx::raw_sql(AssertSqlSafe(show)).fetch_one(connection).await;
    text(&row.map_err(StoreError::query("read the template's schema"))?, column)
}

fn text(row: &sqlx::mysql::MySqlRow, column: usize) -> Result<String, StoreError> {
    // MySQL 9 sends names of its data dictionary as bytes.
    row.try_get_unchecked(column).map_err(StoreError::query("read the template's schema"))
}

async fn run(connection: &mut MySqlConnection, statements: &str) -> Result<(), StoreError> {
    let done = sqlx::raw_sql(AssertSqlSafe(statements)).execute(connection).await;
    done.map(drop).map_err(StoreError::query("copy the template's schema"))
}

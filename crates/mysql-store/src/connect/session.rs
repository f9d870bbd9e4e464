//! What each connection sets when it opens, instead of what its server gives to new sessions.
//!
//! A server's defaults (`set global`, its configuration, `init_connect`) are somebody else's: with `autocommit=0` nothing
//! would be kept, with `sql_safe_updates=1` no job would run. So a connection sets all that the SQL of this crate depends
//! on, in one round trip, and inherits only what cannot change a result. `docs/operate/settings.md` lists both.

use std::collections::HashMap;

use sqlx::{AssertSqlSafe, Executor, MySqlConnection, mysql::MySqlConnectOptions};

use crate::StoreError;

/// A session variable, and the value that this crate relies on, as the server shows it.
#[derive(Debug)]
pub struct Variable {
    pub name: &'static str,
    pub value: &'static str,
    /// Opens the comment that only its servers execute; empty: all servers have it.
    only: &'static str,
}

const fn on_all(name: &'static str, value: &'static str) -> Variable {
    Variable { name, value, only: "" }
}

const fn on_mariadb(name: &'static str, value: &'static str) -> Variable {
    Variable { name, value, only: "/*M! " }
}

/// MariaDB skips comments for versions of MySQL from 5.7 on.
const fn on_mysql(name: &'static str, value: &'static str) -> Variable {
    Variable { name, value, only: "/*!80000 " }
}

/// The variables that each connection sets. None needs a privilege.
pub const VARIABLES: [Variable; 18] = [
    on_all("autocommit", "ON"),
    // A transaction's end would otherwise begin the next one, or close the connection.
    on_all("completion_type", "NO_CHAIN"),
    on_all("foreign_key_checks", "ON"),
    // An order goes by so many bytes of each value. Those that we order by are shorter.
    on_all("max_sort_length", "1024"),
    on_all("net_read_timeout", "30"),
    // Also while a slow client reads an export.
    on_all("net_write_timeout", "60"),
    on_all("sql_big_selects", "ON"),
    // MySQL makes it a part of a view.
    on_all("sql_buffer_result", "OFF"),
    on_all("sql_safe_updates", "OFF"),
    on_all("sql_select_limit", "18446744073709551615"),
    // Unique keys hold the limits of users and the fences of claims.
    on_all("unique_checks", "ON"),
    // Bounds of waits are ours: `ANSWER_MAX`, `IDLE_SECONDS`, the verifier's `STATEMENT_MAX`.
    on_mysql("max_execution_time", "0"),
    on_mariadb("max_statement_time", "0.000000"),
    on_mariadb("idle_transaction_timeout", "0"),
    on_mariadb("idle_readonly_transaction_timeout", "0"),
    on_mariadb("idle_write_transaction_timeout", "0"),
    // It answers although somebody has locked the table.
    on_mariadb("query_cache_type", "OFF"),
    // With it, `create table if not exists` refuses a table that exists.
    on_mariadb("sql_if_exists", "OFF"),
];

/// `sql_mode`, in the order in which servers show it: a value that does not fit is an error. Set before the others, so that
/// one of them that does not fit is an error too.
const SQL_MODE: &str = "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,\
                        NO_ENGINE_SUBSTITUTION";

/// What else a session has after [`opening`], under every name that servers have for it.
const ALSO_SET: [Variable; 9] = [
    on_all("sql_mode", SQL_MODE),
    on_all("time_zone", "+00:00"),
    on_all("character_set_client", "utf8mb4"),
    on_all("character_set_connection", "utf8mb4"),
    on_all("character_set_results", "utf8mb4"),
    on_all("transaction_isolation", "READ-COMMITTED"),
    on_all("tx_isolation", "READ-COMMITTED"),
    on_all("transaction_read_only", "OFF"),
    on_all("tx_read_only", "OFF"),
];

/// Variables that only an administrator may set: they say what the session's changes are in the binlog.
const OF_BINLOG: [Variable; 2] = [on_all("sql_log_bin", "ON"), on_all("binlog_row_image", "FULL")];

/// The format in which no change can be made: sessions are READ COMMITTED.
const NO_FORMAT: &str = "STATEMENT";

/// Returns the statements that give a new connection its session. The tailer sends them too, on the connection that it reads
/// the binlog with.
pub fn statements() -> [String; 4] {
    let mut variables = "set session time_zone = '+00:00'".to_owned();
    for Variable { name, value, only } in VARIABLES {
        let quote = if value.starts_with(|first: char| first.is_ascii_digit()) { "" } else { "'" };
        let end = if only.is_empty() { "" } else { " */" };
        variables += &format!(" {only}, session {name} = {quote}{value}{quote}{end}");
    }
    [
        "set names utf8mb4".to_owned(),
        "set session transaction isolation level read committed, read write".to_owned(),
        format!("set session sql_mode = '{SQL_MODE}'"),
        variables,
    ]
}

/// Returns the statements that set up a new connection of these options, and then those of its kind, as one text.
pub(crate) fn opening(options: &MySqlConnectOptions, kind: &str) -> String {
    let [mut names, isolation, mode, variables] = statements();
    if let Some(collation) = options.get_collation() {
        names += &format!(" collate {collation}");
    }
    [names.as_str(), &isolation, &mode, &variables, kind].join("; ")
}

/// Sets up a new connection with the statements of [`opening`].
pub(crate) async fn set_up(
    connection: &mut MySqlConnection,
    opening: &str,
) -> Result<(), sqlx::Error> {
    connection.execute(AssertSqlSafe(opening)).await.map(drop)
}

/// Checks that a connection has what it set, and that its changes are in the binlog in full.
///
/// # Errors
/// The server imposes another value: the message names the variable and the remedy. Or the query failed.
pub async fn check(connection: &mut MySqlConnection) -> Result<(), StoreError> {
    let wanted = || VARIABLES.iter().chain(&ALSO_SET);
    let names = wanted().chain(&OF_BINLOG).map(|variable| variable.name);
    let names: Vec<&str> = names.chain(["log_bin", "binlog_format"]).collect();
    let sql = format!("show session variables where variable_name in ('{}')", names.join("', '"));
    let rows: Vec<(String, String)> = sqlx::query_as(AssertSqlSafe(sql))
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read the session's variables"))?;
    let shown: HashMap<String, String> =
        rows.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    // A variable that is not shown is one that this server does not have.
    let other_than = |variable: &&Variable| {
        shown.get(variable.name).is_some_and(|value| value != variable.value)
    };
    if let Some(Variable { name, value, .. }) = wanted().find(other_than) {
        let shown = &shown[*name];
        return Err(StoreError::Settings(format!(
            "the session variable {name} is {shown} although this connection set it to {value}: remove what changes \
             it between us and the server (a proxy, or a maximum in the server's configuration)"
        )));
    }
    if shown.get("log_bin").is_none_or(|value| value != "ON") {
        return Ok(());
    }
    let format = shown.get("binlog_format").map_or("", String::as_str);
    let imposed = OF_BINLOG.iter().find(other_than).map(|variable| variable.name);
    let Some(name) = imposed.or((format == NO_FORMAT).then_some("binlog_format")) else {
        return Ok(());
    };
    Err(StoreError::Settings(format!(
        "the session variable {name} is {} for this user, so its changes would not be in the binlog as rows: correct the \
         server's value or its init_connect, as docs/operate/settings.md says",
        shown[name]
    )))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_operators_page_names_every_variable_that_a_connection_sets_or_checks() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/settings.md");
        let page = fs::read_to_string(page).unwrap();
        for Variable { name, .. } in VARIABLES.iter().chain(&ALSO_SET[..2]).chain(&OF_BINLOG) {
            assert!(page.contains(&format!("`{name}")), "{name}");
        }
    }
}

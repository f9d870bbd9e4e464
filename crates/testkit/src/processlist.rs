//! The database's sessions, as tests wait for them: [`sessions`], [`until_session`].

use sqlx::{AssertSqlSafe, MySqlConnection, Row as _, mysql::MySqlDatabaseError, raw_sql};

use crate::until::until;

/// MySQL's error while it lists its sessions: one of them runs a statement with bytes that are not text, such as a hash
/// between quotes. It may be a session of any test on the server, whatever the columns and rows that are asked for.
const CANNOT_LIST: u16 = 3854;

/// Returns the ids of the sessions in `information_schema.processlist` for which `condition` holds. `None` if MySQL
/// cannot list its sessions at this moment.
///
/// # Panics
/// The statement fails for another reason.
pub async fn sessions(connection: &mut MySqlConnection, condition: &str) -> Option<Vec<i64>> {
    let sql = format!("select id from information_schema.processlist where {condition}");
    match raw_sql(AssertSqlSafe(sql.as_str())).fetch_all(connection).await {
        Ok(rows) => Some(rows.iter().map(|row| row.try_get_unchecked(0).unwrap()).collect()),
        Err(error) if number(&error) == Some(CANNOT_LIST) => None,
        Err(error) => panic!("{error} in: {sql}"),
    }
}

/// Waits until there is such a session, and returns the id of the first.
///
/// # Panics
/// There is none for [`STATE_MAX`](crate::STATE_MAX); otherwise as [`sessions`].
pub async fn until_session(connection: &mut MySqlConnection, condition: &str) -> i64 {
    let found = until(
        async || sessions(connection, condition).await,
        |found| found.as_ref().is_some_and(|ids| !ids.is_empty()),
    );
    found.await.unwrap()[0]
}

fn number(error: &sqlx::Error) -> Option<u16> {
    let error = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number())
}

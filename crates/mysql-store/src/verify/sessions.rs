//! The database's sessions, as tests wait for them.

use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::StoreError;

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

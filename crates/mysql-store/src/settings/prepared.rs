//! XA transactions between their two phases.

use std::collections::HashSet;

use sqlx::{Executor, MySqlConnection, Row, mysql::MySqlRow};

use crate::StoreError;

/// Id of an XA transaction: its format, the length of its first part, and both parts.
pub type XaId = (i64, i64, Vec<u8>);

/// Returns the XA transactions that are prepared and not ended; `None` if this user may not see them (MySQL asks for
/// `XA_RECOVER_ADMIN`).
pub async fn prepared(
    connection: &mut MySqlConnection,
) -> Result<Option<HashSet<XaId>>, StoreError> {
    let failed = || StoreError::query("list the prepared XA transactions");
    let rows = match connection.fetch_all("xa recover").await {
        Ok(rows) => rows,
        Err(sqlx::Error::Database(_)) => return Ok(None),
        Err(error) => return Err(failed()(error)),
    };
    // The parts may be any bytes, whatever the column's type says.
    let id = |row: &MySqlRow| {
        let format = row.try_get_unchecked(0)?;
        Ok((format, row.try_get_unchecked(1)?, row.try_get_unchecked(3)?))
    };
    let ids: Result<_, sqlx::Error> = rows.iter().map(id).collect();
    Ok(Some(ids.map_err(failed())?))
}

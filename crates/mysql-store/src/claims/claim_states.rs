//! The states of many claims by their ids, for the resolver.

use std::collections::HashMap;

use coupon::{ClaimId, ClaimState};
use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::{StoreError, code::Code, rows};

/// Returns the states of the rows with these ids. A claim that is not decided yet has no row and is left out.
///
/// # Errors
/// A statement fails.
pub async fn of_ids(
    connection: &mut MySqlConnection,
    ids: &[ClaimId],
) -> Result<HashMap<ClaimId, ClaimState>, StoreError> {
    let mut found = HashMap::with_capacity(ids.len());
    for run in rows::runs(ids) {
        let sql =
            rows::repeat("select id, state from claim where id in (", "?", ",", run.len(), ")");
        let mut query = sqlx::query_as(AssertSqlSafe(sql));
        for id in run {
            query = query.bind(id.0);
        }
        let rows: Vec<(i64, Code)> = query
            .fetch_all(&mut *connection)
            .await
            .map_err(StoreError::query("read the states of claims"))?;
        for (id, state) in rows {
            found.insert(ClaimId(id), state.try_into()?);
        }
    }
    Ok(found)
}

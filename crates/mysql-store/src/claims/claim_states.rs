//! The states of a template's claims by their ids, for the resolver.

use std::collections::HashMap;

use coupon::{ClaimId, ClaimState, TemplateId, UnknownCode};
use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::{StoreError, code::Code, rows};

/// Returns the states of the template's claims with these ids. A claim that is not decided yet has no row and is left
/// out, as is one that only has a fence in another template. A claim in an unknown state is decided, so it is not left
/// out; its error does not keep the others from being read.
pub async fn of_ids(
    connection: &mut MySqlConnection,
    template: TemplateId,
    ids: &[ClaimId],
) -> Result<HashMap<ClaimId, Result<ClaimState, UnknownCode>>, StoreError> {
    let mut found = HashMap::with_capacity(ids.len());
    for run in rows::runs(ids) {
        let head = "select id, state from claim force index (uq_claim_id) where id in (";
        let sql = rows::repeat(head, "?", ",", run.len(), ") and template_id = ?");
        let mut query = sqlx::query_as(AssertSqlSafe(sql));
        for id in run {
            query = query.bind(id.0);
        }
        let rows: Vec<(i64, Code)> = query
            .bind(template.0)
            .fetch_all(&mut *connection)
            .await
            .map_err(StoreError::query("read the states of claims"))?;
        for (id, state) in rows {
            found.insert(ClaimId(id), state.try_into());
        }
    }
    Ok(found)
}

//! Finds stock rows that other transactions have locked.

use std::collections::BTreeSet;

use coupon::TemplateId;
use sqlx::{AssertSqlSafe, MySqlConnection};

use crate::{StoreError, rows};

/// Returns those of `templates` whose stock row another transaction has locked at this moment. Does not wait for them,
/// and leaves none locked. A template without a row counts as locked.
pub async fn locked(
    connection: &mut MySqlConnection,
    templates: &BTreeSet<TemplateId>,
) -> Result<BTreeSet<TemplateId>, StoreError> {
    let mut locked = templates.clone();
    let ids: Vec<i64> = templates.iter().map(|template| template.0).collect();
    for run in rows::runs(&ids) {
        let head = "select template_id from template_stock where template_id in (";
        let sql = rows::repeat(head, "?", ",", run.len(), ") for update skip locked");
        let query =
            run.iter().fold(sqlx::query_scalar(AssertSqlSafe(sql)), |query, id| query.bind(*id));
        let free: Vec<i64> = query
            .fetch_all(&mut *connection)
            .await
            .map_err(StoreError::query("look for locked stock rows"))?;
        for id in free {
            locked.remove(&TemplateId(id));
        }
    }
    Ok(locked)
}

//! Updates landings whose template's validity changed before they landed.

use std::collections::HashMap;

use coupon::{Template, TemplateId};
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::Landing;
use crate::{StoreError, rows, templates::template};

/// Gives each of `landings` whose template has a newer version the new validity. Returns whether there were any. The
/// guard refuses a landing if its terms change once more.
///
/// # Errors
/// A statement fails; then none has changed.
pub async fn renew<'a>(
    connection: &mut MySqlConnection,
    landings: impl Iterator<Item = &'a mut Landing>,
) -> Result<bool, StoreError> {
    let landings: Vec<&mut Landing> = landings.collect();
    let mut ids: Vec<i64> = landings.iter().map(|landing| landing.landed.template_id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let templates = templates(connection, &ids).await?;
    let mut renewed = false;
    for landing in landings {
        let Some(template) = templates.get(&landing.landed.template_id) else { continue };
        if template.version > landing.terms {
            let validity = template.validity.of_claim(landing.landed.claimed_at);
            (landing.landed.valid_from, landing.landed.valid_until) = validity;
            landing.terms = template.version;
            renewed = true;
        }
    }
    Ok(renewed)
}

async fn templates(
    connection: &mut MySqlConnection,
    ids: &[i64],
) -> Result<HashMap<TemplateId, Template>, StoreError> {
    let mut found = HashMap::new();
    for run in rows::runs(ids) {
        let sql =
            rows::repeat("select * from coupon_template where id in (", "?", ",", run.len(), ")");
        let query = run.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, id| query.bind(*id));
        let read = query.fetch_all(&mut *connection).await;
        for row in read.map_err(StoreError::query("read the terms of landings"))? {
            let template = template::from_row(&row)?;
            found.insert(template.id, template);
        }
    }
    Ok(found)
}

//! Updates landings whose template's validity changed before they landed.

use std::collections::HashMap;

use coupon::{Template, TemplateId};
use sqlx::MySqlConnection;

use super::Landing;
use crate::{StoreError, templates::template};

/// Gives each of `landings` whose template has a newer version the new validity. Returns whether there were any. The
/// guard refuses a landing if its terms change once more.
///
/// # Errors
/// A statement fails; then none has changed.
pub async fn renew(
    connection: &mut MySqlConnection,
    landings: Vec<&mut Landing>,
) -> Result<bool, StoreError> {
    let mut ids: Vec<TemplateId> =
        landings.iter().map(|landing| landing.landed.template_id).collect();
    ids.sort_unstable();
    ids.dedup();
    let templates = template::of_ids(connection, &ids).await?;
    if let Some(id) = templates.unreadable.first() {
        return Err(StoreError::unreadable(format!("template {id}")));
    }
    let templates: HashMap<TemplateId, Template> =
        templates.rows.into_iter().map(|template| (template.id, template)).collect();
    let mut renewed = false;
    for Landing { landed, terms, .. } in landings {
        let Some(template) = templates.get(&landed.template_id) else { continue };
        if template.version > *terms {
            let validity = template.validity.of_claim(landed.claimed_at);
            (landed.valid_from, landed.valid_until) = validity;
            // A hold ends no later than the validity.
            landed.held_until = landed.held_until.map(|until| until.min(landed.valid_until));
            *terms = template.version;
            renewed = true;
        }
    }
    Ok(renewed)
}

//! Updates landings whose template's validity changed before they landed.

use std::collections::HashMap;

use coupon::{LandedClaim, Template, TemplateId};
use sqlx::MySqlConnection;

use super::Landing;
use crate::{StoreError, templates::template};

/// Gives each of `landings` whose template has a newer version the new validity. Returns whether there were any. The
/// guard refuses a landing if its terms change once more.
///
/// # Errors
/// A statement fails; then none has changed.
pub async fn renew<'a>(
    connection: &mut MySqlConnection,
    landings: impl Iterator<Item = &'a mut Landing>,
) -> Result<bool, StoreError> {
    let parts = |landing: &'a mut Landing| (&mut landing.landed, &mut landing.terms);
    let parts = landings.map(parts).collect();
    all(connection, parts).await
}

/// Renews each claim and the version of the template from which its validity comes.
pub(crate) async fn all(
    connection: &mut MySqlConnection,
    landings: Vec<(&mut LandedClaim, &mut i64)>,
) -> Result<bool, StoreError> {
    let mut ids: Vec<TemplateId> = landings.iter().map(|(landed, _)| landed.template_id).collect();
    ids.sort_unstable();
    ids.dedup();
    let templates = template::of_ids(connection, &ids).await?;
    if let Some(id) = templates.unreadable.first() {
        return Err(StoreError::unreadable(format!("template {id}")));
    }
    let templates: HashMap<TemplateId, Template> =
        templates.rows.into_iter().map(|template| (template.id, template)).collect();
    let mut renewed = false;
    for (landed, terms) in landings {
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

//! A cache of the facts of templates that a claim's rows need: owner, validity, version.
//!
//! An outdated version does no harm: the guard refuses the landing, and the next attempt uses the new validity.

use std::collections::{BTreeSet, HashMap};

use coupon::{Admission, Template, TemplateId, TemplateState, limit};
use mysql_store::{MySqlConnection, StoreError, template};
use tracing::error;

/// Most templates that are kept, at a few hundred bytes each: more than are claimed within minutes, and more than a
/// batch names.
const KEPT_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Templates {
    known: HashMap<TemplateId, Template>,
    /// Templates of the last batch whose row this version cannot read.
    unreadable: BTreeSet<TemplateId>,
}

impl Templates {
    /// Reads the templates among `ids` that are not cached. A row that cannot be read does not affect the others.
    pub(super) async fn learn(
        &mut self,
        connection: &mut MySqlConnection,
        ids: &BTreeSet<TemplateId>,
    ) -> Result<(), StoreError> {
        if self.known.len() + ids.len() > KEPT_MAX {
            self.known.clear();
        }
        // Do not keep drafts: their limit may still change, and `fits` depends on it.
        self.known.retain(|_, template| template.state != TemplateState::Draft);
        self.unreadable.clear();
        let missing: Vec<TemplateId> =
            ids.iter().filter(|id| !self.known.contains_key(id)).copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let found = template::of_ids(connection, &missing).await?;
        self.known.extend(found.rows.into_iter().map(|template| (template.id, template)));
        for id in found.unreadable {
            error!(template.id = %id, "the template of queued claims cannot be read");
            self.unreadable.insert(id);
        }
        Ok(())
    }

    pub(super) fn get(&self, id: TemplateId) -> Option<&Template> {
        self.known.get(&id)
    }

    /// Returns whether the row of a template of this batch cannot be read.
    pub(super) fn is_unreadable(&self, id: TemplateId) -> bool {
        self.unreadable.contains(&id)
    }

    /// Drops a template from the cache, so that it is read again.
    pub(super) fn forget(&mut self, id: TemplateId) {
        self.known.remove(&id);
    }
}

/// Returns whether a claim may be landed with its numbers or with others. A claim without numbers would evade the limit,
/// and one with more coupons than a claim may have would exceed the size of a transaction.
pub(super) fn fits(admission: &Admission, template: &Template) -> bool {
    let most = if template.per_user_limit == 0 { 0 } else { limit::PER_USER_MAX };
    (1..=limit::QUANTITY_MAX).contains(&admission.claim.quantity) && admission.has_numbers_of(most)
}

//! The templates of coupons that are about to be shown: from memory, and rarely from MySQL.
//!
//! A process that has read the topic knows them all. One that has just started reads what a page lacks by one statement.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, PoisonError},
    time::Duration,
};

use coupon::{Template, TemplateId, TemplateState};
use mysql_store::{connect, template};

use super::TemplateCache;

/// Longest time that a list of coupons waits for templates that are not in memory. It is answered without them then:
/// a shopper who sees coupons without their names is better off than one who sees nothing.
const AT_HAND_MAX: Duration = Duration::from_secs(1);

impl TemplateCache {
    /// Returns those of these templates that are in memory, and those that MySQL shows soon: one read for all that are
    /// missing, at most [`AT_HAND_MAX`], and within the limit of misses. Drafts are absent, and so is what was not read
    /// in time.
    pub(crate) async fn at_hand(
        &self,
        ids: HashSet<TemplateId>,
    ) -> HashMap<TemplateId, Arc<Template>> {
        let mut found = HashMap::new();
        let mut missing: Vec<TemplateId> = ids.into_iter().collect();
        self.take_known(&mut missing, &mut found);
        if !missing.is_empty() {
            // Boxed: few lists need it, and its future is large.
            let read = Box::pin(self.read_missing(missing));
            found.extend(tokio::time::timeout(AT_HAND_MAX, read).await.unwrap_or_default());
        }
        found
    }

    async fn read_missing(
        &self,
        mut missing: Vec<TemplateId>,
    ) -> HashMap<TemplateId, Arc<Template>> {
        let mut found = HashMap::new();
        let _turn = self.misses.acquire().await;
        // Another list may have read them meanwhile.
        self.take_known(&mut missing, &mut found);
        if missing.is_empty() || !self.may_read() {
            return found;
        }
        let read = connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            template::of_ids(&mut connection, &missing).await
        });
        match read.await {
            Ok(read) => {
                for id in read.unreadable {
                    let why = format!("the row of template {id} cannot be read by this version");
                    runtime::seldom!("coupons are shown without their templates", why);
                }
                let visible = read.rows.into_iter().filter(|one| one.state != TemplateState::Draft);
                found.extend(visible.map(|template| (template.id, self.apply(template))));
            }
            Err(error) => {
                let error = runtime::report(&error);
                runtime::seldom!("coupons are shown without their templates", error);
            }
        }
        found
    }

    /// Moves those of `missing` that are in memory to `found`.
    fn take_known(
        &self,
        missing: &mut Vec<TemplateId>,
        found: &mut HashMap<TemplateId, Arc<Template>>,
    ) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        missing.retain(|id| match known.by_id.get(id) {
            Some(template) => {
                found.insert(*id, Arc::clone(template));
                false
            }
            None => true,
        });
    }
}

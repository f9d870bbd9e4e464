//! The end of a template's queue. When a template is over, claims in its queue still land. Until they have landed, new
//! claims are refused only by its gate. Then the queue is closed, and MySQL alone has every answer.

use std::sync::PoisonError;

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{Template, TemplateId};
use mysql_store::{StoreError, connect, stock};

use crate::gate::{gates::Gates, keeper::Keeper};

impl Gates {
    /// Returns the version of an ended template at which its queue was found closed or never used.
    pub(crate) fn queue_closed_at(&self, template: TemplateId) -> Option<i64> {
        let closed = self.queues_closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.get(&template).copied()
    }

    /// Returns whether no queued claim of a template that is over can land any more: it was never queued, or its queue
    /// is closed. MySQL is asked until this is so, and then once for each version of the template: another mode or
    /// window is another version.
    ///
    /// # Errors
    /// MySQL is unreachable.
    pub(crate) async fn is_queue_closed(&self, template: &Template) -> Result<bool, StoreError> {
        if self.queue_closed_at(template.id) == Some(template.version) {
            return Ok(true);
        }
        let facts = connect::within(async {
            let mut connection = connect::acquire(self.pool()).await?;
            stock::queue_facts(&mut connection, template.id).await
        });
        let closed = facts.await?.is_none_or(|facts| !facts.ever_queued || facts.queue_closed);
        if closed {
            let mut known = self.queues_closed.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(template.id, template.version);
        }
        Ok(closed)
    }
}

impl Keeper {
    /// Returns the templates that are over and whose queues are not closed. After its window a template keeps its gate
    /// for a while, as other templates do.
    pub(super) async fn unclosed(&self, now: DateTime<Utc>) -> Result<Vec<TemplateId>, StoreError> {
        let stays = TimeDelta::from_std(self.unload_after).unwrap_or(TimeDelta::MAX);
        let over = now.checked_sub_signed(stays).unwrap_or(DateTime::UNIX_EPOCH);
        connect::within(async {
            let mut connection = connect::acquire(self.gates().pool()).await?;
            stock::unclosed_queues(&mut connection, over).await
        })
        .await
    }

    /// Begins to close these queues. A task of its own waits for the claims of each.
    pub(super) async fn close_queues(&self, unclosed: &[TemplateId]) {
        for id in unclosed {
            let _alone = self.gates().alone().await;
            if let Err(error) = self.gates().close_queue(*id).await {
                let why = format!("template {id}: {}", runtime::report(&error));
                runtime::seldom!("the queue of a template that is over is not closed", why);
            }
        }
    }
}

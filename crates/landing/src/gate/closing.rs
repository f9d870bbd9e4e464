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

/// Queues that one look begins to close. Those whose topic is away stay in the list, and wait; they must not keep the
/// others from their turn.
const CLOSED_AT_ONCE: usize = 100;

/// Returns the queues after `last`, and from the beginning again.
fn next_to_close(unclosed: &[TemplateId], last: Option<TemplateId>) -> Vec<TemplateId> {
    let behind = unclosed.partition_point(|id| Some(*id) <= last);
    let (first, rest) = unclosed.split_at(behind);
    rest.iter().chain(first).take(CLOSED_AT_ONCE).copied().collect()
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

    /// Begins to close these queues, ordered by id, some in each look. A task of its own waits for the claims of each.
    pub(super) async fn close_queues(&mut self, unclosed: &[TemplateId]) {
        let next = next_to_close(unclosed, self.closed_up_to);
        self.closed_up_to = next.last().copied();
        for id in &next {
            let _alone = self.gates().alone().await;
            if let Err(error) = self.gates().close_queue(*id).await {
                let why = format!("template {id}: {}", runtime::report(&error));
                runtime::seldom!("the queue of a template that is over is not closed", why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_that_cannot_be_closed_take_turns_with_all_others() {
        let unclosed: Vec<TemplateId> = (1..=250).map(TemplateId).collect();
        let mut last = None;
        let mut tried = Vec::new();
        for _ in 0..5 {
            let next = next_to_close(&unclosed, last);
            last = next.last().copied();
            tried.extend(next);
        }
        assert_eq!(tried, [unclosed.clone(), unclosed].concat());
        assert_eq!(next_to_close(&[], last), []);
        assert_eq!(next_to_close(&[TemplateId(3)], Some(TemplateId(7))), [TemplateId(3)]);
    }
}

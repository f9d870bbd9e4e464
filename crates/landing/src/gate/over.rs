//! Templates that are over.
//!
//! Claims in a queue still land. Until they have landed, new claims are refused only by the gate. Then the queue is closed,
//! and MySQL alone has every answer. Gates that are no longer on the keeper's list are removed.

use std::{
    collections::HashSet,
    sync::{Arc, PoisonError},
};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{Template, TemplateId};
use mysql_store::{StoreError, connect, stock, template};
use redis_gate::Unloaded;
use runtime::FailPoints;
use tracing::{info, warn};

use crate::gate::{
    gates::Gates,
    keeper::{Keeper, TAIL},
    rebuild::RebuildError,
    resolver::{GRACE, ResolveError, Resolver},
};

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

/// Queues that a process is closing at once. While the topic is away each of them waits and polls the servers. The
/// others lose nothing by waiting for their turn: their gates, if loaded, refuse claims until then.
const CLOSINGS_MAX: usize = 100;

/// Returns up to `room` of the queues, round robin after `last`, so that those that cannot be closed now do not block
/// the others.
fn next_to_close(
    unclosed: &[TemplateId],
    last: Option<TemplateId>,
    room: usize,
) -> Vec<TemplateId> {
    let behind = unclosed.partition_point(|id| Some(*id) <= last);
    let (first, rest) = unclosed.split_at(behind);
    rest.iter().chain(first).take(room).copied().collect()
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

    /// Begins to close these queues, ordered by id, some in each check. Each has a task that waits for its claims.
    pub(super) async fn close_queues(&mut self, unclosed: &[TemplateId]) {
        let attempts = &self.gates().attempts;
        let room = CLOSINGS_MAX.saturating_sub(attempts.closings());
        let idle: Vec<TemplateId> =
            unclosed.iter().copied().filter(|id| !attempts.rests(*id)).collect();
        let next = next_to_close(&idle, self.closed_up_to, room);
        self.closed_up_to = next.last().copied().or(self.closed_up_to);
        for id in &next {
            let _alone = self.gates().alone().await;
            if let Err(error) = self.gates().close_queue(*id).await {
                let why = format!("template {id}: {}", runtime::report(&error));
                runtime::seldom!("the queue of a template that is over is not closed", why);
            }
        }
    }

    /// Removes loaded gates that are not on the list any more: every api, or Redis, was down for longer than [`TAIL`],
    /// or a process resumed loading one after the others had removed it.
    pub(super) async fn unload_strays(
        &self,
        watched: &HashSet<TemplateId>,
        now: DateTime<Utc>,
    ) -> Result<(), RebuildError> {
        let gate = self.gates().gate();
        for id in gate.templates().await?.into_iter().filter(|id| !watched.contains(id)) {
            let template = connect::within(async {
                let mut connection = connect::acquire(self.gates().pool()).await?;
                template::get(&mut connection, id).await
            });
            // Other processes may load their gates earlier than this one, and a gate unknown to MySQL must be left
            // alone.
            let over = |template: &Template| template.window.ends_at <= now - TAIL;
            let template = match template.await {
                Err(error) if error.is_unreadable() => {
                    let why = format!("template {id}: {}", runtime::report(&error));
                    runtime::seldom!("a gate is not unloaded", why);
                    continue;
                }
                template => template?,
            };
            if !template.as_ref().is_some_and(over) {
                continue;
            }
            let unloaded = self.unload_stray(id, now).await;
            if let Err(error) = self.replace_unreadable(id, unloaded).await {
                let why = format!("template {id}: {}", runtime::report(&error));
                runtime::seldom!("a gate is not unloaded", why);
            }
        }
        Ok(())
    }

    async fn unload_stray(&self, id: TemplateId, now: DateTime<Utc>) -> Result<(), RebuildError> {
        let gate = self.gates().gate();
        let resolver = Resolver {
            pool: self.gates().pool().clone(),
            gate: gate.clone(),
            queue: Arc::clone(self.gates().queue()),
            grace: GRACE,
            points: FailPoints::default(),
        };
        match resolver.look_at(id, now).await {
            Ok(()) => {}
            Err(ResolveError::Gate(error)) => return Err(error.into()),
            Err(error) => {
                warn!(template.id = %id, error = runtime::report(&error), "not resolved");
                return Ok(());
            }
        }
        let Some(meta) = gate.meta(id).await? else { return Ok(()) };
        if gate.unload(id, meta.epoch, now).await? == Unloaded::Gone {
            info!(template.id = %id, "unloaded a gate that was forgotten loaded");
        }
        Ok(())
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
            let next = next_to_close(&unclosed, last, 100);
            last = next.last().copied();
            tried.extend(next);
        }
        assert_eq!(tried, [unclosed.clone(), unclosed.clone()].concat());
        assert_eq!(next_to_close(&[], last, 100), []);
        assert_eq!(next_to_close(&unclosed, last, 0), []);
        assert_eq!(next_to_close(&[TemplateId(3)], Some(TemplateId(7)), 100), [TemplateId(3)]);
    }
}

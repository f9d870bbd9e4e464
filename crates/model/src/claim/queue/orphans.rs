//! The resolver's search for queued requests that are in neither outbox nor topic.

use super::{
    super::{Next, Promise, Protocol, State, Who, step, truth::Row},
    state::{Orphan, bit},
};
use crate::{
    Bug,
    gate::{Request, RequestState},
};

impl Protocol {
    /// Requests a new epoch if the request is not in the outbox, the committed offset then passes the partition's end,
    /// and MySQL still has no row.
    pub(super) fn look_for_orphans(&self, state: &State, next: &mut Next) {
        let who = Who::Resolver(0);
        let mut after = *state;
        match state.queue.orphan {
            Orphan::Idle => self.begin_search(state, next),
            Orphan::OutboxNext { id, epoch, end } => {
                after.queue.orphan = match state.gate.outbox.has(id) {
                    true => Orphan::Idle,
                    false => Orphan::Wait { id, epoch, end },
                };
                next.push((step(who, "looks into the outbox"), after));
            }
            Orphan::Wait { id, epoch, end } if state.queue.committed >= end => {
                after.queue.orphan = Orphan::Idle;
                let queued = |r: Request| r.state == RequestState::Queued;
                let stands = state.gate.request(id).is_some_and(queued)
                    && state.gate.live().is_some_and(|meta| meta.epoch == epoch);
                if stands && matches!(state.truth.row(id), Row::Absent | Row::Foreign) {
                    after.wrong = after.wrong.max(epoch);
                    let carried = state.queue.waiting().iter().any(|message| message.id == id);
                    // Another relay may have published what the broker refused one; such an epoch is needless but safe.
                    if state.queue.excused & bit(id) == 0 && carried {
                        after.broken = Some(Promise::NoNeedlessEpoch);
                    }
                }
                next.push((step(who, "the end is reached; is there a row?"), after));
            }
            Orphan::Wait { .. } => {}
        }
    }

    fn begin_search(&self, state: &State, next: &mut Next) {
        let Some(meta) = state.gate.live().filter(|_| state.left.orphans > 0) else { return };
        let mut after = *state;
        after.left.orphans -= 1;
        let epoch = meta.epoch;
        let end = state.queue.end();
        for id in queued_ids(state) {
            after.queue.orphan = if self.has(Bug::EndNotedBeforeOutbox) {
                Orphan::OutboxNext { id, epoch, end }
            } else if state.gate.outbox.has(id) {
                continue;
            } else {
                Orphan::Wait { id, epoch, end }
            };
            let what = "a queued request is not in the outbox; notes the partition's end";
            next.push((step(Who::Resolver(0), what), after));
        }
    }
}

/// Returns the requests that the gate believes in the queue.
pub(in crate::claim) fn queued_ids(state: &State) -> Vec<u8> {
    let queued = state.gate.requests().filter(|r| r.state == RequestState::Queued);
    queued.map(|request| request.id).collect()
}

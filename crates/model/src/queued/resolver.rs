//! The resolver: ends requests at the gate that MySQL has decided, and finds queued ones in neither outbox nor topic.

use super::{
    Next, Promise, Protocol, State, Who, bit, bounds::IDS, gate::Request, state::Resolver, step,
    truth::Row,
};
use crate::Bug;

impl Protocol {
    pub(super) fn resolve(&self, state: &State, next: &mut Next) {
        for id in 0..IDS as u8 {
            // Its process is at work; `claim` explores a resolver that does not wait for that.
            let busy = state.walks[usize::from(id)].is_under_way();
            if busy && matches!(state.gate.request(id), Request::Pending(_)) {
                continue;
            }
            let mut after = *state;
            if let Some(what) = self.resolve_one(&mut after, id) {
                next.push((step(Who::Resolver, what), after));
            }
        }
        self.look_for_orphans(state, next);
    }

    /// Resolves one request, if there is anything to do.
    pub(super) fn resolve_one(&self, state: &mut State, id: u8) -> Option<&'static str> {
        let epoch = state.gate.live()?.epoch;
        let user = self.attempt(id).user;
        let queued = match state.gate.request(id) {
            Request::Pending(_) => false,
            Request::Queued(_) => true,
            Request::Absent | Request::Landed(_) => return None,
        };
        if queued && self.bounds.has(Bug::ResolverIgnoresQueued) {
            return None;
        }
        if !queued || self.bounds.has(Bug::ResolverFencesQueued) {
            Self::fence(&mut state.truth, id);
        }
        match state.truth.row(id) {
            Row::Landed(_) => {
                state.gate.settle(epoch, id);
                Some("it landed: settle.lua")
            }
            Row::Foreign if !self.is_fenced(&state.truth, id) => None,
            Row::Rejected(_) | Row::Void | Row::Foreign => {
                state.gate.release(epoch, user, id);
                Some("it is rejected or fenced: release.lua")
            }
            Row::Absent => None,
        }
    }

    /// Requests a new epoch if the request is not in the outbox, the committed offset then passes the partition's end,
    /// and MySQL still has no row.
    fn look_for_orphans(&self, state: &State, next: &mut Next) {
        let mut after = *state;
        match state.resolver {
            Resolver::Idle => {
                let Some(meta) = state.gate.live().filter(|_| state.left.orphans > 0) else {
                    return;
                };
                after.left.orphans -= 1;
                let queued = |id: &u8| matches!(state.gate.request(*id), Request::Queued(_));
                for id in (0..IDS as u8).filter(queued) {
                    let epoch = meta.epoch;
                    let end = state.topic_end();
                    after.resolver = if self.bounds.has(Bug::EndNotedBeforeOutbox) {
                        Resolver::OutboxNext { id, epoch, end }
                    } else if state.gate.is_in_outbox(id) {
                        continue;
                    } else {
                        Resolver::Wait { id, epoch, end }
                    };
                    let what = "a queued request is not in the outbox; notes the partition's end";
                    next.push((step(Who::Resolver, what), after));
                }
            }
            Resolver::OutboxNext { id, epoch, end } => {
                after.resolver = match state.gate.is_in_outbox(id) {
                    true => Resolver::Idle,
                    false => Resolver::Wait { id, epoch, end },
                };
                next.push((step(Who::Resolver, "looks into the outbox"), after));
            }
            Resolver::Wait { id, epoch, end } if state.committed >= end => {
                after.resolver = Resolver::Idle;
                let stands = matches!(state.gate.request(id), Request::Queued(_))
                    && state.gate.live().is_some_and(|meta| meta.epoch == epoch);
                if stands && matches!(state.truth.row(id), Row::Absent | Row::Foreign) {
                    after.wrong = after.wrong.max(epoch);
                    let carried = state.topic.as_slice()[usize::from(state.committed)..].iter();
                    // Another relay may have published what the broker refused one; such an epoch is needless but safe.
                    let expected = state.excused & bit(id) == 0;
                    if expected && carried.into_iter().any(|message| message.id == id) {
                        after.broken = Some(Promise::NoNeedlessEpoch);
                    }
                }
                next.push((step(Who::Resolver, "the end is reached; is there a row?"), after));
            }
            Resolver::Wait { .. } => {}
        }
    }
}

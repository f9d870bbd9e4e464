//! The resolver: ends the admissions whose process died or hangs, and queued requests that MySQL has decided. Its grace
//! is 0 here.

use super::{
    LateKind, Next, Protocol, State, Who, dies, is_next,
    state::{Packet, Resolver},
    step,
    truth::{Fence, Row},
};
use crate::{
    Bug,
    gate::{Request, RequestState},
};

impl Protocol {
    pub(super) fn resolve(&self, state: &State, next: &mut Next) {
        for which in 0..self.bounds.resolvers {
            self.resolve_in_flight(state, which, next);
        }
        if self.bounds.coarse {
            for request in state.gate.requests() {
                // Its process is at work.
                let busy = state.walk(request.id).is_under_way();
                if busy && request.state == RequestState::Pending {
                    continue;
                }
                let mut after = *state;
                if let Some(what) = self.resolve_at_once(&mut after, *request) {
                    next.push((step(Who::Resolver(0), what), after));
                }
            }
        }
    }

    /// Resolves one request in one step, if there is anything to do.
    pub(super) fn resolve_at_once(
        &self,
        state: &mut State,
        request: Request,
    ) -> Option<&'static str> {
        let epoch = state.gate.live()?.epoch;
        let Request { id, state: known, .. } = request;
        let user = self.attempt(id).user;
        match known {
            RequestState::Landed => return None,
            RequestState::Queued if self.has(Bug::ResolverIgnoresQueued) => return None,
            RequestState::Queued if !self.has(Bug::ResolverFencesQueued) => {}
            RequestState::Queued | RequestState::Pending => {
                self.fence_or_select(state, id);
            }
        }
        match state.truth.row(id) {
            Row::Landed(_) => {
                state.gate.settle(self.rules(), epoch, &[(user, id)]);
                Some("it landed: settle.lua")
            }
            Row::Foreign if !self.has(Bug::ForeignFenceBinds) => None,
            Row::Absent if known == RequestState::Queued => None,
            Row::Absent | Row::Rejected(_) | Row::Void | Row::Foreign => {
                state.gate.release(self.rules(), epoch, user, id);
                Some("it is rejected or fenced: release.lua")
            }
        }
    }

    fn resolve_in_flight(&self, state: &State, which: usize, next: &mut Next) {
        let resolver = state.resolvers[which];
        let who = Who::Resolver(which);
        let mut push = |what, resolver, mut after: State| {
            after.resolvers[which] = resolver;
            next.push((step(who, what), after));
        };
        let mut after = *state;
        match resolver {
            Resolver::Idle => {
                if state.gate.meta.is_some() && is_next(&state.resolvers, which, &resolver) {
                    let epoch = state.gate.epoch();
                    for id in state.gate.inflight.iter() {
                        push("reads an admission in flight", Resolver::Fence { id, epoch }, *state);
                    }
                }
            }
            Resolver::Fence { id, epoch } => match self.fence_or_select(&mut after, id) {
                Fence::Stands => push("fences it", Resolver::Release { id, epoch }, after),
                Fence::Landed => push("finds it landed", Resolver::Settle { id, epoch }, after),
            },
            Resolver::Release { id, epoch } => {
                after.gate.release(self.rules(), epoch, self.attempt(id).user, id);
                push("release.lua", Resolver::Idle, after);
                if self.may_be_late(state, LateKind::Release) {
                    let late = Self::sent_late(state, Packet::Release { id, epoch });
                    push("release.lua is late", Resolver::Idle, late);
                }
            }
            Resolver::Settle { id, epoch } => {
                after.gate.settle(self.rules(), epoch, &[(self.attempt(id).user, id)]);
                push("settle.lua", Resolver::Idle, after);
                if self.may_be_late(state, LateKind::Settle) {
                    let late = Self::sent_late(state, Packet::Settle { id, epoch });
                    push("settle.lua is late", Resolver::Idle, late);
                }
            }
        }
        if resolver != Resolver::Idle {
            dies(state, who, next, |dead| dead.resolvers[which] = Resolver::Idle);
        }
    }

    fn fence_or_select(&self, state: &mut State, id: u8) -> Fence {
        if self.has(Bug::ResolverDecidesBySelect) {
            return if state.truth.has_landed(id) { Fence::Landed } else { Fence::Stands };
        }
        state.truth.fence(self.claims(), id, self.bounds.bug)
    }
}

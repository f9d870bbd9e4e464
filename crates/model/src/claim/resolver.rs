//! The resolver: ends the admissions whose process died or hangs. Its grace is 0 here.

use super::{
    LateKind, Next, Protocol, State, Step, Who, is_next,
    state::{Packet, Resolver},
    truth::Fence,
};
use crate::Bug;

impl Protocol {
    pub(super) fn resolve(&self, state: &State, which: usize, next: &mut Next) {
        let resolver = state.resolvers[which];
        let who = Who::Resolver(which);
        let mut push = |what, resolver, mut after: State| {
            after.resolvers[which] = resolver;
            next.push((Step { who, what }, after));
        };
        match resolver {
            Resolver::Idle => {
                let Some(meta) = state.gate.meta else { return };
                if is_next(&state.resolvers, which, &Resolver::Idle) {
                    for id in state.gate.inflight.iter() {
                        let read = Resolver::Fence { id, epoch: meta.epoch };
                        push("reads an admission in flight", read, *state);
                    }
                }
            }
            Resolver::Fence { id, epoch } => {
                let mut after = *state;
                match self.fence_or_select(&mut after, id) {
                    Fence::Stands => push("fences it", Resolver::Release { id, epoch }, after),
                    Fence::Landed => push("finds it landed", Resolver::Settle { id, epoch }, after),
                }
            }
            Resolver::Release { id, epoch } => {
                let mut after = *state;
                after.gate.release(self.rules(), epoch, self.attempt(id).user, id);
                push("release.lua", Resolver::Idle, after);
                if self.may_be_late(state, LateKind::Release) {
                    let late = Self::sent_late(state, Packet::Release { id, epoch });
                    push("release.lua is late", Resolver::Idle, late);
                }
            }
            Resolver::Settle { id, epoch } => {
                let mut after = *state;
                after.gate.settle(self.rules(), epoch, &[(self.attempt(id).user, id)]);
                push("settle.lua", Resolver::Idle, after);
                if self.may_be_late(state, LateKind::Settle) {
                    let late = Self::sent_late(state, Packet::Settle { id, epoch });
                    push("settle.lua is late", Resolver::Idle, late);
                }
            }
        }
        if resolver != Resolver::Idle && state.left.crashes > 0 {
            let mut died = *state;
            died.left.crashes -= 1;
            push("dies", Resolver::Idle, died);
        }
    }

    pub(super) fn fence_or_select(&self, state: &mut State, id: u8) -> Fence {
        if self.bounds.has(Bug::ResolverDecidesBySelect) {
            return if state.truth.has_landed(id) { Fence::Landed } else { Fence::Stands };
        }
        state.truth.fence(self.claims(), id, self.bounds.bug)
    }
}

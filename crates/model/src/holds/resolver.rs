//! The resolver: ends the admissions whose process died or hangs. Its grace is 0 here.

use super::{Next, Protocol, State, Step, Who, state::Resolver, truth::Fence};

impl Protocol {
    pub(super) fn resolve(&self, state: &State, next: &mut Next) {
        let resolver = state.resolver;
        let who = Who::Resolver;
        let mut push = |what, resolver, mut after: State| {
            after.resolver = resolver;
            next.push((Step { who, what }, after));
        };
        let mut after = *state;
        match resolver {
            Resolver::Idle => {
                let epoch = state.gate_epoch();
                for id in state.gate.inflight.iter() {
                    push("reads an admission in flight", Resolver::Fence { id, epoch }, *state);
                }
            }
            Resolver::Fence { id, epoch } => match after.truth.fence(id) {
                Fence::Stands => push("fences it", Resolver::Release { id, epoch }, after),
                Fence::Landed => push("finds it landed", Resolver::Settle { id, epoch }, after),
            },
            Resolver::Release { id, epoch } => {
                after.gate.release(epoch, self.attempt(id).user, id);
                push("release.lua", Resolver::Idle, after);
            }
            Resolver::Settle { id, epoch } => {
                after.gate.settle(&self.bounds, epoch, self.attempt(id).user, id);
                push("settle.lua", Resolver::Idle, after);
            }
        }
        if resolver != Resolver::Idle && state.left.crashes > 0 {
            let mut died = *state;
            died.left.crashes -= 1;
            push("dies", Resolver::Idle, died);
        }
    }
}

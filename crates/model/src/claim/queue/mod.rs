//! Queued claims behind their admission: the relay, the topic, the lander, and the client that asks for its claim.
//!
//! Left out: batches and prefetch, undecodable messages, position and estimate, an old master that still answers, and a
//! topic that loses an acknowledged message. A late packet is a process that pauses before a step.

mod lander;
mod looks;
mod orphans;
mod relay;
pub(super) mod state;

pub(super) use self::orphans::queued_ids;
use super::{Next, Protocol, State};

impl Protocol {
    pub(super) fn work_on_queue(&self, state: &State, next: &mut Next) {
        for which in 0..self.bounds.relays {
            self.relay(state, which, next);
        }
        for which in 0..self.bounds.landers {
            self.run_lander(state, which, next);
        }
        self.look_for_orphans(state, next);
        self.look(state, next);
        self.look_elsewhere(state, next);
    }
}

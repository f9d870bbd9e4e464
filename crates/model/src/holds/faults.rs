//! External faults: late packets, and a Redis that loses everything, goes back to earlier contents, or holds a coupon
//! too many.

use super::{Next, Protocol, State, Step, Who, gate::Gate, state::Packet};

impl Protocol {
    /// A late packet takes effect or is lost.
    pub(super) fn arrive(&self, state: &State, next: &mut Next) {
        let Some(packet) = state.packet else { return };
        let mut after = *state;
        after.packet = None;
        next.push((Step { who: Who::Network, what: "the late packet is lost" }, after));
        let bounds = &self.bounds;
        let what = match packet {
            Packet::Claim { id, epoch } => {
                after.gate.claim(bounds, epoch, self.claim(id));
                "the late claim.lua arrives"
            }
            Packet::Settle { id, epoch } => {
                after.gate.settle(bounds, epoch, self.attempt(id).user, id);
                "the late settle.lua arrives"
            }
            Packet::Release { id, epoch } => {
                after.gate.release(epoch, self.attempt(id).user, id);
                "the late release.lua arrives"
            }
            Packet::Landing(_) if state.truth.hidden.is_some() => return,
            Packet::Landing(landing) => {
                self.landing(&mut after, landing);
                "the late landing arrives"
            }
            Packet::Move { seq, epoch } => {
                let movement = state.truth.message(seq);
                after.gate.apply(bounds, epoch, seq, movement);
                "the late move.lua arrives"
            }
        };
        next.push((Step { who: Who::Network, what }, after));
    }

    pub(super) fn strike(&self, state: &State, next: &mut Next) {
        let who = Who::Redis;
        if state.left.losses > 0 && state.gate.meta.is_some() {
            let mut lost = *state;
            lost.left.losses -= 1;
            lost.gate = Gate::absent(state.gate.run);
            next.push((Step { who, what: "forgets everything" }, lost));
        }
        if state.left.rewinds > 0 {
            self.rewind(state, next);
        }
        if state.left.lies > 0 && self.is_trusted(state) {
            let mut lied = *state;
            lied.left.lies -= 1;
            lied.lied = state.truth.epoch;
            if let Some(meta) = &mut lied.gate.meta {
                meta.stock += 1;
            }
            next.push((Step { who, what: "lies: one coupon more" }, lied));
        }
    }

    /// A restart closes every connection, so packets on their way to Redis are lost.
    fn rewind(&self, state: &State, next: &mut Next) {
        let who = Who::Redis;
        let Some(snapshot) = state.snapshot else {
            let mut taken = *state;
            taken.snapshot = Some(state.gate);
            next.push((Step { who, what: "(this is what it will remember)" }, taken));
            return;
        };
        if snapshot == state.gate {
            return;
        }
        let mut rewound = *state;
        rewound.left.rewinds -= 1;
        rewound.snapshot = None;
        rewound.gate = snapshot;
        rewound.gate.run = state.gate.run + 1;
        rewound.packet = state.packet.filter(|packet| matches!(packet, Packet::Landing(_)));
        next.push((Step { who, what: "starts again with what it remembered" }, rewound));
    }
}

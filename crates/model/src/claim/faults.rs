//! External faults: late packets, and a Redis that loses everything, goes back to earlier contents, or holds wrong
//! contents.

use super::{
    Next, Protocol, State, Step, Who,
    state::{BoundGate, Packet},
};
use crate::{
    Bug,
    gate::{Numbers, Phase},
};

use super::NOW;

impl Protocol {
    /// A late packet takes effect or is lost.
    pub(super) fn arrive(&self, state: &State, next: &mut Next) {
        let Some(packet) = state.packet else { return };
        let rules = self.rules();
        let mut after = *state;
        after.packet = None;
        let mut lost = after;
        lost.operator.send_lost |= matches!(packet, Packet::SetState { .. });
        next.push((Step { who: Who::Network, what: "the late packet is lost" }, lost));
        let what = match packet {
            Packet::Claim { id, epoch } => {
                after.gate.claim(rules, epoch, NOW, self.claim(id));
                "the late claim.lua arrives"
            }
            Packet::Settle { id, epoch } => {
                after.gate.settle(rules, epoch, &[(self.attempt(id).user, id)]);
                "the late settle.lua arrives"
            }
            Packet::Release { id, epoch } => {
                after.gate.release(rules, epoch, self.attempt(id).user, id);
                "the late release.lua arrives"
            }
            Packet::Landing(landing) => {
                self.landing(&mut after, landing);
                "the late landing arrives"
            }
            Packet::Move { seq, epoch } => {
                let delta = state.truth.deltas[usize::from(seq) - 1];
                after.gate.apply_movement(rules, epoch, seq, delta);
                "the late move.lua arrives"
            }
            Packet::SetState { state, version, epoch } => {
                after.gate.set_state(rules, epoch, version, state);
                "the late set_state.lua arrives"
            }
        };
        next.push((Step { who: Who::Network, what }, after));
    }

    pub(super) fn strike(&self, state: &State, next: &mut Next) {
        let who = Who::Redis;
        if state.left.losses > 0 && state.gate.meta.is_some() {
            let mut lost = *state;
            lost.left.losses -= 1;
            lost.gate = BoundGate::absent(state.gate.run);
            next.push((Step { who, what: "forgets everything" }, lost));
        }
        self.rewind(state, next);
        if state.left.lies > 0 && state.gate.meta.is_some_and(|meta| meta.phase == Phase::Open) {
            self.lie(state, next);
        }
    }

    /// A restart closes every connection, so packets on their way to Redis are lost.
    fn rewind(&self, state: &State, next: &mut Next) {
        let who = Who::Redis;
        if state.left.rewinds == 0 {
            return;
        }
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
        rewound.gate.run = state.gate.run + u8::from(!self.bounds.has(Bug::RunNotCompared));
        rewound.packet = state.packet.filter(|packet| matches!(packet, Packet::Landing(_)));
        next.push((Step { who, what: "starts again with what it remembered" }, rewound));
    }

    /// Adds a coupon to the stock, or removes a user's numbers.
    fn lie(&self, state: &State, next: &mut Next) {
        let who = Who::Redis;
        let mut lied = *state;
        lied.left.lies -= 1;
        let Some(meta) = &mut lied.gate.meta else { return };
        lied.lied = meta.epoch;
        let mut more = lied;
        if let Some(meta) = &mut more.gate.meta {
            meta.facts.stock += 1;
        }
        next.push((Step { who, what: "lies: one coupon more" }, more));
        for (user, entry) in state.gate.users.iter().enumerate() {
            if entry.is_some_and(|entry| entry.taken.count() > 0) {
                let mut fewer = lied;
                if let Some(entry) = &mut fewer.gate.users[user] {
                    entry.taken = Numbers::default();
                }
                next.push((Step { who, what: "lies: a user holds nothing" }, fewer));
            }
        }
    }
}

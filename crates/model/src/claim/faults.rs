//! External faults: late packets, and a Redis that loses everything, goes back to earlier contents, or holds wrong
//! contents.

use coupon::{AcceptAfter, LandingMode};

use super::{
    NOW, Next, Protocol, State, Who,
    state::{BoundGate, Packet},
    step,
};
use crate::{
    Bug,
    gate::{Meta, Numbers, Phase},
};

/// How much later a wrong epoch is: more than there are rebuilds.
const LATER: u8 = 100;

impl Protocol {
    /// A late packet takes effect or is lost.
    pub(super) fn arrive(&self, state: &State, next: &mut Next) {
        let Some(packet) = state.packet else { return };
        let rules = self.rules();
        let mut after = *state;
        after.packet = None;
        let mut lost = after;
        lost.operator.send_lost |= matches!(packet, Packet::SetState { .. });
        next.push((step(Who::Network, "the late packet is lost"), lost));
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
            Packet::Landing(_) if state.truth.hidden.is_some() => return,
            Packet::Landing(landing) => {
                self.landing(&mut after, landing, LandingMode::Direct);
                "the late landing arrives"
            }
            Packet::Move { seq, epoch } => {
                let movement = state.truth.message(seq);
                after.gate.apply_movement(rules, epoch, seq, &movement);
                "the late move.lua arrives"
            }
            Packet::SetState { state, version, epoch } => {
                after.gate.set_state(rules, epoch, version, state, after.truth.mode);
                "the late set_state.lua arrives"
            }
        };
        next.push((step(Who::Network, what), after));
    }

    pub(super) fn strike(&self, state: &State, next: &mut Next) {
        if state.left.losses > 0 && state.gate.meta.is_some() {
            let mut lost = *state;
            lost.left.losses -= 1;
            lost.gate = BoundGate::absent(state.gate.run + 1);
            self.restarted(&mut lost, &[AcceptAfter::Topic]);
            next.push((step(Who::Redis, "forgets everything, the outbox too"), lost));
        }
        if state.left.rewinds > 0 {
            self.rewind(state, next);
        }
        let open = |meta: &Meta| meta.phase == Phase::Open;
        if state.left.lies > 0 && state.gate.live().as_ref().is_some_and(open) {
            self.lie(state, next);
        }
    }

    /// Notes that only what is accepted after one of these survives.
    fn restarted(&self, state: &mut State, survive: &[AcceptAfter]) {
        state.copy = None;
        if !survive.contains(&self.bounds.accept_after) {
            state.queue.kept = 0;
        }
    }

    /// A restart closes every connection, so packets on their way to Redis are lost.
    fn rewind(&self, state: &State, next: &mut Next) {
        let who = Who::Redis;
        let Some(copy) = state.copy else {
            let mut taken = *state;
            taken.copy = Some(state.gate);
            next.push((step(who, "(this is what it will remember)"), taken));
            return;
        };
        if copy == state.gate {
            return;
        }
        let mut rewound = *state;
        rewound.left.rewinds -= 1;
        rewound.gate = copy;
        rewound.gate.run = state.gate.run + u8::from(!self.has(Bug::RunNotCompared));
        rewound.gate.refusing = 0;
        rewound.packet = state.packet.filter(|packet| matches!(packet, Packet::Landing(_)));
        self.restarted(&mut rewound, &[AcceptAfter::Topic, AcceptAfter::Replica]);
        if self.has(Bug::OldMasterAnswers) {
            rewound.copy = Some(state.gate);
        }
        next.push((step(who, "starts again with what it remembered"), rewound));
    }

    /// Adds a coupon to the stock, removes a user's numbers, or makes the epoch later.
    fn lie(&self, state: &State, next: &mut Next) {
        let who = Who::Redis;
        let mut lied = *state;
        lied.left.lies -= 1;
        lied.queue.kept = 0;
        lied.lied = state.gate.epoch();
        let mut more = lied;
        if let Some(meta) = &mut more.gate.meta {
            meta.facts.stock += 1;
        }
        next.push((step(who, "lies: one coupon more"), more));
        if self.bounds.held {
            return;
        }
        for (user, entry) in state.gate.users.iter().enumerate() {
            if entry.is_some_and(|entry| entry.taken.count() > 0) {
                let mut fewer = lied;
                if let Some(entry) = &mut fewer.gate.users[user] {
                    entry.taken = Numbers::default();
                }
                next.push((step(who, "lies: a user holds nothing"), fewer));
            }
        }
        if self.bounds.queues() {
            let mut later = lied;
            later.lied = state.gate.epoch() + LATER;
            // What it knows of users belongs to its epoch.
            later.gate =
                BoundGate { outbox: state.gate.outbox, ..BoundGate::absent(state.gate.run) };
            let meta = state.gate.meta;
            later.gate.meta = meta.map(|meta| Meta { epoch: later.lied, users: 0, ..meta });
            next.push((step(who, "lies: a later epoch"), later));
        }
    }
}

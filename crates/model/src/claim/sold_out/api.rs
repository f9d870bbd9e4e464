//! An api's knowledge of the template: the users of a scan, and how long a look allows it to refuse all others.

use super::{
    super::{Next, Protocol, State, Who, step},
    LEASE, NOTE, Users, bit,
};
use crate::Bug;

/// One api.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(in crate::claim) struct Api {
    scan: Option<Scan>,
    known: Option<Known>,
    look: Option<Look>,
}

/// A scan of the users' entries under way: one user a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Scan {
    epoch: u8,
    found: Users,
    /// The next page.
    page: u8,
}

/// What a scan found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Known {
    epoch: u8,
    users: Users,
    /// Ticks for which the api may still refuse by this scan; 0: not at all.
    lease: u8,
}

/// A look under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Look {
    epoch: u8,
    users: Users,
    /// Ticks since it began; at most [`LEASE`].
    age: u8,
    /// The gate's answer, once the look has reached the gate.
    holds: Option<bool>,
}

impl Api {
    pub(super) fn tick(&mut self) {
        if let Some(known) = &mut self.known {
            known.lease = known.lease.saturating_sub(1);
        }
        if let Some(look) = &mut self.look {
            look.age = (look.age + 1).min(LEASE);
        }
    }

    /// Returns whether the api refuses a user without asking the gate.
    pub(super) fn refuses(&self, user: u8) -> bool {
        self.known.is_some_and(|known| known.lease > 0 && known.users & bit(user) == 0)
    }
}

impl Protocol {
    /// The steps of one api.
    pub(super) fn know(&self, state: &State, which: usize, next: &mut Next) {
        self.scan(state, which, next);
        self.look_at_gate(state, which, next);
        if state.left.forgets > 0 && state.memory.apis[which].known.is_some() {
            let mut after = *state;
            after.left.forgets -= 1;
            after.memory.apis[which].known = None;
            next.push((step(Who::Api(which), "forgets what it knows"), after));
        }
    }

    fn scan(&self, state: &State, which: usize, next: &mut Next) {
        let mut after = *state;
        let api = &mut after.memory.apis[which];
        let epoch = state.gate.epoch();
        let what = match &mut api.scan {
            // A claim was refused as sold out.
            None if api.known.is_none() && state.gate.is_sold_out() => {
                api.scan = Some(Scan { epoch, found: 0, page: 0 });
                "begins a scan"
            }
            None => return,
            Some(scan) if self.bounds.users().any(|user| user >= scan.page) => {
                // Each epoch's users are under a key of their own.
                if scan.epoch == epoch {
                    scan.found |= state.gate.known_users() & bit(scan.page);
                }
                scan.page += 1;
                "reads a page"
            }
            Some(scan) => {
                api.known = Some(Known { epoch: scan.epoch, users: scan.found, lease: 0 });
                api.scan = None;
                "ends its scan"
            }
        };
        next.push((step(Who::Api(which), what), after));
    }

    fn look_at_gate(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Api(which);
        let mut after = *state;
        let gate = &mut after.gate;
        let api = &mut after.memory.apis[which];
        let Some(look) = &mut api.look else {
            if let Some(Known { epoch, users, .. }) = api.known {
                api.look = Some(Look { epoch, users, age: 0, holds: None });
                next.push((step(who, "begins a look"), after));
            }
            return;
        };
        let what = match look.holds {
            None => {
                let users = look.users.count_ones();
                look.holds = Some(gate.look(self.rules(), look.epoch, users, NOTE));
                "its look reaches the gate"
            }
            Some(holds) => {
                let age = if self.has(Bug::LeaseFromTheLooksEnd) { 0 } else { look.age };
                let looked = *look;
                api.look = None;
                api.hear(looked, holds, age);
                "hears the look's answer"
            }
        };
        next.push((step(who, what), after));
        let mut lost = *state;
        lost.memory.apis[which].look = None;
        next.push((step(who, "gives up a look"), lost));
    }
}

impl Api {
    fn hear(&mut self, look: Look, holds: bool, age: u8) {
        let Some(known) = &mut self.known else { return };
        if (known.epoch, known.users) != (look.epoch, look.users) {
            return;
        }
        if holds {
            known.lease = known.lease.max(LEASE - age);
        } else {
            self.known = None;
        }
    }
}

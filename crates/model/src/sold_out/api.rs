//! An api's knowledge of the template: the users of a scan, and how long a look allows it to refuse all others.

use super::{LEASE, Next, SoldOut, State, Users, bit, step};
use crate::Bug;

/// One api.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Api {
    pub scan: Option<Scan>,
    pub known: Option<Known>,
    pub look: Option<Look>,
}

/// A scan of the users' entries under way: one user a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scan {
    pub epoch: u8,
    pub found: Users,
    /// The next page.
    pub page: u8,
}

/// What a scan found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Known {
    pub epoch: u8,
    pub users: Users,
    /// Ticks for which the api may still refuse by this scan; 0: not at all.
    pub lease: u8,
}

/// A look under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Look {
    pub epoch: u8,
    pub users: Users,
    /// Ticks since it began; at most [`LEASE`].
    pub age: u8,
    /// The gate's answer, once the look has reached the gate.
    pub holds: Option<bool>,
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
    pub(super) fn refuses(&self, user: usize) -> bool {
        self.known.is_some_and(|known| known.lease > 0 && known.users & bit(user) == 0)
    }
}

impl SoldOut {
    /// The steps of one api.
    pub(super) fn know(&self, state: &State, which: usize, next: &mut Next) {
        self.scan(state, which, next);
        self.look(state, which, next);
        if state.left.forgets > 0 && state.apis[which].known.is_some() {
            let mut after = *state;
            after.left.forgets -= 1;
            after.apis[which].known = None;
            next.push((step("api", "forgets what it knows"), after));
        }
    }

    fn scan(&self, state: &State, which: usize, next: &mut Next) {
        let mut after = *state;
        let api = &mut after.apis[which];
        match &mut api.scan {
            // A claim was refused as sold out.
            None if api.known.is_none() && state.gate.is_sold_out() => {
                api.scan = Some(Scan { epoch: state.gate.epoch, found: 0, page: 0 });
                next.push((step("api", "begins a scan"), after));
            }
            None => {}
            Some(scan) if usize::from(scan.page) < self.bounds.users => {
                // Each epoch's users are under a key of their own.
                if scan.epoch == state.gate.epoch {
                    scan.found |= state.gate.users & bit(scan.page.into());
                }
                scan.page += 1;
                next.push((step("api", "reads a page"), after));
            }
            Some(scan) => {
                api.known = Some(Known { epoch: scan.epoch, users: scan.found, lease: 0 });
                api.scan = None;
                next.push((step("api", "ends its scan"), after));
            }
        }
    }

    fn look(&self, state: &State, which: usize, next: &mut Next) {
        let mut after = *state;
        let gate = &mut after.gate;
        let api = &mut after.apis[which];
        match (&mut api.look, &mut api.known) {
            (None, Some(known)) => {
                let Known { epoch, users, .. } = *known;
                api.look = Some(Look { epoch, users, age: 0, holds: None });
                next.push((step("api", "begins a look"), after));
                return;
            }
            (None, None) => return,
            (Some(look @ Look { holds: None, .. }), _) => {
                look.holds = Some(gate.look(self.bounds.bug, look.epoch, look.users));
                next.push((step("gate", "answers the look"), after));
            }
            (Some(Look { epoch, users, age, holds: Some(holds) }), known) => {
                let same = |known: &Known| (known.epoch, known.users) == (*epoch, *users);
                if known.as_ref().is_some_and(same) {
                    let age = if self.has(Bug::LeaseFromTheLooksEnd) { 0 } else { *age };
                    match known {
                        Some(known) if *holds => known.lease = known.lease.max(LEASE - age),
                        _ => *known = None,
                    }
                }
                api.look = None;
                next.push((step("api", "hears the look's answer"), after));
            }
        }
        let mut lost = *state;
        lost.apis[which].look = None;
        next.push((step("api", "gives up a look"), lost));
    }
}

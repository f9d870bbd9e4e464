//! Refusals from memory. An api knows which users have an entry in the gate of a template that is sold out. It refuses
//! all others without a call, for as long as a look at the gate allows it.
//!
//! Time passes in ticks: any number of steps may share a tick, and any number of ticks may pass between two steps. A
//! refused claim takes no steps of its own: a state in which an api *would* refuse a user is judged as if it did. It does
//! not matter which api handles a claim that reaches the gate.
//!
//! Left out: windows and several coupons of a user, which a look compares in the product, and clocks that run at
//! different rates.

mod api;

use self::api::Api;
use super::{
    Next, Promise, Protocol, State, Who,
    bounds::{APIS_MAX, USERS_MAX},
    state::{At, BoundGate},
    step,
};

/// Ticks for which a look allows refusals, counted from when it was sent.
const LEASE: u8 = 2;

/// Ticks for which the gate remembers that it allowed refusals, counted from when the look reached it. The look was
/// sent no later than that.
pub(super) const NOTE: u8 = LEASE;

/// A set of users, one bit each.
type Users = u8;

/// What refusals from memory add to a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub(super) used: bool,
    pub(super) apis: [Api; APIS_MAX],
    /// For each user, ticks since the gate would last have refused them as sold out; at most `LEASE`.
    pub(super) since: [u8; USERS_MAX],
}

impl Memory {
    pub(super) fn new(apis: usize) -> Self {
        Self { used: apis > 0, apis: Default::default(), since: [LEASE; USERS_MAX] }
    }

    pub(super) fn is_used(&self) -> bool {
        self.used
    }

    /// Notes for each user whether the gate would refuse them as sold out at this moment.
    pub(super) fn judge(&mut self, gate: &BoundGate) {
        let refuses = gate.is_sold_out();
        for (user, since) in (0..).zip(&mut self.since) {
            if refuses && gate.known_users() & bit(user) == 0 {
                *since = 0;
            }
        }
    }
}

impl Protocol {
    pub(super) fn refuse_from_memory(&self, state: &State, next: &mut Next) {
        for which in 0..self.bounds.apis {
            self.know(state, which, next);
        }
        if self.bounds.apis > 0 {
            let mut after = *state;
            after.tick();
            next.push((step(Who::Time, "a tick passes"), after));
        }
    }

    /// Returns the first promise about a user whom an api would refuse that this state breaks.
    pub(super) fn broken_refusal(&self, state: &State) -> Option<Promise> {
        for api in &state.memory.apis[..self.bounds.apis] {
            for user in self.bounds.users().filter(|user| api.refuses(*user)) {
                let answered = |(id, _): (u8, _)| {
                    self.attempt(id).user == user && state.walk(id).at == At::Answered
                };
                if (0..).zip(self.bounds.attempts).any(answered) {
                    return Some(Promise::AnsweredIsNotRefused);
                }
                if state.memory.since[usize::from(user)] >= LEASE {
                    return Some(Promise::AsTheGateDid);
                }
            }
        }
        None
    }
}

impl State {
    /// A tick that changes nothing leads to no new state.
    fn tick(&mut self) {
        self.gate.refusing = self.gate.refusing.saturating_sub(1);
        for walk in &mut self.walks {
            walk.wait = walk.wait.saturating_sub(1);
        }
        for api in &mut self.memory.apis {
            api.tick();
        }
        for since in &mut self.memory.since {
            *since = (*since + 1).min(LEASE);
        }
    }
}

fn bit(user: u8) -> Users {
    1 << user
}

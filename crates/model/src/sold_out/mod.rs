//! Refusals from memory: several apis, and the gate of one template that is sold out. An api knows which users have an
//! entry in the gate. It refuses all others without a call, for as long as a look at the gate allows it.
//!
//! Time passes in ticks: any number of steps may share a tick, and any number of ticks may pass between two steps. A
//! refused claim takes no steps of its own: a state in which an api *would* refuse a user is judged as if it did.

mod api;
pub mod bounds;
mod gate;
mod promise;

use std::fmt;

use self::{
    api::Api,
    bounds::{APIS, USERS},
    gate::Gate,
};
pub use self::{
    bounds::{Bounds, LARGE, PLANTED, SMALL},
    promise::Promise,
};
use crate::search::Model;

/// Ticks for which a look allows refusals, counted from when it was sent.
const LEASE: u8 = 2;

/// Ticks for which the gate remembers that it allowed refusals, counted from when the look reached it. The look was
/// sent no later than that.
const NOTE: u8 = LEASE;

/// A set of users, one bit each.
type Users = u8;

/// One template, its gate, and the apis, within bounds.
#[derive(Debug, Clone, Copy)]
pub struct SoldOut {
    bounds: Bounds,
}

/// The complete state at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// MySQL: the epoch, the total, and who has a coupon.
    pub epoch: u8,
    pub total: u8,
    pub landed: Users,
    pub gate: Gate,
    /// A copy of the gate that Redis may go back to.
    pub saved: Option<Gate>,
    pub claims: [Claim; USERS],
    pub apis: [Api; APIS],
    /// For each user, ticks since the gate would last have refused them as sold out; at most `LEASE`.
    pub since: [u8; USERS],
    pub left: Left,
}

/// Where a user's claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Claim {
    #[default]
    Asks,
    /// The gate admitted it. Once it has landed and these ticks have passed, it is answered.
    Admitted {
        wait: u8,
    },
    Landed {
        wait: u8,
    },
    /// 201.
    Answered,
}

/// How many events of each kind may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Left {
    pub top_ups: u8,
    pub releases: u8,
    /// How often Redis loses everything.
    pub losses: u8,
    /// How often Redis goes back to a copy.
    pub rewinds: u8,
    pub rebuilds: u8,
    /// How often an api forgets the template, because it restarts or learns of a change in another way.
    pub forgets: u8,
}

/// A description of a step, for a trace.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    who: &'static str,
    what: &'static str,
}

type Next = Vec<(Step, State)>;

impl SoldOut {
    /// The template within `bounds`.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds }
    }

    /// Passes a tick. A tick that changes nothing leads to no new state.
    fn tick(&self, state: &State, next: &mut Next) {
        let mut after = *state;
        after.gate.noted = after.gate.noted.saturating_sub(1);
        for claim in &mut after.claims {
            if let Claim::Admitted { wait } | Claim::Landed { wait } = claim {
                *wait = wait.saturating_sub(1);
            }
        }
        for api in &mut after.apis {
            api.tick();
        }
        for since in &mut after.since {
            *since = (*since + 1).min(LEASE);
        }
        next.push((step("time", "passes"), after));
    }
}

impl Model for SoldOut {
    type State = State;
    type Step = Step;
    type Promise = Promise;

    fn initial(&self) -> State {
        let mut state = State {
            epoch: 1,
            total: self.bounds.total,
            landed: 0,
            gate: Gate::opened(1, 0, self.bounds.total),
            saved: None,
            claims: [Claim::Asks; USERS],
            apis: [Api::default(); APIS],
            since: [LEASE; USERS],
            left: self.bounds.left,
        };
        state.judge();
        state
    }

    fn steps(&self, state: &State, next: &mut Next) {
        let from = next.len();
        self.claim(state, next);
        self.change(state, next);
        self.strike(state, next);
        for which in 0..self.bounds.apis {
            self.know(state, which, next);
        }
        self.tick(state, next);
        for (_, after) in &mut next[from..] {
            after.judge();
        }
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        self.broken_in(state)
    }
}

impl State {
    /// Notes for each user whether the gate would refuse them as sold out at this moment.
    fn judge(&mut self) {
        for user in 0..USERS {
            if self.gate.is_sold_out() && self.gate.users & bit(user) == 0 {
                self.since[user] = 0;
            }
        }
    }
}

fn bit(user: usize) -> Users {
    1 << user
}

fn step(who: &'static str, what: &'static str) -> Step {
    Step { who, what }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who, self.what)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "MySQL:  epoch {}, total {}, landed {:b}",
            self.epoch, self.total, self.landed
        )?;
        writeln!(f, "gate:   {:?}", self.gate)?;
        writeln!(f, "claims: {:?}", self.claims)?;
        write!(f, "apis:   {:?}", self.apis)
    }
}

//! Queued claims: the outbox that the gate appends to with the admission, the relay, the topic, the lander behind it,
//! two epochs, and the drain before a rebuild.
//!
//! Each file is one of the processes. Each step is one script, one publication, one statement or one transaction. Steps
//! of other processes may happen between any two steps of one. A direct claim takes few steps here, because
//! [`crate::claim`] explores it in full.
//!
//! Left out: quantities above one, templates without a limit, batches and prefetch, undecodable messages, position and
//! estimate, an old master that still answers, and a topic that loses an acknowledged message. A late packet is a
//! process that pauses before a step.

pub mod bounds;
pub mod configurations;
mod door;
mod faults;
pub mod gate;
mod lander;
mod look;
pub mod planted;
mod promise;
mod rebuild;
mod relay;
mod resolver;
mod rest;
pub mod state;
pub mod truth;

use std::fmt;

pub use self::{
    bounds::{AcceptAfter, Attempt, Bounds, Change, Left, Mode, attempt},
    promise::Promise,
    state::State,
};
use self::{
    bounds::{IDS, WORKERS_MAX},
    gate::{Facts, Gate, User},
    truth::Truth,
};
use crate::{Few, search::Model};

/// The protocol within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Protocol {
    bounds: Bounds,
    /// The claim that probes quiet states.
    spare: Attempt,
}

/// A description of a step, for a trace.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    who: Who,
    what: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Who {
    Claim(u8),
    Relay(usize),
    Lander(usize),
    Rebuilder(usize),
    Resolver,
    Client,
    Keeper,
    Operator,
    Redis,
}

type Next = Vec<(Step, State)>;

impl Protocol {
    /// The protocol within `bounds`.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, spare: bounds.attempts[0] }
    }

    fn attempt(&self, id: u8) -> Attempt {
        self.bounds.attempts.get(usize::from(id)).copied().unwrap_or(self.spare)
    }
}

impl Model for Protocol {
    type State = State;
    type Step = Step;
    type Promise = Promise;

    fn initial(&self) -> State {
        let truth = Truth::new(self.bounds.total, self.bounds.mode);
        let mut gate = Gate::empty(0);
        gate.begin(truth.epoch);
        let facts = Facts {
            version: truth.version,
            state: truth.state,
            mode: truth.mode,
            stock: truth.stock,
            movement: 0,
            users: [User::default(); bounds::USERS_MAX],
        };
        gate.open(truth.epoch, &facts);
        State {
            truth,
            gate,
            replica: None,
            topic: Few::default(),
            committed: 0,
            walks: [state::Walk::default(); IDS],
            relays: [state::Relay::Idle; WORKERS_MAX],
            landers: [state::Lander::Idle; WORKERS_MAX],
            rebuilders: [state::Rebuilder::default(); WORKERS_MAX],
            resolver: state::Resolver::Idle,
            looker: state::Looker::Idle,
            receipts: [0; IDS],
            accepted: 0,
            kept: 0,
            excused: 0,
            overtaken: 0,
            told: [truth::Outcome::Processing; IDS],
            changed: 0,
            wrong: 0,
            lied: 0,
            left: self.bounds.left,
            broken: None,
        }
    }

    fn steps(&self, state: &State, next: &mut Next) {
        let first = next.len();
        for (id, _) in (0..).zip(self.bounds.attempts) {
            self.walk(state, id, next);
        }
        for which in 0..self.bounds.relays {
            self.relay(state, which, next);
        }
        for which in 0..self.bounds.landers {
            self.run_lander(state, which, next);
        }
        for which in 0..self.bounds.rebuilders {
            self.rebuild(state, which, next);
        }
        self.resolve(state, next);
        self.look(state, next);
        self.look_elsewhere(state, next);
        self.operate(state, next);
        self.strike(state, next);
        for (_, after) in &mut next[first..] {
            self.tell(after);
        }
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        let broken = state.broken.or_else(|| self.broken_in(state));
        broken.or_else(|| self.broken_at_rest(state))
    }
}

fn step(who: Who, what: &'static str) -> Step {
    Step { who, what }
}

fn bit(id: u8) -> u8 {
    1 << id
}

/// Returns whether this worker may begin. Workers are interchangeable, so only the first idle one does.
fn is_next<T: PartialEq>(workers: &[T], which: usize, idle: &T) -> bool {
    workers[..which].iter().all(|worker| worker != idle)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            Who::Claim(id) => write!(f, "claim {id}: {}", self.what),
            Who::Relay(which) => write!(f, "relay {which}: {}", self.what),
            Who::Lander(which) => write!(f, "lander {which}: {}", self.what),
            Who::Rebuilder(which) => write!(f, "rebuilder {which}: {}", self.what),
            Who::Resolver => write!(f, "resolver: {}", self.what),
            Who::Client => write!(f, "client: {}", self.what),
            Who::Keeper => write!(f, "keeper: {}", self.what),
            Who::Operator => write!(f, "operator: {}", self.what),
            Who::Redis => write!(f, "redis: {}", self.what),
        }
    }
}

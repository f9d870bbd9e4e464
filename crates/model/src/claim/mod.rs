//! The claim protocol: clients, the processes that answer them, MySQL, the gate, and the faults between them.
//!
//! Each file is one of the processes. Each step is one command to the gate, one statement or one transaction. Steps of
//! other processes may happen between any two steps of one. The gate's transitions are those of [`crate::gate`];
//! [`coupon::decide`] makes the lander's decisions.

pub mod bounds;
pub mod configurations;
mod faults;
mod keeper;
mod operator;
pub mod planted;
mod promise;
mod rebuild;
mod resolver;
mod rest;
pub mod state;
pub mod truth;
mod walk;

use std::fmt;

use self::{
    bounds::{ATTEMPTS_MAX, WORKERS_MAX},
    state::{BoundGate, Left, Packet, RebuildStep},
    truth::{Claims, Truth},
};
pub use self::{
    bounds::{Attempt, Bounds, Change, LateKind, attempt},
    promise::Promise,
    state::State,
};
use crate::{
    gate::{self, OpenFacts, Rules},
    search::Model,
};

/// The time of all claims, inside the window.
const NOW: u8 = 1;

/// Requests that an entry of a template without a limit keeps: one, so that dropping is explored too.
const REQUESTS_KEPT: usize = 1;

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
    Resolver(usize),
    Rebuilder(usize),
    Keeper,
    Operator,
    Consumer,
    Network,
    Redis,
}

type Next = Vec<(Step, State)>;

impl Protocol {
    /// The protocol within `bounds`.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, spare: bounds.attempts[0] }
    }

    fn rules(&self) -> Rules {
        Rules { requests_kept: REQUESTS_KEPT, bug: self.bounds.bug }
    }

    fn claims(&self) -> Claims<'static> {
        Claims { attempts: self.bounds.attempts, spare: self.spare }
    }

    fn attempt(&self, id: u8) -> Attempt {
        self.claims().of(id)
    }

    /// Returns a claim as the gate sees it.
    fn claim(&self, id: u8) -> gate::Claim {
        let Attempt { user, key, quantity } = self.attempt(id);
        gate::Claim { user, key, quantity, id }
    }

    /// Returns the facts to open a gate with, given what was read from MySQL.
    fn facts(
        &self,
        version: u8,
        state: coupon::TemplateState,
        stock: i16,
        movement: u8,
    ) -> OpenFacts {
        let limit = self.bounds.limit;
        OpenFacts { version, state, starts_at: NOW, ends_at: NOW + 1, limit, stock, movement }
    }

    fn may_be_late(&self, state: &State, kind: LateKind) -> bool {
        state.left.late > 0 && state.packet.is_none() && self.bounds.late_kinds.contains(&kind)
    }

    /// Adds a packet that its sender has given up.
    fn sent_late(state: &State, packet: Packet) -> State {
        let mut late = *state;
        late.packet = Some(packet);
        late.left.late -= 1;
        late
    }
}

impl Model for Protocol {
    type State = State;
    type Step = Step;
    type Promise = Promise;

    fn initial(&self) -> State {
        let Bounds { total, rebuilds, crashes, losses, rewinds, lies, late, looks, .. } =
            self.bounds;
        let truth = Truth::new(total);
        let mut gate = BoundGate::absent(0);
        gate.begin(truth.epoch);
        let facts = self.facts(truth.version, truth.state, truth.stock, truth.movement);
        gate.open(self.rules(), truth.epoch, facts);
        State {
            truth,
            gate,
            snapshot: None,
            walks: [state::Walk::default(); ATTEMPTS_MAX + 1],
            resolvers: [state::Resolver::Idle; WORKERS_MAX],
            rebuilders: [state::Rebuilder::default(); WORKERS_MAX],
            operator: state::Operator::default(),
            consumed: 0,
            look: None,
            packet: None,
            wrong: 0,
            lied: 0,
            left: Left { rebuilds, crashes, losses, rewinds, lies, late, looks },
            broken: None,
        }
    }

    fn steps(&self, state: &State, next: &mut Next) {
        for (id, _) in (0..).zip(self.bounds.attempts) {
            self.walk(state, id, next);
        }
        for which in 0..self.bounds.resolvers {
            self.resolve(state, which, next);
        }
        for which in 0..self.bounds.rebuilders {
            self.rebuild(state, which, next);
        }
        self.look(state, next);
        self.operate(state, next);
        self.consume(state, next);
        self.arrive(state, next);
        self.strike(state, next);
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        let broken = state.broken.or_else(|| self.broken_in(state));
        broken.or_else(|| self.broken_at_rest(state))
    }
}

/// Returns whether this worker may begin. Workers are interchangeable, so only the first idle one does.
fn is_next<T: PartialEq>(workers: &[T], which: usize, idle: &T) -> bool {
    workers[..which].iter().all(|worker| worker != idle)
}

impl State {
    fn is_rebuilding(&self) -> bool {
        self.rebuilders.iter().any(|rebuilder| rebuilder.next != RebuildStep::NextEpoch)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            Who::Claim(id) => write!(f, "claim {id}: {}", self.what),
            Who::Resolver(which) => write!(f, "resolver {which}: {}", self.what),
            Who::Rebuilder(which) => write!(f, "rebuilder {which}: {}", self.what),
            Who::Keeper => write!(f, "keeper: {}", self.what),
            Who::Operator => write!(f, "operator: {}", self.what),
            Who::Consumer => write!(f, "consumer: {}", self.what),
            Who::Network => write!(f, "network: {}", self.what),
            Who::Redis => write!(f, "redis: {}", self.what),
        }
    }
}

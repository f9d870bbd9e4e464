//! Claims of coupons that are held until they are confirmed. A hold is confirmed, lapses or is cancelled. A lapse or a
//! cancellation writes a movement, and the gate applies it.
//!
//! Each file is one of the processes, as in [`crate::claim`]. [`coupon::decide`] makes the lander's decisions. Every
//! transaction reads committed.
//!
//! Left out: states and windows of the template, since holds do not change them; modes `queued` and `spill`; use and
//! expiry of confirmed coupons; changes of validity; chunks of more than two claims; several reads for the pages of one
//! user; retention of the movements; answers to repeated cancellations.
//!
//! Assumed:
//! - MySQL's clock does not go back. If a failover could set it back, the confirmation that finds a passed deadline
//!   would have to write the lapse itself before it answers `HOLD_LAPSED`.
//! - Nothing moves `held_until` of a hold up once it has passed. A change of validity keeps it, or lowers it.
//! - At most one message is ahead of MySQL: the stock row stays locked until its commit is visible.
//!
//! Two things are left as they are, since nothing is oversold:
//! - A gate that has dropped a returned claim, or was rebuilt, admits its key again under a new id. The landing finds
//!   the key, the admission is released, and the client gets its own claim. Until then another client may be told
//!   `SOLD_OUT`.
//! - The reread of a batch may not see the stock of a return that the gate has heard of. Its claim is refused and
//!   released, and the coupon is sold to the next one.

pub mod bounds;
pub mod configurations;
mod faults;
pub mod gate;
mod keeper;
mod lander;
pub mod planted;
mod promise;
mod rebuild;
pub mod requests;
mod resolver;
mod rest;
mod returning;
pub mod state;
pub mod truth;
mod walk;

use std::fmt;

pub use self::returning::ledger;
pub use self::{
    bounds::{Attempt, Bounds, By, Cancel, Change, LateKind, Left, Part, Payment, attempt},
    promise::Promise,
    state::State,
};
use self::{
    gate::Gate,
    ledger::Transaction,
    state::{Packet, RebuildStep},
    truth::{Claims, Truth},
};
use crate::search::Model;

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
    Payment(usize),
    Cancel(usize),
    Lapser(usize),
    Resolver,
    Rebuilder(usize),
    Keeper,
    Operator,
    Consumer,
    Network,
    Redis,
    MySql,
}

type Next = Vec<(Step, State)>;

impl Protocol {
    /// The protocol within `bounds`.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, spare: bounds.attempts[0] }
    }

    fn claims(&self) -> Claims {
        Claims { attempts: self.bounds.attempts, spare: self.spare }
    }

    fn attempt(&self, id: u8) -> Attempt {
        self.claims().of(id)
    }

    /// Returns a claim as the gate sees it.
    fn claim(&self, id: u8) -> crate::gate::Claim {
        let Attempt { user, key, quantity } = self.attempt(id);
        crate::gate::Claim { user, key, quantity, id }
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

    /// Commits a transaction that changes the stock. Its message may come before it is visible.
    fn commit(&self, state: &mut State, transaction: Transaction) {
        if self.bounds.hidden {
            state.truth.hidden = Some(transaction);
        } else {
            make_visible(state, transaction);
        }
    }

    /// The transaction that is in the binlog becomes visible, and its locks are released.
    fn become_visible(&self, state: &State, next: &mut Next) {
        let mut after = *state;
        if let Some(transaction) = after.truth.hidden.take() {
            make_visible(&mut after, transaction);
            next.push((Step { who: Who::MySql, what: "what was committed is visible" }, after));
        }
    }
}

fn make_visible(state: &mut State, transaction: Transaction) {
    if !state.truth.commit(transaction) {
        state.broken = Some(Promise::HeldEndsOnce);
    }
}

impl Model for Protocol {
    type State = State;
    type Step = Step;
    type Promise = Promise;

    fn initial(&self) -> State {
        let truth = Truth::new(self.bounds.total);
        let mut gate = Gate::absent(0);
        gate.begin(truth.epoch);
        gate.open(truth.epoch, truth.stock, truth.movement);
        State {
            truth,
            gate,
            snapshot: None,
            walks: Default::default(),
            payments: Default::default(),
            cancels: Default::default(),
            lapsers: Default::default(),
            resolver: state::Resolver::Idle,
            rebuilders: Default::default(),
            operator: state::Operator::default(),
            consumed: 0,
            look: None,
            packet: None,
            wrong: 0,
            lied: 0,
            deadlines: self.bounds.deadlines,
            left: self.bounds.left,
            broken: None,
        }
    }

    fn steps(&self, state: &State, next: &mut Next) {
        for (id, _) in (0..).zip(self.bounds.attempts) {
            self.walk(state, id, next);
        }
        self.become_visible(state, next);
        self.pass_deadlines(state, next);
        for which in 0..self.bounds.lapsers {
            self.lapse(state, which, next);
        }
        for which in 0..self.bounds.payments.len() {
            self.pay(state, which, next);
        }
        for which in 0..self.bounds.cancels.len() {
            self.cancel(state, which, next);
        }
        if self.bounds.resolver {
            self.resolve(state, next);
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

impl State {
    fn is_rebuilding(&self) -> bool {
        self.rebuilders.iter().any(|rebuilder| rebuilder.next != RebuildStep::NextEpoch)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            Who::Claim(id) => write!(f, "claim {id}: {}", self.what),
            Who::Payment(which) => write!(f, "payment {which}: {}", self.what),
            Who::Cancel(which) => write!(f, "cancellation {which}: {}", self.what),
            Who::Lapser(which) => write!(f, "expiry-worker {which}: {}", self.what),
            Who::Resolver => write!(f, "resolver: {}", self.what),
            Who::Rebuilder(which) => write!(f, "rebuilder {which}: {}", self.what),
            Who::Keeper => write!(f, "keeper: {}", self.what),
            Who::Operator => write!(f, "operator: {}", self.what),
            Who::Consumer => write!(f, "consumer: {}", self.what),
            Who::Network => write!(f, "network: {}", self.what),
            Who::Redis => write!(f, "redis: {}", self.what),
            Who::MySql => write!(f, "MySQL: {}", self.what),
        }
    }
}

//! The protocol of claims: clients, the processes that answer them, MySQL, the gate, the queue, holds, refusals from
//! memory, and the faults between them.
//!
//! There is one of each: one gate ([`crate::gate`]), one MySQL ([`truth`]), one way of a claim (`walk`), one keeper and
//! one rebuild. [`Bounds`] switch features on: a queue, holds, apis that refuse from memory, and what may go wrong. A
//! feature that is switched off takes no steps.
//!
//! Each file is one of the processes. Each step is one script, one publication, one statement or one transaction. Steps
//! of other processes may happen between any two steps of one. Every transaction reads committed.
//! [`coupon::decide`] makes the decisions after a rollback.

pub mod bounds;
mod check;
mod failover;
mod faults;
mod halt;
mod hash;
mod holds;
mod keeper;
mod movements;
mod operator;
mod promise;
mod queue;
mod rebuild;
mod rebuild_reads;
mod resolver;
pub mod settings;
mod sold_out;
pub mod state;
pub mod truth;
mod walk;

use std::fmt;

use coupon::{ClaimMode, TemplateState};

use self::{
    bounds::SPARE,
    state::{BoundGate, Packet},
    truth::{Claims, Transaction, Truth},
};
pub use self::{
    bounds::{Attempt, Bounds, By, Cancel, Change, LateKind, Left, Part, Payment, attempt},
    promise::Promise,
    state::State,
};
use crate::{
    Bug,
    gate::{self, OpenFacts, Rules},
    search::Model,
};

/// The time of all claims, inside the window.
const NOW: u8 = 1;

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
    Relay(usize),
    Lander(usize),
    Resolver(usize),
    Rebuilder(usize),
    Api(usize),
    Client,
    Keeper,
    Carrier(usize),
    Operator,
    Consumer,
    Network,
    Redis,
    MySql,
    Time,
}

type Next = Vec<(Step, State)>;

impl Protocol {
    /// The protocol within `bounds`.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, spare: bounds.attempts[0] }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bounds.has(bug)
    }

    /// Requests that an entry keeps: one where dropping is explored, as without a limit and with holds, else all. The
    /// scripts keep at least 32.
    fn rules(&self) -> Rules {
        let drops = self.bounds.limit == 0 || self.bounds.held;
        let requests_kept = if drops { 1 } else { bounds::ATTEMPTS_MAX };
        Rules { requests_kept, bug: self.bounds.bug }
    }

    fn claims(&self) -> Claims {
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
        template: (u8, TemplateState, ClaimMode),
        stock: i16,
        movement: u8,
    ) -> OpenFacts {
        let (version, state, mode) = template;
        let Bounds { limit, lapses_allowed, .. } = self.bounds;
        OpenFacts {
            version,
            state,
            mode,
            starts_at: NOW,
            ends_at: NOW + 1,
            limit,
            lapses_allowed,
            stock,
            movement,
        }
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
}

/// The transaction that is in the binlog becomes visible, and its locks are released.
fn become_visible(state: &State, next: &mut Next) {
    let mut after = *state;
    if let Some(transaction) = after.truth.hidden.take() {
        make_visible(&mut after, transaction);
        next.push((step(Who::MySql, "what was committed is visible"), after));
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
        let truth = Truth::new(self.bounds.total, self.bounds.mode);
        let mut gate = BoundGate::absent(0);
        gate.begin(truth.epoch);
        let template = (truth.version, truth.state, truth.mode);
        gate.open(self.rules(), truth.epoch, self.facts(template, truth.stock, truth.movement));
        let mut state = State {
            truth,
            gate,
            copy: None,
            walks: Default::default(),
            resolvers: Default::default(),
            rebuilders: Default::default(),
            operator: state::Operator::default(),
            consumed: 0,
            check: None,
            packet: None,
            wrong: 0,
            lied: 0,
            servers: state::Servers::default(),
            queue: state::Queue::default(),
            holds: state::Holds::default(),
            memory: state::Memory::new(self.bounds.apis),
            halt: state::Halt::default(),
            left: self.bounds.left,
            broken: None,
        };
        self.note(&mut state);
        state
    }

    fn steps(&self, state: &State, next: &mut Next) {
        let first = next.len();
        for (id, _) in (0..).zip(self.bounds.attempts) {
            self.walk(state, id, next);
        }
        become_visible(state, next);
        self.work_on_holds(state, next);
        self.work_on_queue(state, next);
        self.resolve(state, next);
        for which in 0..self.bounds.rebuilders {
            self.rebuild(state, which, next);
        }
        self.check(state, next);
        self.operate(state, next);
        self.halt(state, next);
        self.deliver(state, next);
        self.arrive(state, next);
        self.strike(state, next);
        self.fail_over(state, next);
        self.refuse_from_memory(state, next);
        for (_, after) in &mut next[first..] {
            self.note(after);
        }
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        let broken = state.broken.or_else(|| self.broken_in(state));
        broken.or_else(|| self.broken_at_rest(state))
    }
}

impl Protocol {
    /// Notes what an observer of this state sees, for promises about several moments.
    fn note(&self, state: &mut State) {
        if self.bounds.queues() {
            self.tell_clients(state);
        }
        if self.bounds.apis > 0 {
            state.memory.judge(&state.gate);
        }
    }
}

/// The death of a process, if one may die; `forget` ends its work.
fn dies(state: &State, who: Who, next: &mut Next, forget: impl FnOnce(&mut State)) {
    if state.left.crashes > 0 {
        let mut dead = *state;
        dead.left.crashes -= 1;
        forget(&mut dead);
        next.push((step(who, "dies"), dead));
    }
}

fn step(who: Who, what: &'static str) -> Step {
    Step { who, what }
}

/// Returns whether this worker may begin. Workers are interchangeable, so only the first idle one does.
fn is_next<T: PartialEq>(workers: &[T], which: usize, idle: &T) -> bool {
    workers[..which].iter().all(|worker| worker != idle)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            Who::Claim(id) if usize::from(id) == SPARE => write!(f, "one more claim")?,
            Who::Claim(id) => write!(f, "claim {id}")?,
            Who::Payment(which) => write!(f, "payment {which}")?,
            Who::Cancel(which) => write!(f, "cancellation {which}")?,
            Who::Lapser(which) => write!(f, "expiry-worker {which}")?,
            Who::Relay(which) => write!(f, "relay {which}")?,
            Who::Lander(which) => write!(f, "lander {which}")?,
            Who::Resolver(which) => write!(f, "resolver {which}")?,
            Who::Rebuilder(which) => write!(f, "rebuilder {which}")?,
            Who::Api(which) => write!(f, "api {which}")?,
            Who::Client => write!(f, "client")?,
            Who::Keeper => write!(f, "keeper")?,
            Who::Carrier(which) => write!(f, "carrier {which}")?,
            Who::Operator => write!(f, "operator")?,
            Who::Consumer => write!(f, "consumer")?,
            Who::Network => write!(f, "network")?,
            Who::Redis => write!(f, "redis")?,
            Who::MySql => write!(f, "MySQL")?,
            Who::Time => write!(f, "time")?,
        }
        write!(f, ": {}", self.what)
    }
}

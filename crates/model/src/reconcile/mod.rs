//! The reconciler: what it reads of one template while it is sold, what it finds, and the repairs that follow.
//!
//! The protocol of claims is [`crate::claim`]'s. Here it is in few steps, because the looks depend only on which
//! coupons, movements and numbers MySQL and the gate have at a moment: admission, landing, return and delivery are a step
//! each, and so are the reads of a look. Steps of others may happen between any two of them.

pub mod bounds;
mod faults;
mod judge;
mod keeper;
mod ledger;
mod look;
mod promise;
mod sale;
mod state;

use std::fmt;

pub use self::{
    bounds::{Bounds, LARGE, PLANTED, SMALL, Way},
    judge::{GateRead, TruthRead},
    promise::Promise,
    state::{
        At, Claim, Finding, Gate, Keeper, Left, Look, Movement, Phase, Request, Shown, State, Truth,
    },
};
use crate::{Bug, search::Model};

/// The reconciler within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Reconcile {
    bounds: Bounds,
}

/// A description of a step, for a trace.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    who: &'static str,
    which: usize,
    what: &'static str,
}

type Next = Vec<(Step, State)>;

impl Reconcile {
    /// The reconciler within `bounds`.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bounds.bug == Some(bug)
    }
}

impl Model for Reconcile {
    type State = State;
    type Step = Step;
    type Promise = Promise;

    fn initial(&self) -> State {
        State::of(&self.bounds)
    }

    fn steps(&self, state: &State, next: &mut Next) {
        self.sell(state, next);
        self.change(state, next);
        self.strike(state, next);
        self.keep(state, next);
        self.look(state, next);
        self.account(state, next);
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        state.broken.or_else(|| self.unfound_at_rest(state))
    }
}

fn step(who: &'static str, which: usize, what: &'static str) -> Step {
    Step { who, which, what }
}

/// Returns whether this is the first of the processes that are alike and have nothing to do: which of them begins makes
/// no difference.
fn is_first_idle<T: PartialEq>(all: &[T], which: usize, idle: &T) -> bool {
    all.iter().position(|one| one == idle) == Some(which)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.who, self.which, self.what)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "MySQL:       {:?}", self.truth)?;
        writeln!(f, "gate:        run {}, {:?}", self.run, self.gate)?;
        writeln!(f, "claims:      {:?}", self.claims)?;
        write!(f, "reconcilers: {:?}, finding {:?}", self.looks, self.finding)
    }
}

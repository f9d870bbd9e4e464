//! A state of the whole.

use super::{
    bounds::{Bounds, CLAIMS_MAX, MOVEMENTS_MAX, OPERATORS_MAX, PROCESSES_MAX},
    judge::{GateRead, TruthRead},
    promise::Promise,
};
use crate::{
    few::Few,
    gate::{Numbers, RequestState},
};

/// The complete state at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    pub truth: Truth,
    /// The current run of Redis.
    pub run: u8,
    /// The template's gate. There always is one: a lost gate and one of an earlier run are rebuilt alike.
    pub gate: Gate,
    /// The contents that Redis may go back to.
    pub copy: Option<Gate>,
    pub claims: [Claim; CLAIMS_MAX],
    pub keepers: [Keeper; PROCESSES_MAX],
    pub looks: [Look; PROCESSES_MAX],
    /// The row of `finding` about the ledger.
    pub finding: Finding,
    /// What each operator's dry run showed: the drift, and the stock that contains it.
    pub shown: [Option<Shown>; OPERATORS_MAX],
    /// The epoch in which a fault was injected last; 0: in none.
    pub faulty: u8,
    pub left: Left,
    /// A promise that the last step broke.
    pub broken: Option<Promise>,
}

/// MySQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Truth {
    pub epoch: u8,
    pub stock: i8,
    /// Landed coupons, whatever became of them.
    pub landed: i8,
    /// The numbers of landed coupons that are not returned.
    pub numbers: Numbers,
    /// The movements that can be read.
    pub movements: Few<Movement, MOVEMENTS_MAX>,
    /// A movement that is in the binlog and cannot be read yet, nor what it changed. MariaDB does that.
    pub hidden: Option<Movement>,
}

/// A row of `stock_movement`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Movement {
    /// Change of the stock.
    pub delta: i8,
    /// The numbers that came back.
    pub returned: Numbers,
}

/// The gate's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gate {
    pub phase: Phase,
    pub epoch: u8,
    /// The run of Redis in which this epoch began.
    pub run: u8,
    /// `mark_unreadable`: it answers no claim until it is rebuilt.
    pub marked: bool,
    pub stock: i8,
    /// Number of the last movement that the stock contains.
    pub movement: u8,
    /// The user's entry: the numbers that are taken.
    pub taken: Numbers,
    /// The user's entry: the requests, by claim.
    pub requests: [Option<Request>; CLAIMS_MAX],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Loading,
    Open,
}

/// A request that the gate remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    pub state: RequestState,
    /// Whether it is among those in flight or in the gate's queue.
    pub listed: bool,
}

/// A claim of one coupon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Claim {
    pub at: At,
    /// Its one number.
    pub number: Numbers,
    /// The epoch of its admission.
    pub epoch: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum At {
    #[default]
    Unsent,
    /// The gate admitted it.
    Admitted,
    /// The gate admitted it, and its process died.
    Abandoned,
    /// MySQL has it, and the gate has yet to hear of it.
    Landed,
    /// It landed and was settled, or gave up its admission.
    Ended,
}

/// A process that rebuilds the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Keeper {
    #[default]
    Idle,
    /// Saw a reason in this epoch.
    Saw(u8),
    /// Raised MySQL's epoch to this one; `begin.lua` is next.
    Begins(u8),
    /// Reads MySQL, loads and opens.
    Loads(u8),
}

/// A look at the gate and MySQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Look {
    #[default]
    Idle,
    /// Only with [`crate::Bug::LookReadsMySqlFirst`].
    Truth(TruthRead),
    /// Has read the gate (A).
    Gate(GateRead),
    /// Has read MySQL too (B).
    Both(GateRead, TruthRead),
    /// Found a gate of this epoch wrong; `mark_unreadable` is next.
    Mark(u8),
}

/// The row of `finding` about a ledger: one for each template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finding {
    None,
    Open,
    Repaired,
}

/// What a dry run showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shown {
    pub drift: i8,
    /// The stock that the row would get.
    pub stock: i8,
}

/// How many events of each kind may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Left {
    /// Looks of reconcilers.
    pub looks: u8,
    /// Returns of a coupon.
    pub returns: u8,
    /// Top-ups of one coupon.
    pub top_ups: u8,
    /// Deaths of a claim's process.
    pub crashes: u8,
    /// Rebuilds without a reason.
    pub rebuilds: u8,
    /// How often Redis goes back to earlier contents.
    pub rewinds: u8,
    /// How often the gate's contents become wrong.
    pub lies: u8,
    /// How often MySQL's stock becomes another than its ledger's sum.
    pub drifts: u8,
    /// Repairs of the ledger that operators begin.
    pub repairs: u8,
}

impl State {
    pub(super) fn of(bounds: &Bounds) -> Self {
        let truth = Truth {
            epoch: 1,
            stock: bounds.total,
            landed: 0,
            numbers: Numbers::default(),
            movements: Few::default(),
            hidden: None,
        };
        Self {
            truth,
            run: 1,
            gate: Gate { phase: Phase::Open, ..Gate::loading(1, 1) }.with(&truth),
            copy: None,
            claims: [Claim::default(); CLAIMS_MAX],
            keepers: [Keeper::Idle; PROCESSES_MAX],
            looks: [Look::Idle; PROCESSES_MAX],
            finding: Finding::None,
            shown: [None; OPERATORS_MAX],
            faulty: 0,
            left: bounds.left,
            broken: None,
        }
    }

    /// Returns whether the gate was opened in this run of Redis.
    pub(super) fn is_open(&self) -> bool {
        self.gate.phase == Phase::Open && self.gate.run == self.run
    }

    /// Returns the gate if it still has a request of this claim that has not been settled.
    pub(super) fn unsettled(&mut self, which: usize) -> Option<&mut Gate> {
        let claim = self.claims[which];
        let run = self.run;
        let is_its = |gate: &&mut Gate| {
            gate.run == run
                && gate.epoch == claim.epoch
                && gate.requests[which].is_some_and(Request::is_unsettled)
        };
        Some(&mut self.gate).filter(is_its)
    }
}

impl Truth {
    /// Returns the change of the stock by the movements after `from` up to `to`, which may be the earlier one.
    pub(super) fn delta_between(&self, from: u8, to: u8) -> i8 {
        if from > to {
            return -self.delta_between(to, from);
        }
        self.between(from, to).map(|movement| movement.delta).sum()
    }

    /// Returns what came back in the movements after `from` up to `to`.
    pub(super) fn returned_between(&self, from: u8, to: u8) -> Numbers {
        let movements = self.between(from, to);
        movements.fold(Numbers::default(), |all, movement| all.with(movement.returned))
    }

    fn between(&self, from: u8, to: u8) -> impl Iterator<Item = &Movement> {
        let length = to.saturating_sub(from);
        self.movements.as_slice().iter().skip(usize::from(from)).take(usize::from(length))
    }

    /// The number of the last movement that can be read.
    pub(super) fn movement(&self) -> u8 {
        self.movements.as_slice().iter().map(|_| 1_u8).sum()
    }

    /// Returns a movement as its message has it, which may come before it can be read.
    pub(super) fn message(&self, seq: u8) -> Option<Movement> {
        let at = usize::from(seq.checked_sub(1)?);
        let read = self.movements.as_slice().get(at).copied();
        read.or_else(|| self.hidden.filter(|_| seq == self.movement() + 1))
    }

    /// Returns by how much the stock exceeds its ledger's sum. The three are read in one statement.
    pub(super) fn drift(&self, total: i8) -> i8 {
        self.stock - (total + self.delta_between(0, self.movement()) - self.landed)
    }
}

impl Gate {
    pub(super) fn loading(epoch: u8, run: u8) -> Self {
        Self {
            phase: Phase::Loading,
            epoch,
            run,
            marked: false,
            stock: 0,
            movement: 0,
            taken: Numbers::default(),
            requests: [None; CLAIMS_MAX],
        }
    }

    /// Returns the gate with what MySQL shows.
    pub(super) fn with(self, truth: &Truth) -> Self {
        let Truth { stock, numbers: taken, .. } = *truth;
        Self { stock, taken, movement: truth.movement(), ..self }
    }
}

impl Request {
    /// Returns whether it may still land, as far as the gate knows.
    pub(super) fn is_unsettled(self) -> bool {
        self.state != RequestState::Landed
    }
}

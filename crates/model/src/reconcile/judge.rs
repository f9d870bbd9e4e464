//! What a look has read, and what follows from it.

use super::{Phase, Reconcile, Request, State};
use crate::{Bug, gate::Numbers};

/// What a look reads of the gate, in one MULTI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GateRead {
    pub epoch: u8,
    /// The last movement that it contains.
    pub movement: u8,
    pub stock: i8,
    /// The stock and what may still land.
    pub account: i8,
    pub taken: Numbers,
    /// The numbers of requests that may still land.
    pub pending: Numbers,
    /// Claim + 1 of each request that may still land.
    pub requests: Numbers,
    /// Whether one of these is neither in flight nor in the gate's queue.
    pub unlisted: bool,
}

/// What a look reads of MySQL, in one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TruthRead {
    pub epoch: u8,
    pub stock: i8,
    pub numbers: Numbers,
    pub movement: u8,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// The gate has a number that nobody has.
    pub(super) leak: bool,
    /// The gate lacks a number.
    pub(super) missing: bool,
    /// The gate holds too little stock.
    pub(super) low: bool,
    /// The gate holds too much stock.
    pub(super) high: bool,
    /// A request that may still land is neither in flight nor in the gate's queue.
    pub(super) unlisted: bool,
}

impl Found {
    pub(super) fn any(self) -> bool {
        let Self { leak, missing, low, high, unlisted } = self;
        leak || missing || low || high || unlisted
    }
}

impl TruthRead {
    pub(super) fn of(state: &State) -> Self {
        let truth = &state.truth;
        Self {
            epoch: truth.epoch,
            stock: truth.stock,
            numbers: truth.numbers,
            movement: truth.movement(),
        }
    }
}

impl State {
    /// Returns the numbers of requests that may still land.
    pub(super) fn unsettled_numbers(&self) -> Numbers {
        let unsettled = self.requests_unsettled();
        let of = |number: u8| self.claims[usize::from(number - 1)].number;
        unsettled.iter().fold(Numbers::default(), |all, number| all.with(of(number)))
    }

    /// Returns claim + 1 of each request that may still land.
    fn requests_unsettled(&self) -> Numbers {
        let requests = (1..).zip(self.gate.requests);
        let unsettled = requests.filter(|(_, request)| request.is_some_and(Request::is_unsettled));
        unsettled.map(|(number, _)| number).collect()
    }

    /// Returns whether one of these requests is neither in flight nor in the gate's queue.
    fn is_unlisted(&self, requests: Numbers) -> bool {
        let listed = |number: u8| {
            self.gate.requests[usize::from(number - 1)].is_some_and(|request| request.listed)
        };
        requests.iter().any(|number| !listed(number))
    }
}

impl Reconcile {
    /// Returns what the gate shows, if it is open in this run of Redis.
    pub(super) fn read_gate(&self, state: &State) -> Option<GateRead> {
        let ignores_run = self.has(Bug::LookIgnoresRun) && state.gate.phase == Phase::Open;
        if !state.is_open() && !ignores_run {
            return None;
        }
        let gate = state.gate;
        let requests = state.requests_unsettled();
        let waiting: i8 = requests.iter().map(|_| 1_i8).sum();
        Some(GateRead {
            epoch: gate.epoch,
            movement: gate.movement,
            stock: gate.stock,
            account: gate.stock + waiting,
            taken: gate.taken,
            pending: state.unsettled_numbers(),
            requests,
            unlisted: state.is_unlisted(requests),
        })
    }

    /// Compares gate (A), MySQL (B) and gate (C). The movements between them are read last; if one of them cannot be
    /// read yet, nothing is judged.
    pub(super) fn judge(
        &self,
        state: &State,
        before: &GateRead,
        truth: &TruthRead,
        again: &GateRead,
    ) -> Found {
        let seen = before.movement.max(again.movement) <= state.truth.movement();
        let same = before.epoch == again.epoch && before.epoch == truth.epoch;
        if !same || !seen && !self.has(Bug::LookJudgesTheUnseen) {
            return Found::default();
        }
        let now = &state.truth;
        let first = before.movement;
        let second = truth.movement;
        let third = again.movement;
        let moves = !self.has(Bug::LookIgnoresMovements);
        let returned =
            |from, to| if moves { now.returned_between(from, to) } else { Numbers::default() };
        let delta = |from, to| if moves { now.delta_between(from, to) } else { 0 };
        let pending =
            if self.has(Bug::LookIgnoresPending) { Numbers::default() } else { before.pending };
        let leaked = before.taken.without(pending).without(truth.numbers);
        let missing = truth.numbers.without(again.taken);
        let unlisted = match self.bounds.bug {
            Some(Bug::PendingTrusted) => false,
            Some(Bug::InFlightReadApart) => state.is_unlisted(before.requests),
            _ => before.unlisted,
        };
        Found {
            leak: leaked.without(returned(first, second)).count() > 0,
            missing: missing.without(returned(second, third)).count() > 0,
            low: truth.stock - delta(first, second) > before.account,
            high: again.stock > truth.stock + delta(second, third),
            unlisted,
        }
    }
}

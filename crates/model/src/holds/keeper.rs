//! The keeper: rebuilds a gate that is lost, behind or wrong, and applies movements that were lost on their way to it.
//! It is needed for that even if no process dies: a return may be committed while the gate loads, and become visible
//! only after it was opened.
//!
//! Its two checks take the movements between their reads into account. If they demanded equal movements, neither would
//! judge a template whose holds come back all the time.

use super::{
    Next, Promise, Protocol, State, Step, Who,
    gate::Meta,
    state::{Account, Look, RebuildStep},
};
use crate::{Bug, gate::Phase};

impl Protocol {
    /// The checks of the gate's stock, with their two reads as separate steps. The other parts of a check only begin a
    /// rebuild, and the search begins rebuilds at any time anyway.
    pub(super) fn look(&self, state: &State, next: &mut Next) {
        let who = Who::Keeper;
        let mut after = *state;
        after.look = None;
        let epoch = state.gate_epoch();
        match state.look {
            Some(Look::Stock(before)) => {
                if state.gate.meta.is_some_and(|meta| self.holds_too_much(state, &meta, &before)) {
                    after.wrong = after.wrong.max(epoch);
                    if epoch != state.lied {
                        after.broken = Some(Promise::NoNeedlessEpoch);
                    }
                }
                let what = "reads the gate, then the movements between";
                next.push((Step { who, what }, after));
            }
            Some(Look::Gate(before)) => {
                if self.holds_too_little(state, &before) && before.epoch != state.lied {
                    after.broken = Some(Promise::MissingOnlyIfItIs);
                }
                next.push((Step { who, what: "reads MySQL, and the movements between" }, after));
            }
            None if state.left.looks > 0 => {
                after.left.looks -= 1;
                after.look = Some(Look::Stock(Account::of(state)));
                next.push((Step { who, what: "reads MySQL" }, after));
                if let Some(account) = self.account(state) {
                    after.look = Some(Look::Gate(account));
                    next.push((Step { who, what: "reads the gate and what is in flight" }, after));
                }
            }
            None => {}
        }
    }

    /// Returns the account of a gate in MySQL's epoch: its stock with everything in flight.
    fn account(&self, state: &State) -> Option<Account> {
        let meta = state.gate.meta.filter(|_| self.is_open(state))?;
        let in_flight: i16 =
            state.gate.inflight.iter().map(|id| i16::from(self.attempt(id).quantity)).sum();
        let Meta { epoch, movement, stock, .. } = meta;
        Some(Account { epoch, movement, stock: stock + in_flight })
    }

    /// Returns whether MySQL's stock certainly exceeds the gate's stock and everything in flight. The movements between
    /// the two reads are taken into account.
    fn holds_too_little(&self, state: &State, before: &Account) -> bool {
        let truth = &state.truth;
        if before.epoch != truth.epoch || before.movement > truth.movement {
            return false;
        }
        let between = if self.bounds.has(Bug::AuditIgnoresReturns) {
            0
        } else {
            truth.delta_between(before.movement, truth.movement)
        };
        truth.stock - between > before.stock
    }

    /// Returns whether the gate's stock exceeds the one that MySQL had at the first read; the movements between the two
    /// reads are taken into account. A correct gate holds MySQL's stock less what is in flight. Between the reads only
    /// movements can raise MySQL's stock. A gate that contains a movement which MySQL does not show yet is not judged.
    fn holds_too_much(&self, state: &State, meta: &Meta, before: &Account) -> bool {
        let visible =
            meta.movement <= state.truth.movement || self.bounds.has(Bug::KeeperJudgesTheUnseen);
        if meta.phase != Phase::Open || meta.epoch < before.epoch || !visible {
            return false;
        }
        let between = if self.bounds.has(Bug::KeeperIgnoresReturns) {
            0
        } else {
            state.truth.delta_between(before.movement, meta.movement)
        };
        meta.stock > before.stock + between
    }

    /// Returns whether the keeper's next check leads to a new epoch.
    pub(super) fn must_rebuild(&self, state: &State) -> bool {
        let Some(meta) = state.gate.meta else { return true };
        meta.phase == Phase::Loading
            || meta.run != state.gate.run
            || meta.epoch < state.truth.epoch
            || !state.gate.is_complete()
            || state.wrong >= meta.epoch
            || self.holds_too_much(state, &meta, &Account::of(state))
    }

    /// One complete check, while no other process is at work.
    pub(super) fn keep(&self, state: &mut State) {
        if self.must_rebuild(state) {
            state.truth.epoch += 1;
            let mut rebuilder = Self::after_next_epoch(state.truth.epoch);
            while rebuilder.next != RebuildStep::NextEpoch {
                (_, rebuilder) = self.rebuild_step(state, rebuilder);
            }
        } else if !self.bounds.has(Bug::KeeperLeavesMovements) {
            self.catch_up(state);
        }
    }
}

impl Account {
    /// MySQL's stock.
    fn of(state: &State) -> Self {
        let super::truth::Truth { epoch, stock, movement, .. } = state.truth;
        Self { epoch, movement, stock }
    }
}

//! The gate, MySQL, the claims of the users, and the faults.

use super::{Claim, NOTE, Next, SoldOut, State, Users, bit, step};
use crate::Bug;

/// The gate, reduced to what decides about a user without an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gate {
    pub epoch: u8,
    pub phase: Phase,
    /// Whether the gate was opened in the current run of Redis. The scripts compare the run.
    pub of_this_run: bool,
    pub stock: u8,
    /// Users who have an entry. Within an epoch nothing removes one.
    pub users: Users,
    /// Ticks for which some api may still refuse by an earlier look.
    pub noted: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Absent,
    Loading,
    Open,
}

impl Gate {
    pub(super) fn opened(epoch: u8, users: Users, stock: u8) -> Self {
        Self { epoch, phase: Phase::Open, of_this_run: true, stock, users, noted: 0 }
    }

    fn closed(epoch: u8, phase: Phase) -> Self {
        Self { phase, ..Self::opened(epoch, 0, 0) }
    }

    fn is_open(&self) -> bool {
        self.phase == Phase::Open && self.of_this_run
    }

    /// Returns whether a user without an entry is refused as sold out.
    pub(super) fn is_sold_out(&self) -> bool {
        self.is_open() && self.stock == 0
    }

    /// The look. Returns whether as many users as these have an entry, and all others are refused as sold out.
    pub(super) fn look(&mut self, bug: Option<Bug>, epoch: u8, users: Users) -> bool {
        let has = |planted| bug == Some(planted);
        let is_open = self.is_open() || (has(Bug::LookWithoutRun) && self.phase == Phase::Open);
        let holds = is_open
            && self.stock == 0
            && (self.epoch == epoch || has(Bug::LookWithoutEpoch))
            && (self.users.count_ones() == users.count_ones() || has(Bug::ScanNotProved));
        if holds {
            self.noted = NOTE;
        }
        holds
    }
}

impl SoldOut {
    /// The steps of the users' claims. It does not matter which api handles a claim that reaches the gate.
    pub(super) fn claim(&self, state: &State, next: &mut Next) {
        for user in 0..self.bounds.users {
            let mut after = *state;
            match state.claims[user] {
                Claim::Asks if state.gate.is_open() && state.gate.stock > 0 => {
                    after.gate.stock -= 1;
                    after.gate.users |= bit(user);
                    let at_once = self.has(Bug::AnswerBeforeRefusalsEnd);
                    let wait = if at_once { 0 } else { state.gate.noted };
                    after.claims[user] = Claim::Admitted { wait };
                    next.push((step("gate", "admits a claim"), after));
                }
                Claim::Asks | Claim::Answered => {}
                Claim::Admitted { wait } => {
                    after.landed |= bit(user);
                    after.claims[user] = Claim::Landed { wait };
                    next.push((step("lander", "lands it"), after));
                    if state.left.releases > 0 && state.gate.is_open() {
                        let mut after = *state;
                        after.left.releases -= 1;
                        after.claims[user] = Claim::Asks;
                        // The entry stays, without a number.
                        after.gate.stock += 1;
                        next.push((step("gate", "releases a claim that will not land"), after));
                    }
                }
                Claim::Landed { wait: 0 } => {
                    after.claims[user] = Claim::Answered;
                    next.push((step("api", "answers 201"), after));
                }
                Claim::Landed { .. } => {}
            }
        }
    }

    /// A top-up, and rebuilds. A claim that the old gate admitted and that has not landed can never land.
    pub(super) fn change(&self, state: &State, next: &mut Next) {
        if state.left.top_ups > 0 {
            let mut after = *state;
            after.left.top_ups -= 1;
            after.total += 1;
            if after.gate.is_open() {
                after.gate.stock += 1;
            }
            next.push((step("operator", "adds a coupon"), after));
        }
        if state.left.rebuilds > 0 {
            let mut after = *state;
            after.left.rebuilds -= 1;
            after.epoch += 1;
            let noted = state.gate.noted;
            after.gate = Gate { noted, ..Gate::closed(after.epoch, Phase::Loading) };
            for claim in &mut after.claims {
                if matches!(claim, Claim::Admitted { .. }) {
                    *claim = Claim::Asks;
                }
            }
            next.push((step("rebuild", "begins an epoch"), after));
        }
        if state.gate.phase == Phase::Loading && state.gate.of_this_run {
            let mut after = *state;
            let stock = state.total - state.landed.count_ones() as u8;
            after.gate = Gate::opened(state.epoch, state.landed, stock);
            after.gate.noted =
                if self.has(Bug::RebuildNotesNothing) { state.gate.noted } else { NOTE };
            next.push((step("rebuild", "opens the gate"), after));
        }
    }

    pub(super) fn strike(&self, state: &State, next: &mut Next) {
        if state.left.losses > 0 && state.gate.is_open() {
            let mut after = *state;
            after.left.losses -= 1;
            after.gate = Gate::closed(0, Phase::Absent);
            next.push((step("redis", "loses everything"), after));
        }
        if state.left.rewinds > 0 {
            match state.saved {
                None if state.gate.is_open() => {
                    let mut after = *state;
                    after.saved = Some(state.gate);
                    next.push((step("redis", "writes its file"), after));
                }
                None => {}
                Some(saved) => {
                    let mut after = *state;
                    after.left.rewinds -= 1;
                    after.gate = Gate { of_this_run: false, noted: 0, ..saved };
                    next.push((step("redis", "starts again from its file"), after));
                }
            }
        }
    }

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bounds.bug == Some(bug)
    }
}

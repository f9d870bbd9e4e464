//! The keeper: rebuilds a gate that is lost, behind or wrong, repairs its state and movements if an update was lost,
//! and unloads it once its template has ended. Its two checks of the stock take the movements between their reads into
//! account. If they demanded equal movements, neither would judge a template whose holds come back all the time.

use coupon::{Open, TemplateState};

use super::{
    NOW, Next, Promise, Protocol, State, Who,
    queue::queued_ids,
    state::{Account, Check},
    step,
};
use crate::{
    Bug,
    gate::{Meta, Phase, Unloaded},
};

impl Protocol {
    /// The checks of the gate's stock, with their two reads as separate steps, and unloading. The other parts of a check
    /// only begin a rebuild, and the search begins rebuilds at any time anyway.
    pub(super) fn check(&self, state: &State, next: &mut Next) {
        let who = Who::Keeper;
        let mut after = *state;
        after.check = None;
        if state.truth.state == TemplateState::Ended && !state.truth.ever_queued {
            if after.gate.unload(self.rules(), state.gate.epoch(), NOW) == Unloaded::Gone {
                next.push((step(who, "unload.lua"), after));
            }
            return;
        }
        let epoch = state.gate.epoch();
        match state.check {
            Some(Check::Stock(before)) => {
                if self.holds_too_much(state, &before) {
                    after.wrong = after.wrong.max(epoch);
                    if epoch != state.lied {
                        after.broken = Some(Promise::NoNeedlessEpoch);
                    }
                }
                next.push((step(who, "reads the gate, then the movements between"), after));
            }
            Some(Check::Gate(before)) => {
                if self.holds_too_little(state, &before) && before.epoch != state.lied {
                    after.broken = Some(Promise::MissingOnlyIfItIs);
                }
                next.push((step(who, "reads MySQL, and the movements between"), after));
            }
            None if state.left.checks > 0 => {
                after.left.checks -= 1;
                after.check = Some(Check::Stock(Account::of(state)));
                next.push((step(who, "reads MySQL"), after));
                if let Some(account) = self.account(state) {
                    after.check = Some(Check::Gate(account));
                    next.push((step(who, "reads the gate and what is in flight"), after));
                }
            }
            None => {}
        }
    }

    /// Returns the account of a gate in MySQL's epoch: its stock with everything in flight.
    fn account(&self, state: &State) -> Option<Account> {
        let meta = state.gate.answering()?;
        let in_flight: i16 =
            state.gate.inflight.iter().map(|id| i16::from(self.attempt(id).quantity)).sum();
        let Meta { epoch, facts, .. } = meta;
        Some(Account { epoch, movement: facts.movement, stock: facts.stock + in_flight })
    }

    /// Returns whether MySQL's stock certainly exceeds the gate's stock and everything in flight.
    fn holds_too_little(&self, state: &State, before: &Account) -> bool {
        let truth = &state.truth;
        if before.epoch != truth.epoch || before.movement > truth.movement {
            return false;
        }
        let between = if self.has(Bug::AuditIgnoresReturns) {
            0
        } else {
            truth.delta_between(before.movement, truth.movement)
        };
        truth.stock - between > before.stock
    }

    /// Returns whether the gate's stock exceeds the one that MySQL had at the first read. A correct gate holds MySQL's
    /// stock less what is in flight. Between the reads only movements can raise MySQL's stock. A gate that contains a
    /// movement which MySQL does not show yet is not judged.
    fn holds_too_much(&self, state: &State, before: &Account) -> bool {
        let Some(meta) = state.gate.meta else { return false };
        let movement = meta.facts.movement;
        let visible = movement <= state.truth.movement || self.has(Bug::KeeperJudgesTheUnseen);
        if meta.phase != Phase::Open || meta.epoch < before.epoch || !visible {
            return false;
        }
        let between = if self.has(Bug::KeeperIgnoresMovementsInStock) {
            0
        } else {
            state.truth.delta_between(before.movement, movement)
        };
        meta.facts.stock > before.stock + between
    }

    /// Returns whether no gate is needed: the template has ended, and nothing that was accepted may land any more.
    pub(super) fn is_closed(&self, state: &State) -> bool {
        let truth = &state.truth;
        let ended = truth.state == TemplateState::Ended;
        let refusing = ended && truth.open == Open::Nothing;
        truth.closed
            || refusing && self.has(Bug::RefusingTakenForClosed)
            || ended && !truth.ever_queued && state.gate.meta.is_none()
    }

    /// Returns whether the keeper's next check leads to a new epoch.
    pub(super) fn must_rebuild(&self, state: &State) -> bool {
        if self.is_closed(state) {
            return false;
        }
        let Some(meta) = state.gate.answering() else { return true };
        let behind = meta.epoch < state.truth.epoch && !self.has(Bug::KeeperIgnoresEpoch);
        let to_close = state.truth.state == TemplateState::Ended && state.truth.ever_queued;
        behind
            || self.gate_is_of_lost_history(state)
            || state.gate_knows_lost_landing() && !self.has(Bug::LostLandingAccepted)
            || to_close
            || state.wrong >= meta.epoch
            || self.holds_too_much(state, &Account::of(state))
            || self.holds_orphan(state)
    }

    /// Returns whether a queued request is in neither outbox nor topic, once the topic is consumed.
    fn holds_orphan(&self, state: &State) -> bool {
        !self.has(Bug::ResolverIgnoresQueued)
            && state.gate.outbox.entries.as_slice().is_empty()
            && state.queue.waiting().is_empty()
            && queued_ids(state).iter().any(|id| !state.truth.has_row(*id))
    }

    /// Returns whether the gate's state is older than MySQL's.
    pub(super) fn state_is_behind(&self, state: &State) -> bool {
        let behind = |meta: Meta| meta.facts.version < state.truth.version;
        state.gate.live().is_some_and(behind) && !self.has(Bug::KeeperIgnoresVersion)
    }

    /// Returns whether an open gate lacks movements that MySQL shows.
    pub(super) fn movement_is_behind(&self, state: &State) -> bool {
        let behind = |meta: Meta| meta.facts.movement < state.truth.movement;
        state.gate.answering().is_some_and(behind) && !self.has(Bug::KeeperIgnoresMovement)
    }

    /// `set_state.lua`. Returns whether the gate's state was older.
    pub(super) fn send_state(&self, state: &mut State) -> bool {
        let behind = self.state_is_behind(state);
        if behind {
            let truth = state.truth;
            let epoch = state.gate.epoch();
            state.gate.set_state(self.rules(), epoch, truth.version, truth.state, truth.mode);
        }
        behind
    }

    /// `move.lua` for all movements that the gate does not contain.
    pub(super) fn send_movements(&self, state: &mut State) -> bool {
        let behind = self.movement_is_behind(state);
        if behind {
            self.catch_up(state);
        }
        behind
    }
}

impl Account {
    /// MySQL's stock.
    fn of(state: &State) -> Self {
        let super::truth::Truth { epoch, stock, movement, .. } = state.truth;
        Self { epoch, movement, stock }
    }
}

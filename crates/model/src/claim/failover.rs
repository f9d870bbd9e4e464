//! A failover of MySQL to an asynchronous replica, which loses the newest commits. For a while the old primary may still
//! take commits, which are lost too.
//!
//! A gate belongs to the history of the server whose rows it was loaded from. The keeper gives a gate of another history
//! a new epoch, above the gate's and MySQL's. Until it does so, a gate of a lost history may still refuse: the promises
//! about refusals do not count then, nor do those about commits that are lost. MySQL's surviving rows keep all promises.

use coupon::LandingMode;

use super::{
    Next, Promise, Protocol, State, Who,
    bounds::IDS,
    queue::state::{Outcome, bit},
    step,
    truth::{Landing, Truth},
};
use crate::{
    Bug,
    gate::{Request, RequestState},
};

/// What a search knows about failovers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Servers {
    /// The replica, as it will be promoted; after that the old primary, as long as it takes commits.
    pub other: Option<Truth>,
    /// The history of the rows that the gate was loaded from.
    pub gate_history: u8,
    /// The claims whose row was lost, by bit.
    pub lost: u8,
}

impl State {
    /// Returns whether the gate was loaded from rows that MySQL has, or had in the same history.
    pub(super) fn gate_is_of_history(&self) -> bool {
        self.servers.gate_history == self.truth.history
    }

    /// Returns whether the gate knows a landing that only a lost history has.
    pub(super) fn gate_knows_lost_landing(&self) -> bool {
        let is_lost = |request: &Request| {
            request.state == RequestState::Landed
                && self.servers.lost & bit(request.id) != 0
                && !self.truth.has_landed(request.id)
        };
        self.servers.lost != 0 && self.gate.requests().any(is_lost)
    }

    /// Returns the old primary while it takes commits.
    pub(super) fn old_primary(&self) -> Option<Truth> {
        self.servers.other.filter(|other| other.history < self.truth.history)
    }

    /// Returns the server to which a process that began in this history is connected.
    pub(super) fn server(&self, history: u8) -> Truth {
        self.old_primary().filter(|old| old.history == history).unwrap_or(self.truth)
    }

    pub(super) fn server_mut(&mut self, history: u8) -> &mut Truth {
        let is_old = self.old_primary().is_some_and(|old| old.history == history);
        match &mut self.servers.other {
            Some(old) if is_old => old,
            Some(_) | None => &mut self.truth,
        }
    }
}

impl Protocol {
    pub(super) fn fail_over(&self, state: &State, next: &mut Next) {
        let who = Who::MySql;
        if state.old_primary().is_some() {
            let mut fenced = *state;
            fenced.servers.other = None;
            next.push((step(who, "the old primary takes no commits any more"), fenced));
            return;
        }
        if state.left.failovers == 0 {
            return;
        }
        let mut after = *state;
        let Some(replica) = state.servers.other else {
            after.servers.other = Some(state.truth);
            next.push((step(who, "(this is what its replica has)"), after));
            return;
        };
        self.promote(&mut after, replica);
        next.push((step(who, "its replica becomes the primary"), after));
    }

    fn promote(&self, state: &mut State, replica: Truth) {
        let old = state.truth;
        state.left.failovers -= 1;
        state.servers.other = self.bounds.two_primaries.then_some(old);
        state.truth = replica;
        state.truth.history = old.history + 1;
        for id in 0..IDS as u8 {
            if old.has_row(id) && !replica.has_row(id) {
                self.lose(state, id);
            }
            // What the lost history told does not bind the other one.
            state.queue.told[usize::from(id)] = Outcome::Processing;
        }
    }

    /// Notes that a claim's row is lost, or will be.
    pub(super) fn lose(&self, state: &mut State, id: u8) {
        state.servers.lost |= bit(id);
        state.queue.kept &= !bit(id);
    }

    /// Lands a claim at the old primary, if that one still takes commits.
    pub(super) fn landed_at_old_primary(
        &self,
        state: &State,
        landing: Landing,
        mode: LandingMode,
    ) -> Option<State> {
        let mut old = state.old_primary()?;
        let mut after = *state;
        let landed = old.land(self.claims(), &self.bounds, landing, mode);
        after.servers.other = Some(old);
        self.lose(&mut after, landing.message.id);
        landed.then_some(after)
    }

    /// A raised epoch must not be that of a gate of a lost history.
    pub(super) fn check_raised(&self, state: &mut State) {
        let open = state.gate.answering().is_some_and(|meta| meta.epoch == state.truth.epoch);
        if open && !state.gate_is_of_history() {
            state.broken = Some(Promise::LostHistoryIsNotValid);
        }
    }

    /// Returns whether the keeper finds that the gate belongs to a history that MySQL has lost.
    pub(super) fn gate_is_of_lost_history(&self, state: &State) -> bool {
        let above = state.gate.epoch() > state.truth.epoch;
        (above || !state.gate_is_of_history()) && !self.has(Bug::GateAboveAccepted)
    }
}

//! The rebuild of the gate under a new epoch. Once MySQL's epoch is raised no claim lands, but holds still end. So the
//! rebuild brings the numbers and the lapses that it has read up to the last movement that the stock contains.
//!
//! Clearing the numbers is safe, because none can land again before the gate opens. The opposite order, stock first and
//! numbers after it, is not: a return between the two reads would be applied to nothing.

use super::{
    Next, Protocol, State, Step, Who,
    ledger::Lapses,
    state::{ReadUser, RebuildStep, Rebuilder},
};
use crate::{Bug, gate::Numbers};

impl Protocol {
    pub(super) fn rebuild(&self, state: &State, which: usize, next: &mut Next) {
        let rebuilder = state.rebuilders[which];
        let who = Who::Rebuilder(which);
        let idle = Rebuilder::default();
        if rebuilder == idle {
            let first = state.rebuilders[..which].iter().all(|earlier| *earlier != idle);
            // Raising the epoch waits for the stock row.
            if state.left.rebuilds > 0 && first && state.truth.hidden.is_none() {
                let mut after = *state;
                after.left.rebuilds -= 1;
                let what = if self.bounds.has(Bug::FirstMovementReadEarly) {
                    let next = RebuildStep::Raise;
                    let first = state.truth.movement;
                    after.rebuilders[which] = Rebuilder { next, first, ..idle };
                    "reads the last movement"
                } else {
                    after.truth.epoch += 1;
                    after.rebuilders[which] = Self::after_next_epoch(after.truth.epoch);
                    "raises the epoch"
                };
                next.push((Step { who, what }, after));
            }
            return;
        }
        if rebuilder.next == RebuildStep::Raise && state.truth.hidden.is_some() {
            return;
        }
        let mut after = *state;
        let (what, rebuilder) = self.rebuild_step(&mut after, rebuilder);
        after.rebuilders[which] = rebuilder;
        next.push((Step { who, what }, after));
        if state.left.crashes > 0 {
            let mut died = *state;
            died.left.crashes -= 1;
            died.rebuilders[which] = idle;
            next.push((Step { who, what: "dies" }, died));
        }
    }

    pub(super) fn after_next_epoch(epoch: u8) -> Rebuilder {
        Rebuilder { next: RebuildStep::Begin, epoch, ..Rebuilder::default() }
    }

    /// Runs one step. Returns the default rebuilder if it gave up or is done.
    pub(super) fn rebuild_step(
        &self,
        state: &mut State,
        mut rebuilder: Rebuilder,
    ) -> (&'static str, Rebuilder) {
        let truth = state.truth;
        let epoch = rebuilder.epoch;
        let give_up = Rebuilder::default();
        match rebuilder.next {
            RebuildStep::NextEpoch => ("has nothing to do", give_up),
            RebuildStep::Raise => {
                state.truth.epoch += 1;
                rebuilder.epoch = state.truth.epoch;
                rebuilder.next = RebuildStep::Begin;
                ("raises the epoch", rebuilder)
            }
            RebuildStep::Begin => {
                if !state.gate.begin(epoch) {
                    return ("begin.lua refuses", give_up);
                }
                rebuilder.next = self.after_begin();
                ("begin.lua", rebuilder)
            }
            RebuildStep::ReadFirst => {
                rebuilder.first = truth.movement;
                rebuilder.next = RebuildStep::ReadUser(0);
                ("reads the last movement", rebuilder)
            }
            RebuildStep::ReadUser(user) => {
                rebuilder.read[usize::from(user)] = ReadUser {
                    had_coupon: truth.had_coupon(self.claims(), user),
                    taken: truth.taken(self.claims(), user),
                    lapses: truth.lapses[usize::from(user)],
                };
                rebuilder.next = self.after_page(user);
                ("reads a page of users", rebuilder)
            }
            RebuildStep::ReadStock => {
                if truth.epoch != epoch {
                    return ("finds another epoch in MySQL", give_up);
                }
                (rebuilder.stock, rebuilder.movement) = (truth.stock, truth.movement);
                rebuilder.next = self.after_stock();
                ("reads the stock and its last movement", rebuilder)
            }
            RebuildStep::Load => {
                if !self.load(state, &rebuilder) {
                    return ("load.lua refuses", give_up);
                }
                rebuilder.next = RebuildStep::Open;
                ("load.lua, without what came back meanwhile", rebuilder)
            }
            RebuildStep::Open => {
                if !state.gate.open(epoch, rebuilder.stock, rebuilder.movement) {
                    return ("open.lua refuses", give_up);
                }
                (rebuilder.next, rebuilder.read) = (RebuildStep::CatchUp, Default::default());
                ("open.lua", rebuilder)
            }
            RebuildStep::CatchUp => {
                self.catch_up(state);
                ("move.lua, for what came meanwhile", give_up)
            }
        }
    }

    /// Without a limit and without bans there is nothing to load.
    fn loads_users(&self) -> bool {
        self.bounds.limit > 0 || self.bounds.lapses_allowed > 0
    }

    fn after_begin(&self) -> RebuildStep {
        if !self.loads_users() || self.bounds.has(Bug::NumbersReadAfterStock) {
            RebuildStep::ReadStock
        } else if self.bounds.has(Bug::FirstMovementReadEarly) {
            RebuildStep::ReadUser(0)
        } else {
            RebuildStep::ReadFirst
        }
    }

    fn after_page(&self, user: u8) -> RebuildStep {
        if self.bounds.users().any(|other| other > user) {
            RebuildStep::ReadUser(user + 1)
        } else if self.bounds.has(Bug::NumbersReadAfterStock) {
            RebuildStep::Load
        } else {
            RebuildStep::ReadStock
        }
    }

    fn after_stock(&self) -> RebuildStep {
        if !self.loads_users() {
            RebuildStep::Open
        } else if self.bounds.has(Bug::NumbersReadAfterStock) {
            RebuildStep::ReadUser(0)
        } else {
            RebuildStep::Load
        }
    }

    /// Loads every user who ever had a coupon; without a limit, only users with lapses.
    fn load(&self, state: &mut State, rebuilder: &Rebuilder) -> bool {
        let mut loaded = true;
        for (user, read) in (0..).zip(rebuilder.read) {
            let (taken, lapses) = self.at_last_movement(state, rebuilder, user, read);
            let returned = read.had_coupon && !self.bounds.has(Bug::ReturnedUsersNotLoaded);
            let needed = if self.bounds.limit > 0 {
                returned || taken != Numbers::default()
            } else {
                lapses > 0 && !self.bounds.has(Bug::LapsedUsersNotLoaded)
            };
            if needed {
                loaded &= state.gate.load(rebuilder.epoch, user, taken, lapses);
            }
        }
        loaded
    }

    /// Brings a user, as read from a page, up to movement m₁. Clears the numbers that the movements m₀ + 1 to m₁ freed,
    /// and counts their lapses unless the row of `user_lapse` already contained them.
    fn at_last_movement(
        &self,
        state: &State,
        rebuilder: &Rebuilder,
        user: u8,
        read: ReadUser,
    ) -> (Numbers, u8) {
        let Rebuilder { first, movement: last, .. } = *rebuilder;
        let Lapses { mut seq, .. } = read.lapses;
        if self.bounds.has(Bug::LapsesCountedAgain) {
            seq = 0;
        }
        let mut taken = read.taken;
        let mut lapses = read.lapses;
        let between = state.truth.movements_after(first).filter(|(seq, _)| *seq <= last);
        for (at, movement) in between {
            if !self.bounds.has(Bug::NumbersNotFreedWhileLoading) {
                taken = taken.without(movement.returned[usize::from(user)].numbers);
            }
            if at > seq && !self.bounds.has(Bug::LapsesAsRead) {
                movement.change_lapses(user, at, &mut lapses);
            }
        }
        let counted = self.bounds.lapses_allowed > 0;
        (taken, if counted { lapses.count } else { 0 })
    }
}

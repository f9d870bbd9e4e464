//! What a rebuild reads, and how it loads the gate. Once MySQL's epoch is raised no direct claim lands, and the queue is
//! drained, but holds still end. So the rebuild brings the numbers and the lapses that it has read up to the last
//! movement that the stock contains.
//!
//! Clearing the numbers is safe, because none can land again before the gate opens. The opposite order, stock first and
//! numbers after it, is not: a return between the two reads would be applied to nothing.

use super::{
    Change, Protocol, State,
    state::{ReadUser, RebuildStep, Rebuilder},
    truth::Lapses,
};
use crate::{Bug, gate::Numbers};

impl Protocol {
    /// If the template never changes, it does not matter when it is read, so the step is left out.
    pub(super) fn first_read(&self) -> RebuildStep {
        let stays = |change: &Change| matches!(change, Change::Move(_) | Change::Lift(_));
        if self.bounds.changes.iter().all(stays) && !self.bounds.coarse {
            self.after_template()
        } else {
            RebuildStep::ReadTemplate
        }
    }

    fn after_template(&self) -> RebuildStep {
        if !self.loads_users() || self.has(Bug::NumbersReadAfterStock) {
            RebuildStep::ReadStock
        } else if self.has(Bug::FirstMovementReadEarly) || !self.bounds.held {
            RebuildStep::ReadUser(0)
        } else {
            RebuildStep::ReadFirst
        }
    }

    /// Without a limit and without bans there is nothing to load.
    fn loads_users(&self) -> bool {
        self.bounds.limit > 0 || self.bounds.lapses_allowed > 0
    }

    fn after_user(&self, user: u8) -> RebuildStep {
        if self.bounds.held && self.bounds.users().any(|other| other > user) {
            RebuildStep::ReadUser(user + 1)
        } else if self.has(Bug::NumbersReadAfterStock) {
            RebuildStep::Load
        } else {
            RebuildStep::ReadStock
        }
    }

    /// The step after all reads.
    fn after_reads(&self) -> RebuildStep {
        if self.has(Bug::ReadBeforeQueuedEpoch) {
            RebuildStep::SetQueued
        } else if self.has(Bug::BegunAgainAfterRead) {
            RebuildStep::BeginAgain
        } else if self.has(Bug::NumbersReadAfterStock) {
            RebuildStep::ReadUser(0)
        } else {
            self.first_load()
        }
    }

    pub(super) fn first_load(&self) -> RebuildStep {
        if self.loads_users() { RebuildStep::Load } else { RebuildStep::Open }
    }

    /// Reads from MySQL. Returns the step after it.
    pub(super) fn read(&self, state: &mut State, which: usize) -> (RebuildStep, &'static str) {
        let truth = state.server(state.rebuilders[which].history);
        let rebuilder = &mut state.rebuilders[which];
        match rebuilder.next {
            RebuildStep::ReadTemplate => {
                rebuilder.template = Some((truth.version, truth.state, truth.mode));
                (self.after_template(), "reads the template")
            }
            RebuildStep::ReadFirst => {
                rebuilder.first = truth.movement;
                (RebuildStep::ReadUser(0), "reads the last movement")
            }
            RebuildStep::ReadUser(user) => {
                let users = if self.bounds.held { user..=user } else { 0..=u8::MAX };
                for (user, read) in (0..).zip(&mut rebuilder.read) {
                    if users.contains(&user) {
                        *read = self.read_user(&truth, user);
                    }
                }
                (self.after_user(user), "reads users")
            }
            RebuildStep::ReadMovement => {
                rebuilder.movement = truth.movement;
                (self.after_reads(), "reads the last movement")
            }
            _ if truth.epoch != rebuilder.epoch && !self.has(Bug::RebuildWithoutEpochCheck) => {
                (RebuildStep::NextEpoch, "finds another epoch in MySQL")
            }
            _ => {
                rebuilder.stock = truth.stock;
                rebuilder.movement = truth.movement;
                let next = if self.has(Bug::StockAndMovementApart) {
                    RebuildStep::ReadMovement
                } else {
                    self.after_reads()
                };
                (next, "reads the stock and its last movement")
            }
        }
    }

    fn read_user(&self, truth: &super::truth::Truth, user: u8) -> ReadUser {
        let claims = self.claims();
        let rejected =
            truth.has_rejected_any(claims, user) && !self.has(Bug::RejectedKeysNotLoaded);
        let returned = truth.has_landed_any(claims, user);
        let taken = truth.taken(claims, user);
        let landed = taken.count() > 0 || returned && !self.has(Bug::ReturnedUsersNotLoaded);
        ReadUser { known: landed || rejected, taken, lapses: truth.lapses[usize::from(user)] }
    }

    /// `begin.lua`. The gate remembers the server whose rows it is loaded from: two primaries may give the same epoch.
    pub(super) fn begin(&self, state: &mut State, which: usize) -> bool {
        let Rebuilder { epoch, history, .. } = state.rebuilders[which];
        let begun = self.is_of_server(state, which) && state.gate.begin(epoch);
        if begun {
            if self.has(Bug::BeginForgetsHalt) {
                state.gate.lift_halt();
            }
            state.servers.gate_history = history;
        }
        begun
    }

    /// Returns whether no rebuild from another server has begun the same epoch.
    fn is_of_server(&self, state: &State, which: usize) -> bool {
        let Rebuilder { epoch, history, .. } = state.rebuilders[which];
        state.gate.epoch() != epoch
            || state.servers.gate_history == history
            || self.has(Bug::ServersShareAnEpoch)
    }

    /// Loads every user who has an answer in MySQL; without a limit, only users with lapses.
    pub(super) fn load(&self, state: &mut State, which: usize) -> bool {
        let rebuilder = state.rebuilders[which];
        let mut loaded = self.is_of_server(state, which);
        for (user, read) in (0..).zip(rebuilder.read) {
            let (taken, lapses) = self.at_last_movement(state, &rebuilder, user, read);
            let needed = if self.bounds.limit > 0 {
                read.known
            } else {
                lapses > 0 && !self.has(Bug::LapsedUsersNotLoaded)
            };
            if needed && loaded {
                loaded &= state.gate.load(self.rules(), rebuilder.epoch, user, taken, lapses);
            }
        }
        loaded
    }

    /// Brings a user, as read, up to movement m₁. Clears the numbers that the movements m₀ + 1 to m₁ freed, and counts
    /// their lapses unless the row of `user_lapse` already contained them.
    fn at_last_movement(
        &self,
        state: &State,
        rebuilder: &Rebuilder,
        user: u8,
        read: ReadUser,
    ) -> (Numbers, u8) {
        let mut taken = read.taken;
        if !self.bounds.held {
            return (taken, 0);
        }
        let Rebuilder { first, movement: last, .. } = *rebuilder;
        let Lapses { mut seq, .. } = read.lapses;
        if self.has(Bug::LapsesCountedAgain) {
            seq = 0;
        }
        let mut lapses = read.lapses;
        let between = state.truth.movements_after(first).filter(|(seq, _)| *seq <= last);
        for (at, movement) in between {
            if !self.has(Bug::NumbersNotFreedWhileLoading) {
                taken = taken.without(movement.returned[usize::from(user)].numbers);
            }
            if at > seq && !self.has(Bug::LapsesAsRead) {
                lapses.count(&movement, user, at);
            }
        }
        let counted = self.bounds.lapses_allowed > 0;
        (taken, if counted { lapses.count } else { 0 })
    }

    /// `open.lua`. Returns the step after it.
    pub(super) fn open(&self, state: &mut State, which: usize) -> (RebuildStep, &'static str) {
        let Rebuilder { epoch, history, template, stock, movement, .. } = state.rebuilders[which];
        let truth = state.server(history);
        let template = template.unwrap_or((truth.version, truth.state, truth.mode));
        let facts = self.facts(template, stock, movement);
        if self.has(Bug::RebuildWithoutBegin) && self.begin(state, which) {
            self.load(state, which);
        }
        if !self.is_of_server(state, which) || !state.gate.open(self.rules(), epoch, facts) {
            return (RebuildStep::NextEpoch, "open.lua refuses");
        }
        if self.bounds.apis > 0 && !self.has(Bug::RebuildNotesNothing) {
            state.gate.refusing = super::sold_out::NOTE;
        }
        state.rebuilders[which] = Rebuilder { epoch, history, ..Rebuilder::default() };
        let delivers = self.bounds.moves() && !self.bounds.coarse;
        if delivers && !self.has(Bug::MovementLostWhileLoading) {
            (RebuildStep::CatchUp, "open.lua")
        } else {
            (RebuildStep::NextEpoch, "open.lua")
        }
    }
}

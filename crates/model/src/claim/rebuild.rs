//! The rebuild of the gate under a new epoch. Rebuilds may begin at any time, with or without a reason. Two may run at
//! once, because the lease that normally prevents it only saves work.

use super::{
    Change, Next, Protocol, State, Step, Who, is_next,
    state::{RebuildStep, Rebuilder},
};
use crate::{Bug, gate::Numbers};

impl Protocol {
    pub(super) fn rebuild(&self, state: &State, which: usize, next: &mut Next) {
        let rebuilder = state.rebuilders[which];
        let who = Who::Rebuilder(which);
        let idle = Rebuilder::default();
        if rebuilder == idle {
            if state.left.rebuilds > 0 && is_next(&state.rebuilders, which, &idle) {
                let mut after = *state;
                after.left.rebuilds -= 1;
                after.truth.epoch += 1;
                let begun = self.after_next_epoch(after.truth.epoch);
                after.rebuilders[which] = begun;
                next.push((Step { who, what: "raises the epoch" }, after));
            }
            return;
        }
        let mut after = *state;
        let rebuilder_next = rebuilder.next;
        let (what, rebuilder) = self.rebuild_step(&mut after, rebuilder);
        after.rebuilders[which] = rebuilder;
        next.push((Step { who, what }, after));
        if state.left.crashes > 0 {
            let mut died = *state;
            died.left.crashes -= 1;
            died.rebuilders[which] = idle;
            died.operator.send_lost |= rebuilder_next == RebuildStep::CatchUp;
            next.push((Step { who, what: "dies" }, died));
        }
    }

    pub(super) fn after_next_epoch(&self, epoch: u8) -> Rebuilder {
        let next = if self.bounds.has(Bug::RebuildWithoutBegin) {
            self.first_read()
        } else {
            RebuildStep::Begin
        };
        Rebuilder { next, epoch, ..Rebuilder::default() }
    }

    /// If the template never changes, it does not matter when it is read, so the step is left out.
    fn first_read(&self) -> RebuildStep {
        let moves = |change: &Change| matches!(change, Change::Move(_));
        if self.bounds.changes.iter().all(moves) {
            RebuildStep::ReadStock
        } else {
            RebuildStep::ReadTemplate
        }
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
            RebuildStep::Begin => {
                if !state.gate.begin(epoch) {
                    return ("begin.lua refuses", give_up);
                }
                rebuilder.next = self.first_read();
                ("begin.lua", rebuilder)
            }
            RebuildStep::ReadTemplate => {
                rebuilder.template = Some((truth.version, truth.state));
                rebuilder.next = RebuildStep::ReadStock;
                ("reads the template", rebuilder)
            }
            RebuildStep::ReadStock => {
                if truth.epoch != epoch && !self.bounds.has(Bug::RebuildWithoutEpochCheck) {
                    return ("finds another epoch in MySQL", give_up);
                }
                rebuilder.stock = truth.stock;
                rebuilder.movement = truth.movement;
                rebuilder.next = if self.bounds.has(Bug::StockAndMovementApart) {
                    RebuildStep::ReadMovement
                } else {
                    self.after_stock()
                };
                ("reads the stock", rebuilder)
            }
            RebuildStep::ReadMovement => {
                rebuilder.movement = truth.movement;
                rebuilder.next = self.after_stock();
                ("reads the last movement", rebuilder)
            }
            RebuildStep::ReadNumbers => {
                for (user, taken) in (0..).zip(&mut rebuilder.taken) {
                    *taken = truth.taken(self.claims(), user);
                }
                let none = rebuilder.taken.iter().all(|taken| taken.count() == 0);
                rebuilder.next = if none { RebuildStep::Open } else { RebuildStep::Load };
                ("reads the taken numbers", rebuilder)
            }
            RebuildStep::Load => {
                rebuilder.next = RebuildStep::Open;
                if self.bounds.has(Bug::RebuildWithoutBegin) || self.load(state, &rebuilder) {
                    ("load.lua", rebuilder)
                } else {
                    ("load.lua refuses", give_up)
                }
            }
            RebuildStep::Open => {
                if !self.open(state, &rebuilder) {
                    return ("open.lua refuses", give_up);
                }
                if !self.moves() || self.bounds.has(Bug::MovementLostWhileLoading) {
                    return ("open.lua", give_up);
                }
                rebuilder.next = RebuildStep::CatchUp;
                ("open.lua", rebuilder)
            }
            RebuildStep::CatchUp => {
                self.catch_up(state);
                ("move.lua, for what came meanwhile", give_up)
            }
        }
    }

    /// Without a limit there are no numbers to load.
    fn after_stock(&self) -> RebuildStep {
        if self.bounds.limit > 0 { RebuildStep::ReadNumbers } else { RebuildStep::Open }
    }

    fn load(&self, state: &mut State, rebuilder: &Rebuilder) -> bool {
        let holders = (0..).zip(rebuilder.taken).filter(|(_, taken)| *taken != Numbers::default());
        let mut loaded = true;
        for (user, taken) in holders {
            loaded &= state.gate.load(self.rules(), rebuilder.epoch, user, taken);
        }
        loaded
    }

    fn moves(&self) -> bool {
        self.bounds.changes.iter().any(|change| matches!(change, Change::Move(_)))
    }

    fn open(&self, state: &mut State, rebuilder: &Rebuilder) -> bool {
        let Rebuilder { epoch, template, stock, movement, .. } = *rebuilder;
        let (version, template_state) =
            template.unwrap_or((state.truth.version, state.truth.state));
        let facts = self.facts(version, template_state, stock, movement);
        if self.bounds.has(Bug::RebuildWithoutBegin) && state.gate.begin(epoch) {
            self.load(state, rebuilder);
        }
        state.gate.open(self.rules(), epoch, facts)
    }
}

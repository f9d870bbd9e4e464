//! A pause at the gate while MySQL is away, and the processes that carry it over to MySQL.

use coupon::TemplateState;

use super::{Change, Next, Promise, Protocol, State, Who, bounds::WORKERS_MAX, dies, step};
use crate::Bug;

/// The pause, which is made at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Halt {
    /// Whether it was answered.
    pub is_answered: bool,
    /// Whether no operator has resumed since.
    pub is_in_force: bool,
    /// Whether MySQL has its line of the audit record.
    pub is_recorded: bool,
    /// Whether a resume that began after the pause has taken effect.
    pub is_resumed: bool,
    pub carriers: [Carrier; WORKERS_MAX],
}

/// The next step of a process that found the pause at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Carrier {
    #[default]
    Idle,
    /// Writes the line of the record and pauses, in one transaction.
    Commit,
    /// Sends MySQL's state to the gate.
    Tell,
    /// `lift_halt.lua`
    Lift,
}

impl Halt {
    pub(super) fn is_idle(&self) -> bool {
        self.carriers.iter().all(|carrier| *carrier == Carrier::Idle)
    }

    /// A resume has taken effect; `looked`: whether the pause was answered before it began.
    pub(super) fn resumed(&mut self, looked: Option<bool>) {
        self.is_in_force = false;
        self.is_resumed |= looked == Some(true);
    }
}

impl Protocol {
    pub(super) fn halt(&self, state: &State, next: &mut Next) {
        if !self.bounds.halts {
            return;
        }
        let mut halted = *state;
        if !state.halt.is_answered && halted.gate.halt(self.rules()) {
            halted.halt.is_answered = true;
            halted.halt.is_in_force = true;
            next.push((step(Who::Operator, "halt.lua"), halted));
        }
        for which in 0..WORKERS_MAX {
            self.carry(state, which, next);
        }
    }

    fn carry(&self, state: &State, which: usize, next: &mut Next) {
        let who = Who::Carrier(which);
        let mut after = *state;
        let (what, then) = match state.halt.carriers[which] {
            Carrier::Idle => {
                let carriers = &state.halt.carriers;
                let is_next = super::is_next(carriers, which, &Carrier::Idle);
                if !is_next || !state.gate.live().is_some_and(|meta| meta.halted) {
                    return;
                }
                ("finds a pause at the gate", self.first_step())
            }
            // The transaction waits for the row.
            Carrier::Commit if state.truth.hidden.is_some() => return,
            Carrier::Commit => {
                self.record_halt(&mut after);
                let lifted = self.has(Bug::HaltLiftedBeforeItsRecord);
                let untold = self.has(Bug::HaltLiftedUntold);
                let then = match (lifted, untold) {
                    (true, _) => Carrier::Idle,
                    (_, true) => Carrier::Lift,
                    _ => Carrier::Tell,
                };
                ("records the pause in MySQL", then)
            }
            Carrier::Tell => {
                self.send_state(&mut after);
                ("set_state.lua", Carrier::Lift)
            }
            Carrier::Lift => {
                after.gate.lift_halt();
                let lifted = self.has(Bug::HaltLiftedBeforeItsRecord);
                ("lift_halt.lua", if lifted { Carrier::Commit } else { Carrier::Idle })
            }
        };
        after.halt.carriers[which] = then;
        if state.halt.carriers[which] != Carrier::Idle {
            dies(state, who, next, |dead| dead.halt.carriers[which] = Carrier::Idle);
        }
        next.push((step(who, what), after));
    }

    fn first_step(&self) -> Carrier {
        if self.has(Bug::HaltLiftedBeforeItsRecord) { Carrier::Lift } else { Carrier::Commit }
    }

    /// Pauses the template in MySQL, once: a second line of the record with the same id is a duplicate key.
    fn record_halt(&self, state: &mut State) {
        if state.halt.is_recorded && !self.has(Bug::HaltRecordedTwice) {
            return;
        }
        state.halt.is_recorded = true;
        if state.truth.state == TemplateState::Published {
            state.truth.change(Change::Pause);
            if state.halt.is_resumed {
                state.broken = Some(Promise::ResumeStands);
            }
        }
    }

    /// What an operator's change does first: it carries over a pause that it finds at the gate.
    pub(super) fn look_for_halt(&self, state: &State) -> State {
        let mut after = *state;
        let is_halted = state.gate.live().is_some_and(|meta| meta.halted);
        if is_halted && !self.has(Bug::ResumeBeforeHalt) {
            self.record_halt(&mut after);
        }
        after.operator.looked = Some(state.halt.is_answered);
        after
    }

    /// Carries a pause over in one step. Returns whether there was one.
    pub(super) fn carry_at_once(&self, state: &mut State) -> bool {
        if !state.gate.live().is_some_and(|meta| meta.halted) {
            return false;
        }
        self.record_halt(state);
        self.send_state(state);
        state.gate.lift_halt();
        true
    }

    /// Checks an admission, which no pause at the gate may come before.
    pub(super) fn check_halt(&self, asked: &mut State) {
        if asked.halt.is_in_force {
            asked.broken = Some(Promise::HaltHolds);
        }
    }
}

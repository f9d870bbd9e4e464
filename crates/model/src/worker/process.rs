//! One process: it takes the number with a first range of ticks, makes ids within it, renews, and ends.

use super::{FIRST_LEASE, LEASE, LOSS, Next, State, WAIT_MAX, WRONG, Worker, step};
use crate::Bug;

/// A process and what it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Process {
    /// No other process had or has this name.
    pub name: u8,
    pub clock: u8,
    pub phase: Phase,
}

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Phase {
    /// It has no number.
    #[default]
    Without,
    /// It has the number and a range up to `last`, and waits until its clock has passed the range `before`.
    Taken { last: u8, before: u8 },
    /// It makes ids.
    Holds(Held),
    /// The same, and a renewal is under way. Its range begins at `from`: what the clock showed, or later if the clock
    /// turned out to be behind.
    Renews { held: Held, from: u8 },
}

/// A number as its holder knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Held {
    /// The last tick of which it makes ids.
    pub last: u8,
    /// A renewal that a failover may still lose.
    pub young: Option<Renewed>,
}

/// A renewal that MySQL has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Renewed {
    /// When it began; a correction of the clock moves it, because time did not pass.
    pub at: u8,
    /// The last tick of its range.
    pub last: u8,
}

impl Process {
    pub(super) fn started(name: u8, clock: u8) -> Self {
        Self { name, clock, phase: Phase::Without }
    }

    /// Returns whether it makes ids.
    pub(super) fn may_make_ids(&self) -> bool {
        match self.phase {
            Phase::Holds(held) | Phase::Renews { held, .. } => self.clock <= held.last,
            Phase::Without | Phase::Taken { .. } => false,
        }
    }
}

impl Worker {
    pub(super) fn act(&self, state: &State, which: usize, next: &mut Next) {
        let process = state.processes[which];
        match process.phase {
            Phase::Without => self.take(state, which, next),
            Phase::Taken { last, before } if process.clock > before => {
                let mut after = *state;
                after.processes[which].phase = Phase::Holds(Held { last, young: None });
                next.push((step(process.name, "waits no longer"), after));
            }
            Phase::Taken { .. } => {}
            Phase::Holds(held) if process.clock <= held.last => {
                self.begin_to_renew(state, which, held, next);
                self.stop(state, which, next);
            }
            Phase::Holds(_) => {
                let mut after = *state;
                after.processes[which].phase = Phase::Without;
                next.push((step(process.name, "lost the number"), after));
            }
            Phase::Renews { held, from } => {
                let mut lost = *state;
                lost.processes[which].phase = Phase::Holds(held);
                next.push((step(process.name, "has no connection"), lost));
                self.renew(state, which, held, from, next);
            }
        }
        self.crash(state, which, next);
    }

    /// Takes the number, and writes its first range with it, if it is free and the process would not wait for long.
    fn take(&self, state: &State, which: usize, next: &mut Next) {
        let process = state.processes[which];
        let row = state.row;
        if row.until > state.now || row.last > process.clock.saturating_add(WAIT_MAX) {
            return;
        }
        let last = row.last.max(process.clock) + FIRST_LEASE;
        let mut after = *state;
        after.row.holder = process.name;
        after.row.until = state.now + FIRST_LEASE;
        if !self.has(Bug::RangeNotRecorded) {
            after.row.last = last;
        }
        if !self.has(Bug::TakingLost) {
            after.saved = None;
        }
        let before = if self.has(Bug::LastIdNotWaitedFor) { 0 } else { row.last };
        after.processes[which].phase = Phase::Taken { last, before };
        next.push((step(process.name, "takes the number"), after));
    }

    fn begin_to_renew(&self, state: &State, which: usize, held: Held, next: &mut Next) {
        let mut after = *state;
        // A clock is corrected only where its machine's wall clock and MySQL's agree that it is behind.
        let from = state.processes[which].clock.max(state.time());
        after.processes[which].phase = Phase::Renews { held, from };
        next.push((step(state.processes[which].name, "begins to renew"), after));
    }

    /// The renewal reaches MySQL.
    fn renew(&self, state: &State, which: usize, held: Held, from: u8, next: &mut Next) {
        let process = state.processes[which];
        let mut after = *state;
        if state.row.holder != process.name {
            after.processes[which].phase = Phase::Without;
            next.push((step(process.name, "finds another holder"), after));
            return;
        }
        let last = from + LEASE;
        after.row.until = state.now + LEASE;
        after.row.last = state.row.last.max(last);
        let mut unknown = after;
        unknown.processes[which].phase = Phase::Holds(held);
        next.push((step(process.name, "renews, and the answer is lost"), unknown));
        let mut held = held.seen(state.row.last, process.clock);
        held.young = held.young.or(Some(Renewed { at: process.clock, last }));
        if self.has(Bug::YoungRangeUsed) {
            held.last = last;
        }
        let behind = from.saturating_sub(process.clock);
        if self.has(Bug::CorrectedBeyondTheRange) {
            held.last += behind;
        }
        if from <= held.last {
            held.young = held.young.map(|young| young.later_by(behind));
            after.processes[which].clock += behind;
        }
        after.processes[which].phase = Phase::Holds(held);
        next.push((step(process.name, "renews"), after));
    }

    /// Stops in order: makes no more ids, then says which was the last.
    fn stop(&self, state: &State, which: usize, next: &mut Next) {
        let process = state.processes[which];
        if state.row.holder != process.name {
            return;
        }
        let mut after = *state;
        after.row.until = state.now;
        after.row.last = process.clock;
        if !self.has(Bug::NumberGivenBackInUse) {
            after.processes[which].phase = Phase::Without;
        }
        next.push((step(process.name, "gives the number back"), after));
    }

    /// Dies; another process with another name and its own clock takes its place.
    fn crash(&self, state: &State, which: usize, next: &mut Next) {
        if state.left.crashes == 0 {
            return;
        }
        let mut after = *state;
        after.left.crashes -= 1;
        after.names += 1;
        after.processes[which] = Process::started(after.names, state.time());
        next.push((step(after.names, "starts in the place of one that died"), after));
        if state.left.wrong_clocks == 0 {
            return;
        }
        after.left.wrong_clocks -= 1;
        for clock in [state.time().saturating_sub(WRONG), state.time() + WRONG] {
            after.processes[which].clock = clock;
            next.push((step(after.names, "starts so with a wrong clock"), after));
        }
    }
}

impl Renewed {
    fn later_by(self, ticks: u8) -> Self {
        Self { at: self.at + ticks, ..self }
    }
}

impl Held {
    /// MySQL showed `last` when the clock showed `now`: a renewal that is still there, and so old that no failover loses
    /// it, counts from now on.
    fn seen(self, last: u8, now: u8) -> Self {
        match self.young {
            Some(young) if last < young.last => Self { young: None, ..self },
            Some(young) if now > young.at + LOSS => Self { last: young.last, young: None },
            _ => self,
        }
    }
}

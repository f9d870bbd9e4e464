//! Worker numbers: processes that make ids under one number, of which at most one holds it at a time. An id is the
//! number and a tick of its maker's clock; here there is one number only, the one over which processes quarrel.
//!
//! MySQL's row says who holds the number, until when by MySQL's clock, and the last tick for which an id may exist.
//! Each process has a clock of its own, which never goes back while it runs, and may be wrong or stand still.

pub mod bounds;
mod process;

use std::fmt;

use self::bounds::{PROCESSES, TICKS};
pub use self::{
    bounds::{Bounds, LARGE, PLANTED, SMALL},
    process::{Held, Phase, Process, Renewed},
};
use crate::{Bug, search::Model};

/// Ticks of a lease, counted from a renewal.
const LEASE: u8 = 5;

/// Ticks of a lease that has not been renewed yet.
const FIRST_LEASE: u8 = 3;

/// Ticks of MySQL's newest changes that a failover may lose.
const LOSS: u8 = 1;

/// A process waits for its clock if the last id is ahead by no more than this.
const WAIT_MAX: u8 = 1;

/// How far a wrong clock is ahead or behind.
const WRONG: u8 = 3;

/// One worker number and the processes that want it.
#[derive(Debug, Clone, Copy)]
pub struct Worker {
    bounds: Bounds,
}

/// MySQL's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Row {
    /// 0: nobody.
    pub holder: u8,
    pub until: u8,
    pub last: u8,
}

/// The complete state at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// MySQL's clock.
    pub now: u8,
    /// How far it is ahead of the time.
    pub ahead: u8,
    pub row: Row,
    /// A copy of the row that a failover may go back to. It has the latest taking, if not the latest renewals.
    pub saved: Option<Saved>,
    pub processes: [Process; PROCESSES],
    /// Who made ids of each tick; 0: nobody.
    pub made: [u8; TICKS],
    /// Two holders made ids of the same tick.
    pub twice: bool,
    /// Names are given once.
    pub names: u8,
    pub left: Left,
}

/// What a replica has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Saved {
    pub row: Row,
    /// Ticks since the row was that.
    pub age: u8,
}

/// How many events of each kind may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Left {
    /// A process dies, and another takes its place.
    pub crashes: u8,
    /// A process starts with a clock that is ahead or behind.
    pub wrong_clocks: u8,
    /// A process and its clock stand still for a tick.
    pub pauses: u8,
    /// MySQL goes back to a copy of the row.
    pub failovers: u8,
    /// MySQL's clock jumps ahead by a lease.
    pub jumps: u8,
}

/// The promise: no two ids are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Promise {
    NoIdTwice,
}

/// A description of a step, for a trace.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    who: u8,
    what: &'static str,
}

type Next = Vec<(Step, State)>;

impl Worker {
    /// The number within `bounds`.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bounds.bug == Some(bug)
    }

    /// Passes a tick for MySQL and all processes, or for all except one that stands still.
    fn tick(&self, state: &State, next: &mut Next) {
        if state.time() + 1 >= self.bounds.ticks {
            return;
        }
        let mut after = *state;
        after.now += 1;
        after.saved = state.saved.and_then(Saved::older);
        for process in &mut after.processes {
            process.clock = process.clock.saturating_add(1);
        }
        if state.left.pauses > 0 {
            for which in 0..PROCESSES {
                let mut paused = after;
                paused.processes[which].clock = state.processes[which].clock;
                paused.left.pauses -= 1;
                next.push((step(paused.processes[which].name, "stands still for a tick"), paused));
            }
        }
        next.push((step(0, "a tick passes"), after));
    }

    /// What happens to the servers.
    fn strike(&self, state: &State, next: &mut Next) {
        if state.left.failovers > 0 {
            if let Some(saved) = state.saved {
                let mut after = *state;
                after.row = saved.row;
                after.saved = None;
                after.left.failovers -= 1;
                next.push((step(0, "MySQL fails over and lost its newest changes"), after));
            } else {
                let mut after = *state;
                after.saved = Some(Saved { row: state.row, age: 0 });
                next.push((step(0, "a replica has got so far"), after));
            }
        }
        if state.left.jumps > 0 {
            let mut after = *state;
            after.now += LEASE;
            after.ahead += LEASE;
            after.left.jumps -= 1;
            next.push((step(0, "MySQL's clock jumps ahead"), after));
        }
    }
}

impl Model for Worker {
    type State = State;
    type Step = Step;
    type Promise = Promise;

    fn initial(&self) -> State {
        let mut processes = [Process::default(); PROCESSES];
        for (process, name) in processes.iter_mut().zip(1..) {
            *process = Process::started(name, bounds::START);
        }
        State {
            now: bounds::START,
            ahead: 0,
            row: Row::default(),
            saved: None,
            processes,
            made: [0; TICKS],
            twice: false,
            names: PROCESSES as u8,
            left: self.bounds.left,
        }
    }

    fn steps(&self, state: &State, next: &mut Next) {
        let from = next.len();
        for which in 0..PROCESSES {
            self.act(state, which, next);
        }
        self.strike(state, next);
        self.tick(state, next);
        for (_, after) in &mut next[from..] {
            after.make_ids();
        }
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        state.twice.then_some(Promise::NoIdTwice)
    }
}

impl Saved {
    /// Returns the copy a tick later; `None` if a replica would have got farther by then.
    fn older(self) -> Option<Self> {
        (self.age < LOSS).then_some(Self { age: self.age + 1, ..self })
    }
}

impl State {
    fn time(&self) -> u8 {
        self.now - self.ahead
    }

    /// Who may make ids makes one in each state: that is the worst case.
    fn make_ids(&mut self) {
        for process in self.processes.iter().filter(|process| process.may_make_ids()) {
            let Some(maker) = self.made.get_mut(usize::from(process.clock)) else { continue };
            self.twice |= *maker != 0 && *maker != process.name;
            *maker = process.name;
        }
    }
}

fn step(who: u8, what: &'static str) -> Step {
    Step { who, what }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("two holders of a number made ids of the same tick")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.who {
            0 => f.write_str(self.what),
            who => write!(f, "process {who}: {}", self.what),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "MySQL:     at {}, {:?}, saved {:?}", self.now, self.row, self.saved)?;
        writeln!(f, "processes: {:?}", self.processes)?;
        write!(f, "made by:   {:?}", self.made)
    }
}

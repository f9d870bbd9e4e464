//! The view of one user: MySQL's commits, their topic, the consumer and a predecessor that still runs, readers that
//! rebuild a cold view, and a Redis that evicts keys. Each command to Redis is a script in `lua/`.

pub mod bounds;
mod consumer;
mod keys;
mod promise;
mod rebuild;

use std::fmt;

pub use self::{
    bounds::{Bounds, LARGE, PLANTED, SMALL},
    keys::{Hash, Keys, List, Phase, Token, ViewState},
    promise::Promise,
};
use self::{
    bounds::{COUPONS_MAX, READERS_MAX},
    consumer::Change,
    rebuild::Reader,
};
use crate::{Bug, few::Few, search::Model};

/// Most commits, of all coupons together.
const COMMITS_MAX: usize = 6;

/// The view within bounds.
#[derive(Debug, Clone, Copy)]
pub struct View {
    bounds: Bounds,
}

/// The complete state at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// MySQL: version of each coupon; 0: it does not exist.
    pub versions: [u8; COUPONS_MAX],
    /// The topic, in the order of the commits.
    pub topic: Few<Change, COMMITS_MAX>,
    /// Number of messages that the consumer has finished.
    pub offset: u8,
    /// The change that the consumer has applied but not yet read back.
    pub applied: Option<Change>,
    /// The remaining step of a consumer that lost its partition.
    pub zombie: Option<(Change, Zombie)>,
    /// The user's keys.
    pub keys: Keys,
    /// The contents that Redis returns to when it starts again.
    pub saved: Option<Keys>,
    /// `view_generation` in MySQL.
    pub generation: u8,
    /// The highest generation that was ever given.
    pub given: u8,
    pub readers: [Reader; READERS_MAX],
    /// The last nonce.
    pub nonces: u8,
    /// For each coupon, the lowest version that the view may show.
    pub floor: [u8; COUPONS_MAX],
    pub left: Left,
}

/// The remaining step of a consumer that lost its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Zombie {
    Applies,
    ReadsBack,
}

/// How many faults of each kind may still strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Left {
    pub evictions: u8,
    /// Lost offsets, and consumers that resume after losing their partition.
    pub replays: u8,
    pub rebuilds: u8,
    /// Undecodable messages.
    pub undecodable: u8,
    pub crashes: u8,
    /// Restarts of Redis, each of which raises the generation.
    pub generations: u8,
    /// Failovers of MySQL that lose the last raise of the generation.
    pub failovers: u8,
}

/// A description of a step, for a trace.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    who: &'static str,
    what: &'static str,
}

type Next = Vec<(Step, State)>;

impl View {
    /// The view within `bounds`.
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds }
    }

    fn commit(&self, state: &State, next: &mut Next) {
        for (coupon, last) in self.bounds.versions.iter().enumerate() {
            if state.versions[coupon] < *last {
                let mut after = *state;
                after.versions[coupon] += 1;
                let version = after.versions[coupon];
                after.topic.push(Change { coupon: coupon as u8, version });
                next.push((step("mysql", "commits a coupon's next version"), after));
            }
        }
    }

    fn strike(&self, state: &State, next: &mut Next) {
        if state.left.evictions > 0 {
            let mut evicted = *state;
            evicted.left.evictions -= 1;
            if state.keys.list.is_some() {
                let mut list = evicted;
                list.keys.list = None;
                next.push((step("redis", "evicts the list"), list));
            }
            if state.keys.coupons.is_some() {
                evicted.keys.coupons = None;
                next.push((step("redis", "evicts the coupons' hash"), evicted));
            }
        }
        if state.left.generations > 0 {
            self.start_again(state, next);
        }
    }

    /// The restarted Redis may hold older data. Raising the generation makes all of it cold.
    fn start_again(&self, state: &State, next: &mut Next) {
        let mut risen = *state;
        risen.left.generations -= 1;
        risen.keys = risen.saved.take().unwrap_or(state.keys);
        // A number contains the identity of the server that gave it, so no other one gives it again.
        let before =
            if self.has(Bug::GenerationGivenTwice) { state.generation } else { state.given };
        risen.generation = before + 1;
        risen.given = state.given.max(risen.generation);
        risen.keys.generation = risen.generation;
        next.push((step("redis", "starts again: the generation rises"), risen));
        if self.bounds.left.failovers == 0 {
            return;
        }
        let mut saved = *state;
        saved.saved = Some(state.keys);
        next.push((step("redis", "writes its file"), saved));
        if state.left.failovers > 0 && state.generation > 0 {
            let mut lost = *state;
            lost.left.failovers -= 1;
            lost.generation -= 1;
            next.push((
                step("mysql", "fails over: the last raise of the generation is lost"),
                lost,
            ));
        }
    }
}

impl Model for View {
    type State = State;
    type Step = Step;
    type Promise = Promise;

    fn initial(&self) -> State {
        State {
            versions: [0; COUPONS_MAX],
            topic: Few::default(),
            offset: 0,
            applied: None,
            zombie: None,
            keys: Keys::default(),
            saved: None,
            generation: 0,
            given: 0,
            readers: [Reader::default(); READERS_MAX],
            nonces: 0,
            floor: [0; COUPONS_MAX],
            left: self.bounds.left,
        }
    }

    fn steps(&self, state: &State, next: &mut Next) {
        self.commit(state, next);
        self.consume(state, next);
        self.consume_late(state, next);
        for which in 0..READERS_MAX {
            self.rebuild(state, which, next);
        }
        self.strike(state, next);
    }

    fn broken(&self, state: &State) -> Option<Promise> {
        self.broken_in(state)
    }
}

/// Returns whether a coupon is unused in a version: issued, used, given back, used again.
fn is_unused(version: u8) -> bool {
    version % 2 == 1
}

fn step(who: &'static str, what: &'static str) -> Step {
    Step { who, what }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who, self.what)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "MySQL: versions {:?}; consumed {} events", self.versions, self.offset)?;
        writeln!(f, "list:  {:?}", self.keys.list)?;
        write!(f, "hash:  {:?}", self.keys.coupons)
    }
}

//! Breadth-first search: visits every reachable state once, nearest first, so the trace to a broken promise is a
//! shortest one.
//!
//! For each visited state it keeps only a 64-bit fingerprint, and the fingerprint of the state it was reached from.
//! With 10⁷ states the probability that two of them share a fingerprint is 3 · 10⁻⁶. A collision could hide a state,
//! but never cause a false alarm, since a trace is run again step by step.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    hash::{BuildHasherDefault, Hash, Hasher},
};

/// A protocol: its states, and the possible steps from each.
pub trait Model {
    /// A state, small enough to be copied by the million.
    type State: Copy + Hash + fmt::Display;
    /// A description of a step, for a trace.
    type Step: fmt::Display;
    /// A promise that a state may break.
    type Promise: Copy + PartialEq + fmt::Debug + fmt::Display;

    /// Returns the initial state.
    fn initial(&self) -> Self::State;

    /// Appends every possible step and the state after it.
    fn steps(&self, state: &Self::State, next: &mut Vec<(Self::Step, Self::State)>);

    /// Returns the promise that the state breaks, if any.
    fn broken(&self, state: &Self::State) -> Option<Self::Promise>;
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explored<P> {
    /// Number of distinct states.
    pub states: usize,
    /// Number of steps between them.
    pub steps: u64,
    /// Distance of the farthest state from the first.
    pub depth: usize,
    /// Most memory that the states took at any time, in bytes; computed, not measured.
    pub bytes: usize,
    /// How it ended.
    pub end: End<P>,
}

/// How a search ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End<P> {
    /// Every state was visited, and none breaks a promise.
    Holds,
    /// A promise is broken.
    Broken {
        promise: P,
        /// A shortest path there, one step per line, and the last state.
        trace: String,
    },
    /// The memory limit was reached before the end.
    TooLarge,
}

impl<P: Copy> Explored<P> {
    /// Returns the broken promise.
    pub fn promise(&self) -> Option<P> {
        match &self.end {
            End::Broken { promise, .. } => Some(*promise),
            End::Holds | End::TooLarge => None,
        }
    }
}

type Seen = HashMap<u64, u64, BuildHasherDefault<Fingerprint>>;

/// Explores `model` until a promise is broken, every state is visited, or the states take more than `bytes_max` bytes.
/// Calls `progress` after each depth with the number of known states and the number of new ones.
pub fn explore<M: Model>(
    model: &M,
    bytes_max: usize,
    mut progress: impl FnMut(usize, usize),
) -> Explored<M::Promise> {
    let first = model.initial();
    let mut seen = Seen::default();
    seen.insert(fingerprint(&first), 0);
    let mut frontier = vec![first];
    let mut next = Vec::new();
    let mut steps = Vec::new();
    let mut explored = Explored { states: 1, steps: 0, depth: 0, bytes: 0, end: End::Holds };
    if let Some(promise) = model.broken(&first) {
        explored.end = End::Broken { promise, trace: format!("{first}\n") };
        return explored;
    }
    while !frontier.is_empty() {
        for state in &frontier {
            let from = fingerprint(state);
            model.steps(state, &mut steps);
            explored.steps += steps.len() as u64;
            for (_, state) in steps.drain(..) {
                let print = fingerprint(&state);
                let Entry::Vacant(vacant) = seen.entry(print) else { continue };
                vacant.insert(from);
                explored.states += 1;
                if let Some(promise) = model.broken(&state) {
                    explored.depth += 1;
                    explored.end = End::Broken { promise, trace: trace(model, &seen, print) };
                    return explored;
                }
                next.push(state);
            }
        }
        std::mem::swap(&mut frontier, &mut next);
        next.clear();
        explored.depth += usize::from(!frontier.is_empty());
        let bytes = bytes_of::<M>(&seen, &[&frontier, &next]);
        explored.bytes = explored.bytes.max(bytes);
        if bytes > bytes_max {
            explored.end = End::TooLarge;
            return explored;
        }
        progress(explored.states, frontier.len());
    }
    explored
}

/// Estimates the memory: the table adds one control byte to each pair.
fn bytes_of<M: Model>(seen: &Seen, lists: &[&Vec<M::State>]) -> usize {
    let listed: usize = lists.iter().map(|list| list.capacity()).sum();
    seen.capacity() * (size_of::<(u64, u64)>() + 1) + listed * size_of::<M::State>()
}

/// Runs the steps from the first state to the one with this fingerprint again.
fn trace<M: Model>(model: &M, seen: &Seen, last: u64) -> String {
    let mut prints = vec![last];
    let mut print = last;
    while let Some(from) = seen.get(&print).copied().filter(|from| *from != 0) {
        prints.push(from);
        print = from;
    }
    let mut state = model.initial();
    let mut lines = String::new();
    let mut next = Vec::new();
    for (number, print) in (1..).zip(prints.iter().rev().skip(1)) {
        model.steps(&state, &mut next);
        let found = next.drain(..).find(|(_, state)| fingerprint(state) == *print);
        let Some((step, after)) = found else { break };
        lines.push_str(&format!("{number:>3}. {step}\n"));
        state = after;
    }
    lines.push_str(&format!("{state}\n"));
    lines
}

/// Never 0, which marks the initial state.
fn fingerprint<S: Hash>(state: &S) -> u64 {
    let mut hasher = Fingerprint::default();
    state.hash(&mut hasher);
    hasher.finish().max(1)
}

/// One multiplication and one shift per word: states consist of few small words.
#[derive(Clone, Copy)]
struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Fingerprint {
    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        mixed ^ (mixed >> 33)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.mix(word.into());
    }

    fn write_i16(&mut self, word: i16) {
        self.mix(u64::from(word.cast_unsigned()));
    }

    fn write_isize(&mut self, word: isize) {
        self.mix(word as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }
}

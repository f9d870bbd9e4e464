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
    let mut frontier = Frontier::default();
    frontier.push(first);
    let mut steps = Vec::new();
    let mut explored = Explored { states: 1, steps: 0, depth: 0, bytes: 0, end: End::Holds };
    if let Some(promise) = model.broken(&first) {
        explored.end = End::Broken { promise, trace: format!("{first}\n") };
        return explored;
    }
    while frontier.states > 0 {
        let mut next = Frontier::default();
        // Each chunk is freed once its states are visited.
        while let Some(chunk) = frontier.chunks.pop() {
            for state in &chunk {
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
            let listed = frontier.bytes() + next.bytes();
            explored.bytes = explored.bytes.max(bytes_of(&seen) + listed);
            if explored.bytes > bytes_max {
                explored.end = End::TooLarge;
                return explored;
            }
        }
        frontier = next;
        explored.depth += usize::from(frontier.states > 0);
        progress(explored.states, frontier.states);
    }
    explored
}

/// Most states of a chunk.
const CHUNK: usize = 4096;

/// The states of one depth, in chunks, so that a list need not grow by copying.
struct Frontier<S> {
    chunks: Vec<Vec<S>>,
    states: usize,
}

impl<S> Default for Frontier<S> {
    fn default() -> Self {
        Self { chunks: Vec::new(), states: 0 }
    }
}

impl<S> Frontier<S> {
    fn push(&mut self, state: S) {
        self.states += 1;
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(state),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK.min(self.states));
                chunk.push(state);
                self.chunks.push(chunk);
            }
        }
    }

    fn bytes(&self) -> usize {
        let capacity: usize = self.chunks.iter().map(Vec::capacity).sum();
        capacity * size_of::<S>()
    }
}

/// Estimates the memory of the table, which adds one control byte to each pair.
fn bytes_of(seen: &Seen) -> usize {
    seen.capacity() * (size_of::<(u64, u64)>() + 1)
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

/// Collects the fields of a state, which are small numbers, in words of eight bytes. Takes one multiplication and one
/// shift per word.
#[derive(Clone, Copy)]
struct Fingerprint {
    mixed: u64,
    word: u64,
    /// Bits of `word` that are filled.
    filled: u32,
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self { mixed: 0x9e37_79b9_7f4a_7c15, word: 0, filled: 0 }
    }
}

impl Fingerprint {
    #[inline]
    fn mix(&mut self, word: u64) {
        let mixed = (self.mixed ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        self.mixed = mixed ^ (mixed >> 32);
    }

    #[inline]
    fn push(&mut self, value: u64, bits: u32) {
        if self.filled + bits > u64::BITS {
            self.mix(self.word);
            self.word = 0;
            self.filled = 0;
        }
        self.word |= value << self.filled;
        self.filled += bits;
    }
}

impl Hasher for Fingerprint {
    #[inline]
    fn finish(&self) -> u64 {
        let mut last = *self;
        last.mix(self.word);
        let mixed = (last.mixed ^ (last.mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        mixed ^ (mixed >> 33)
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.push((*byte).into(), u8::BITS);
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.push(value.into(), u8::BITS);
    }

    #[inline]
    fn write_i16(&mut self, value: i16) {
        self.push(value.cast_unsigned().into(), u16::BITS);
    }

    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.push(value.into(), u16::BITS);
    }

    /// The variant of an enumeration.
    #[inline]
    fn write_isize(&mut self, variant: isize) {
        self.push(variant as u64 & 0xff, u8::BITS);
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.push(value & 0xffff_ffff, u32::BITS);
        self.push(value >> 32, u32::BITS);
    }

    /// The length of a list.
    #[inline]
    fn write_usize(&mut self, length: usize) {
        self.write_u64(length as u64);
    }
}

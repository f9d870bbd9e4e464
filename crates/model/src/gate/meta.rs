//! What a gate's keys hold.

use coupon::TemplateState;

use super::{Numbers, Rules};
use crate::{Bug, few::Few};

/// What the gate knows of its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Meta {
    /// Whether it is being loaded or open.
    pub phase: Phase,
    /// Its epoch.
    pub epoch: u8,
    /// The run of Redis that it was begun under.
    pub run: u8,
    /// How many entries there must be.
    pub users: u8,
    /// The rest; while loading only version and state may be known.
    pub facts: OpenFacts,
}

/// Whether a gate can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Being rebuilt.
    Loading,
    /// Open for claims, in whatever state its template is.
    Open,
}

/// What a gate is opened with; version, state, stock and movement change later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenFacts {
    /// The template's version; 0: none is known.
    pub version: u8,
    /// Its state.
    pub state: TemplateState,
    /// When its window opens.
    pub starts_at: u8,
    /// When its window ends.
    pub ends_at: u8,
    /// Its limit per user, at most 8; 0: none.
    pub limit: u8,
    /// Its stock; below zero after a cut.
    pub stock: i16,
    /// The last movement that the stock contains.
    pub movement: u8,
}

/// A user's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Entry<const REQUESTS: usize> {
    /// Whether MySQL must be asked for a key before a refusal is final.
    pub look_in_mysql: bool,
    /// The numbers that the user holds, pending ones included.
    pub taken: Numbers,
    /// One more than the highest admission that was dropped; 0: none was.
    pub floor: u8,
    /// The requests that the gate remembers, the oldest first.
    pub requests: Few<Request, REQUESTS>,
}

/// A request that the gate remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Request {
    /// The client's key.
    pub key: u8,
    /// How many coupons; it stands for the payload's hash too.
    pub quantity: u8,
    /// Its admission.
    pub id: u8,
    /// The numbers it holds.
    pub numbers: Numbers,
    /// Whether its landing is known.
    pub state: RequestState,
}

/// What the gate knows of a request's landing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RequestState {
    /// Admitted; whether it has landed only MySQL knows.
    #[default]
    Pending,
    /// Landed.
    Landed,
}

impl OpenFacts {
    /// Of a gate that is being loaded.
    pub(super) const UNKNOWN: Self = Self {
        version: 0,
        state: TemplateState::Draft,
        starts_at: 0,
        ends_at: 0,
        // Not 0: nothing is trimmed before the limit is known.
        limit: u8::MAX,
        stock: 0,
        movement: 0,
    };
}

impl<const REQUESTS: usize> Entry<REQUESTS> {
    /// Drops the oldest landed requests beyond the kept ones, never a pending one.
    pub(super) fn trim(&mut self, rules: Rules) {
        let mut at = 0;
        while self.requests.as_slice().len() > rules.requests_kept
            && at < self.requests.as_slice().len()
        {
            let oldest = self.requests.as_slice()[at];
            if oldest.state == RequestState::Landed || rules.has(Bug::PendingDropped) {
                self.requests.remove(at);
                self.look_in_mysql = true;
                self.floor = self.floor.max(oldest.id + 1);
            } else {
                at += 1;
            }
        }
    }
}

//! The contents of a gate's keys.

use coupon::{ClaimMode, TemplateState};

use super::{Numbers, Rules};
use crate::{Bug, few::Few};

/// What the gate knows about its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Meta {
    pub phase: Phase,
    pub epoch: u8,
    /// Run of Redis in which this epoch began.
    pub run: u8,
    /// Number of entries that there must be.
    pub users: u8,
    /// Whether an operator paused the template at the gate, and MySQL need not know it yet.
    pub halted: bool,
    /// The other fields; of a loading gate at most version, state and mode are known.
    pub facts: OpenFacts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Loading,
    /// Open for claims, whatever the template's state.
    Open,
}

/// The facts that a gate is opened with. Version, state, mode, stock and movement change later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenFacts {
    /// Version of the template; 0: unknown.
    pub version: u8,
    pub state: TemplateState,
    pub mode: ClaimMode,
    /// Start of the claim window.
    pub starts_at: u8,
    /// End of the claim window.
    pub ends_at: u8,
    /// Limit per user, at most 8; 0: no limit.
    pub limit: u8,
    /// Lapses after which a user is banned; 0: never, and lapses are not counted.
    pub lapses_allowed: u8,
    /// Stock left; may be negative after a cut.
    pub stock: i16,
    /// Number of the last movement that the stock contains.
    pub movement: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Entry<const REQUESTS: usize> {
    /// Whether a key must be looked up in MySQL before an answer that rests on the gate alone.
    pub look_in_mysql: bool,
    /// The numbers that the user holds, including pending and queued ones.
    pub taken: Numbers,
    /// Lapses since the last lift.
    pub lapses: u8,
    /// The highest dropped admission id plus one; 0: none was dropped.
    pub floor: u8,
    /// The requests that the gate remembers, oldest first.
    pub requests: Few<Request, REQUESTS>,
}

/// A request that the gate remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Request {
    /// The client's key.
    pub key: u8,
    /// Number of coupons; also stands for the payload hash.
    pub quantity: u8,
    /// Id of its admission.
    pub id: u8,
    /// The numbers it holds.
    pub numbers: Numbers,
    /// Whether it is known to have landed.
    pub state: RequestState,
}

/// What the gate knows about a request's landing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RequestState {
    /// Admitted to the direct way; only MySQL knows whether it has landed.
    #[default]
    Pending,
    /// In the queue; only MySQL knows whether it has landed.
    Queued,
    Landed,
}

impl OpenFacts {
    /// Facts of a loading gate.
    pub(super) const UNKNOWN: Self = Self {
        version: 0,
        state: TemplateState::Draft,
        mode: ClaimMode::Direct,
        starts_at: 0,
        ends_at: 0,
        // Not 0, so that nothing is trimmed before the limit is known.
        limit: u8::MAX,
        lapses_allowed: 0,
        stock: 0,
        movement: 0,
    };
}

impl<const REQUESTS: usize> Entry<REQUESTS> {
    /// Returns the position of a request that has not landed, as far as the gate knows.
    pub(super) fn unsettled(&self, id: u8) -> Option<usize> {
        let mut requests = self.requests.as_slice().iter();
        requests.position(|r| r.id == id && r.state != RequestState::Landed)
    }

    /// Drops the oldest landed requests beyond `requests_kept`, never one that may still land.
    pub(super) fn trim(&mut self, rules: Rules) {
        let mut at = 0;
        while self.requests.as_slice().len() > rules.requests_kept
            && at < self.requests.as_slice().len()
        {
            let oldest = self.requests.as_slice()[at];
            if oldest.state == RequestState::Landed || rules.has(Bug::PendingDropped) {
                self.requests.remove(at);
                self.look_in_mysql = true;
                if !rules.has(Bug::LimitedTrimWithoutFloor) {
                    self.floor = self.floor.max(oldest.id + 1);
                }
            } else {
                at += 1;
            }
        }
    }

    /// Only with [`Bug::ReturnRemovesRequest`]: forgets the landed requests with these numbers.
    pub(super) fn remove_landed(&mut self, numbers: Numbers) {
        let found = |r: &Request| r.state == RequestState::Landed && r.numbers.meets(numbers);
        while let Some(at) = self.requests.as_slice().iter().position(found) {
            self.requests.remove(at);
        }
    }
}

//! A user's entry at the gate.

use super::{
    bounds::Bounds,
    gate::REQUESTS_MAX,
    ledger::{Lapses, Movement},
};
use crate::{
    Bug, Few,
    gate::{Numbers, Request, RequestState},
};

/// Landed requests that an entry keeps: one, so that dropping is explored too. The code keeps `max(limit, 32)`.
const REQUESTS_KEPT: usize = 1;

/// What the gate knows about a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Entry {
    /// Whether a key must be looked up in MySQL before a refusal is final.
    pub look: bool,
    /// The numbers that the user holds, including pending ones.
    pub taken: Numbers,
    /// Lapses since the last lift; counted only if the template limits them, which never changes after publication.
    pub lapses: u8,
    /// The highest dropped admission id plus one; 0: none was dropped.
    pub floor: u8,
    /// The requests that the gate remembers, oldest first.
    pub requests: Few<Request, REQUESTS_MAX>,
}

/// The gate's answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Admitted {
        /// Its claim numbers.
        numbers: Numbers,
    },
    /// The gate remembers this request.
    Replay {
        /// Id of the admission that used the key.
        id: u8,
        /// Whether it is known to have landed.
        state: RequestState,
        /// Its claim numbers.
        numbers: Numbers,
    },
    /// The gate is absent, incomplete, loading, or of another run or epoch.
    NotLoaded,
    /// The user's entry has dropped this admission or a later one. It may have landed; nothing was done.
    TooOld,
    /// `BANNED`, `LIMIT` or `SOLD_OUT`.
    Refused {
        /// Whether the key must be looked up in MySQL before the refusal is final.
        look: bool,
    },
}

impl Entry {
    /// Returns whether the user is banned because of lapses. Only the gate asks: a claim that was admitted before the
    /// movement arrived lands after it, so a user may lapse more often than is allowed. Each lapsed coupon counts.
    pub(super) fn is_banned(&self, bounds: &Bounds) -> bool {
        bounds.lapses_allowed > 0 && self.lapses >= bounds.lapses_allowed
    }

    /// Counts a movement's lapses, or its lift.
    pub(super) fn count(&mut self, user: u8, seq: u8, movement: Movement) {
        let mut row = Lapses { count: self.lapses, seq: 0 };
        movement.change_lapses(user, seq, &mut row);
        self.lapses = row.count;
    }

    /// Drops the oldest landed requests beyond [`REQUESTS_KEPT`], never a pending one.
    pub(super) fn trim(&mut self, bounds: &Bounds) {
        let mut at = 0;
        while self.requests.as_slice().len() > REQUESTS_KEPT && at < self.requests.as_slice().len()
        {
            let oldest = self.requests.as_slice()[at];
            if oldest.state == RequestState::Landed {
                self.requests.remove(at);
                self.look = true;
                if !bounds.has(Bug::LimitedTrimWithoutFloor) {
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

//! Claims to a gate, and its answers.

use coupon::TemplateState;

use super::{Entry, Message, Meta, Numbers, OpenFacts, RequestState, Rules};
use crate::Bug;

/// A claim as the gate sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub user: u8,
    /// The client's key.
    pub key: u8,
    /// Number of coupons.
    pub quantity: u8,
    /// The admission's id, if it is admitted.
    pub id: u8,
}

/// What the api says with a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Said {
    /// Its lander is behind.
    pub behind: bool,
    /// MySQL has no answer under the key.
    pub looked: bool,
}

/// The gate's answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Admitted {
        /// Its claim numbers.
        numbers: Numbers,
        /// Stock left.
        left: i16,
    },
    /// Admitted, and in the outbox.
    Queued(Message),
    /// It would be queued, but its key must be looked up in MySQL first; nothing was done.
    LookFirst,
    /// The gate remembers this request.
    Replay {
        /// Id of the admission that used the key.
        id: u8,
        /// Whether it is known to have landed.
        state: RequestState,
        /// Its claim numbers.
        numbers: Numbers,
    },
    /// The key was used with another payload.
    KeyReused,
    /// The gate is absent, incomplete, loading, or of another run.
    NotLoaded,
    /// The gate has another epoch; nothing was done.
    OtherEpoch(u8),
    /// The user's entry has dropped this admission or a later one. It may have landed; nothing was done.
    TooOld,
    Refused {
        refusal: Refusal,
        /// Whether the key must be looked up in MySQL before the refusal is final.
        look_in_mysql: bool,
    },
}

/// Why the gate refuses a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The window has not opened.
    NotOpen,
    /// The template is paused.
    Paused,
    /// The window is over.
    Closed,
    /// The template has ended.
    Ended,
    /// Too many of the user's holds have lapsed.
    Banned,
    /// The user would hold more than the limit.
    Limit {
        /// Number of coupons that the user holds.
        taken: u8,
    },
    /// No stock is left.
    SoldOut,
    /// Less stock is left than requested.
    Insufficient {
        /// Stock left.
        left: i16,
    },
}

/// Result of `move.lua`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The new stock.
    Applied(i16),
    /// The stock already contained it.
    Already,
    /// Movements are missing between this one and the last that the stock contains.
    Gap(u8),
    /// The gate is absent, loading, or of another run.
    NotLoaded,
    /// The gate has another epoch; nothing was done.
    OtherEpoch(u8),
}

/// Result of unloading a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unloaded {
    /// It is removed.
    Gone,
    /// Admissions are in flight; nothing was done.
    InFlight,
    /// The template has not ended and its window is not over; nothing was done.
    Open,
    /// It is absent or has another epoch; nothing was done.
    OtherEpoch,
}

/// Returns the first refusal that applies, in the order of `claim.lua`.
pub(super) fn refusal<const R: usize>(
    meta: &Meta,
    entry: &Entry<R>,
    now: u8,
    quantity: u8,
) -> Option<Refusal> {
    let facts = &meta.facts;
    let taken = entry.taken.count();
    if facts.state == TemplateState::Ended {
        Some(Refusal::Ended)
    } else if now < facts.starts_at {
        Some(Refusal::NotOpen)
    } else if now >= facts.ends_at {
        Some(Refusal::Closed)
    } else if facts.state != TemplateState::Published || meta.halted {
        Some(Refusal::Paused)
    } else if facts.lapses_allowed > 0 && entry.lapses >= facts.lapses_allowed {
        Some(Refusal::Banned)
    } else if facts.limit > 0 && taken + quantity > facts.limit {
        Some(Refusal::Limit { taken })
    } else if facts.stock <= 0 {
        Some(Refusal::SoldOut)
    } else if facts.stock < i16::from(quantity) {
        Some(Refusal::Insufficient { left: facts.stock })
    } else {
        None
    }
}

/// Returns the verdict with this refusal.
pub(super) fn refused<const R: usize>(
    rules: Rules,
    facts: &OpenFacts,
    entry: &Entry<R>,
    refusal: Refusal,
) -> Verdict {
    let look_in_mysql = if facts.limit == 0 {
        !rules.has(Bug::LimitlessRefusalWithoutLook)
    } else {
        entry.look_in_mysql && !rules.has(Bug::RefusalWithoutLook)
    };
    let blind = refusal == Refusal::Banned && rules.has(Bug::BanWithoutLook);
    Verdict::Refused { refusal, look_in_mysql: look_in_mysql && !blind }
}

impl Verdict {
    /// Only with planted mistakes: returns whether this refusal comes before the check for an earlier request.
    pub(super) fn comes_first(&self, rules: Rules) -> bool {
        let banned = matches!(self, Self::Refused { refusal: Refusal::Banned, .. });
        rules.has(Bug::RefusalBeforeReplay) || banned && rules.has(Bug::BanBeforeReplay)
    }
}

//! What a gate is asked, and what it answers.

use coupon::TemplateState;

use super::{Entry, Numbers, OpenFacts, RequestState};

/// A claim as the gate sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// By whom.
    pub user: u8,
    /// The client's key.
    pub key: u8,
    /// How many coupons.
    pub quantity: u8,
    /// The admission's id, if it is admitted.
    pub id: u8,
}

/// What the gate says to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Let through.
    Admitted {
        /// The numbers it took.
        numbers: Numbers,
        /// What is left for others.
        left: i16,
    },
    /// The gate remembers this request.
    Replay {
        /// Its admission.
        id: u8,
        /// Whether it is known to have landed.
        state: RequestState,
        /// The numbers it took.
        numbers: Numbers,
    },
    /// The key was used for another payload.
    KeyReused,
    /// Nothing can be said.
    NotLoaded,
    /// The gate's epoch is another: nothing was done.
    OtherEpoch(u8),
    /// The user's entry has dropped this admission or a later one: it may have landed, nothing was done.
    TooOld,
    /// Refused.
    Refused {
        /// Why.
        refusal: Refusal,
        /// Whether MySQL must be asked for the key before the refusal is final.
        look_in_mysql: bool,
    },
}

/// Why the gate refuses a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The window has not opened.
    NotOpen,
    /// An operator holds the template.
    Paused,
    /// The window is over.
    Closed,
    /// The template has ended.
    Ended,
    /// The user would hold more than the limit.
    Limit {
        /// How many the user holds.
        taken: u8,
    },
    /// Nothing is left.
    SoldOut,
    /// Less is left than asked for.
    Insufficient {
        /// What is left.
        left: i16,
    },
}

/// What `move.lua` did with a movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The stock changed to this.
    Applied(i16),
    /// The stock contained it.
    Already,
    /// Movements between this one and the last that the stock contains are missing.
    Gap(u8),
    /// The gate is absent, being loaded, or of another run.
    NotLoaded,
    /// The gate's epoch is another: nothing was done.
    OtherEpoch(u8),
}

/// What became of a gate that should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unloaded {
    /// It is gone.
    Gone,
    /// Admissions are in flight: nothing was done.
    InFlight,
    /// Its template has not ended and its window is not over: nothing was done.
    Open,
    /// It is absent, or its epoch is another: nothing was done.
    OtherEpoch,
}

/// The refusals, in the order of `claim.lua`.
pub(super) fn refusal<const R: usize>(
    facts: &OpenFacts,
    entry: &Entry<R>,
    now: u8,
    quantity: u8,
) -> Option<Refusal> {
    let taken = entry.taken.count();
    if facts.state == TemplateState::Ended {
        Some(Refusal::Ended)
    } else if now < facts.starts_at {
        Some(Refusal::NotOpen)
    } else if now >= facts.ends_at {
        Some(Refusal::Closed)
    } else if facts.state != TemplateState::Published {
        Some(Refusal::Paused)
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

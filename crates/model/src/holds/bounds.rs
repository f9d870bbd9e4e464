//! Bounds of a search: the claims, what ends their holds, the operator's changes, and the faults that may strike.

pub use crate::claim::{Attempt, attempt};

use crate::Bug;

/// Most claims. The id of a claim is its index in the list.
pub const ATTEMPTS_MAX: usize = 4;

/// Id of the additional claim that probes quiet states.
pub(super) const SPARE: usize = ATTEMPTS_MAX;

/// Number of ids.
pub const IDS: usize = ATTEMPTS_MAX + 1;

/// Most users.
pub const USERS_MAX: usize = 2;

/// Most coupons of one claim.
pub const COUPONS_MAX: usize = 2;

/// Most payments, and most cancellations.
pub const CALLS_MAX: usize = 2;

/// Most movements.
pub const MOVEMENTS_MAX: usize = 4;

/// Most rebuilders, and most processes that lapse.
pub const WORKERS_MAX: usize = 2;

/// The bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Initial number of coupons.
    pub total: i16,
    /// Limit per user; 0: no limit.
    pub limit: u8,
    /// Lapses after which a user is banned; 0: never.
    pub lapses_allowed: u8,
    /// Whether returned coupons are retired instead of sold again.
    pub retire: bool,
    /// The claims. Those with the same key ask for the same quantity and are sent in this order.
    pub attempts: &'static [Attempt],
    /// For how many claims the deadline may pass.
    pub deadlines: u8,
    /// Number of expiry-workers. After a rebalance two of them may drain the same shard.
    pub lapsers: usize,
    /// Requests to confirm. Those with the same reference are copies of one request.
    pub payments: &'static [Payment],
    /// Requests to cancel.
    pub cancels: &'static [Cancel],
    /// The operator's changes, in this order.
    pub changes: &'static [Change],
    /// Whether a movement's message may come before the movement is visible in MySQL.
    pub hidden: bool,
    /// Whether a resolver is at work.
    pub resolver: bool,
    pub rebuilders: usize,
    pub left: Left,
    /// Which packets may be late.
    pub late_kinds: &'static [LateKind],
    /// A planted mistake.
    pub bug: Option<Bug>,
}

/// How often each of these events may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Left {
    /// Rebuilds that begin, for whatever reason.
    pub rebuilds: u8,
    /// Deaths of processes.
    pub crashes: u8,
    /// How often Redis loses everything.
    pub losses: u8,
    /// How often Redis restarts with its contents of an earlier moment.
    pub rewinds: u8,
    /// How often the gate gets a coupon too many.
    pub lies: u8,
    /// Packets that may arrive after their sender has stopped waiting for an answer.
    pub late: u8,
    /// Checks of the keeper, with its two reads as separate steps.
    pub looks: u8,
    /// Landings that are rolled back for a reason outside the claim: a lock wait, or another admission of the batch.
    pub rollbacks: u8,
}

/// Coupons of one claim, by their position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    All,
    First,
    Second,
}

/// A request to confirm, which is all or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payment {
    pub claim: u8,
    pub part: Part,
    /// `payment_ref`
    pub reference: u8,
}

/// A request to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancel {
    pub claim: u8,
    pub part: Part,
    pub by: By,
}

/// Who cancels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Cancels held coupons only.
    User,
    /// Cancels held and confirmed coupons.
    Merchant,
}

/// A change by an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Changes the stock by a top-up or a cut.
    Move(i16),
    /// Lifts the ban of this user.
    Lift(u8),
}

/// The contents of a late packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateKind {
    /// `claim.lua`
    Claim,
    /// `settle.lua`
    Settle,
    /// `release.lua`
    Release,
    /// A landing, including COMMIT.
    Landing,
    /// `move.lua`
    Move,
}

impl Bounds {
    /// One claim of one coupon, without faults.
    pub const CALM: Self = Self {
        total: 1,
        limit: 1,
        lapses_allowed: 0,
        retire: false,
        attempts: &[attempt(0, 0, 1)],
        deadlines: 0,
        lapsers: 1,
        payments: &[],
        cancels: &[],
        changes: &[],
        hidden: false,
        resolver: false,
        rebuilders: 0,
        left: Left::NONE,
        late_kinds: &[],
        bug: None,
    };

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) fn users(&self) -> impl Iterator<Item = u8> + use<> {
        let last = self.attempts.iter().map(|attempt| attempt.user).max();
        0..=last.unwrap_or(0)
    }
}

impl Left {
    /// Nothing happens.
    pub const NONE: Self = Self {
        rebuilds: 0,
        crashes: 0,
        losses: 0,
        rewinds: 0,
        lies: 0,
        late: 0,
        looks: 0,
        rollbacks: 0,
    };
}

impl Part {
    pub(super) fn has(self, position: usize) -> bool {
        match self {
            Self::All => true,
            Self::First => position == 0,
            Self::Second => position == 1,
        }
    }
}

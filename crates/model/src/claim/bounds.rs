//! Bounds of a search: the claims, the operator's changes, and the faults that may strike.

use crate::Bug;

/// Most claims. The id of a claim is its index in the list.
pub const ATTEMPTS_MAX: usize = 4;

/// Id of the additional claim that probes quiet states.
pub(super) const SPARE: usize = ATTEMPTS_MAX;

/// Most users.
pub const USERS_MAX: usize = 2;

/// Most client keys, of all users together.
pub(super) const KEYS_MAX: usize = 4;

/// Most movements.
pub(super) const MOVEMENTS_MAX: usize = 3;

/// Most resolvers, and most rebuilders.
pub(super) const WORKERS_MAX: usize = 2;

/// The bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Initial number of coupons.
    pub total: i16,
    /// Limit per user; 0: no limit.
    pub limit: u8,
    /// The claims. Those with the same key are sent in this order, and may be under way together.
    pub attempts: &'static [Attempt],
    /// The operator's changes, in this order.
    pub changes: &'static [Change],
    pub resolvers: usize,
    pub rebuilders: usize,
    /// How many rebuilds begin, for whatever reason.
    pub rebuilds: u8,
    /// How many deaths there are of processes that claim, resolve, rebuild, operate or consume.
    pub crashes: u8,
    /// How often Redis loses everything.
    pub losses: u8,
    /// How often Redis restarts with its contents of an earlier moment.
    pub rewinds: u8,
    /// How often the gate's contents become wrong.
    pub lies: u8,
    /// How many packets may arrive after their sender has stopped waiting for an answer.
    pub late: u8,
    /// How many checks of the keeper are explored, with its two reads as separate steps.
    pub looks: u8,
    /// Which packets may be late.
    pub late_kinds: &'static [LateKind],
    /// Whether the three statements of the reread are separate steps.
    pub reread_in_steps: bool,
    /// A planted mistake.
    pub bug: Option<Bug>,
}

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub user: u8,
    /// The client's key; no two users share one.
    pub key: u8,
    /// Number of coupons.
    pub quantity: u8,
}

/// A change by an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Pauses the template.
    Pause,
    /// Resumes the template.
    Resume,
    /// Ends the template for good.
    End,
    /// Changes the stock by a top-up or a cut.
    Move(i16),
    /// Changes the validity of coupons claimed from now on.
    Validity,
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
    /// `set_state.lua`
    SetState,
}

impl Bounds {
    /// One claim of one coupon, without faults.
    pub const CALM: Self = Self {
        total: 1,
        limit: 1,
        attempts: &[attempt(0, 0, 1)],
        changes: &[],
        resolvers: 0,
        rebuilders: 0,
        rebuilds: 0,
        crashes: 0,
        losses: 0,
        rewinds: 0,
        lies: 0,
        late: 0,
        looks: 0,
        late_kinds: &[],
        reread_in_steps: false,
        bug: None,
    };

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

/// A claim of `user` under `key`.
pub const fn attempt(user: u8, key: u8, quantity: u8) -> Attempt {
    Attempt { user, key, quantity }
}

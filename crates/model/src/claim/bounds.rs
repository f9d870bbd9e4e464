//! What a search explores: who claims what, what the operator does, and which faults may strike.

use crate::Bug;

/// Claims at most; each has the id of its place in the list.
pub const ATTEMPTS_MAX: usize = 4;

/// The id of the claim that a quiet state is tried with, besides those of the search.
pub(super) const SPARE: usize = ATTEMPTS_MAX;

/// Users at most.
pub const USERS_MAX: usize = 2;

/// Client's keys at most, over all users.
pub(super) const KEYS_MAX: usize = 4;

/// Movements at most.
pub(super) const MOVEMENTS_MAX: usize = 3;

/// Resolvers and rebuilders at most, of each.
pub(super) const WORKERS_MAX: usize = 2;

/// The bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Coupons at the beginning.
    pub total: i16,
    /// Limit per user; 0: none.
    pub limit: u8,
    /// The claims; those of one key are sent in this order, and may be under way together.
    pub attempts: &'static [Attempt],
    /// What the operator does, in this order.
    pub changes: &'static [Change],
    /// Resolvers.
    pub resolvers: usize,
    /// Rebuilders.
    pub rebuilders: usize,
    /// How often a rebuild begins, for whatever reason.
    pub rebuilds: u8,
    /// How often a process dies: one that claims, resolves, rebuilds, operates or consumes.
    pub crashes: u8,
    /// How often Redis forgets everything.
    pub losses: u8,
    /// How often Redis starts again with what it held at an earlier moment.
    pub rewinds: u8,
    /// How often the gate comes to hold something that nobody wrote.
    pub lies: u8,
    /// How often a packet stays in the network after its sender has given it up.
    pub late: u8,
    /// How often the keeper's look is explored: its two reads are steps of their own.
    pub looks: u8,
    /// Which packets may be late.
    pub late_kinds: &'static [LateKind],
    /// Whether the three statements of the reread are steps of their own.
    pub reread_in_steps: bool,
    /// A planted mistake.
    pub bug: Option<Bug>,
}

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// By whom.
    pub user: u8,
    /// The client's key; no two users have one in common.
    pub key: u8,
    /// How many coupons.
    pub quantity: u8,
}

/// What an operator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Holds the template.
    Pause,
    /// Lets it go on.
    Resume,
    /// Ends it for good.
    End,
    /// Tops the stock up, or cuts it.
    Move(i16),
    /// Changes what coupons claimed from now on are worth: from when until when.
    Validity,
}

/// What a late packet may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateKind {
    /// `claim.lua`
    Claim,
    /// `settle.lua`
    Settle,
    /// `release.lua`
    Release,
    /// A landing, COMMIT included.
    Landing,
    /// `move.lua`
    Move,
    /// `set_state.lua`
    SetState,
}

impl Bounds {
    /// One claim of one coupon, no faults.
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

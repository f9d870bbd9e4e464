//! Bounds of a search: the features that are switched on, the claims, the changes, and the faults that may strike.

use coupon::{AcceptAfter, ClaimMode};

pub use super::holds::bounds::{By, Cancel, Part, Payment};
use crate::Bug;

/// Most claims. The id of a claim is its index in the list.
pub const ATTEMPTS_MAX: usize = 4;

/// Id of the additional claim that probes quiet states.
pub(super) const SPARE: usize = ATTEMPTS_MAX;

/// Number of ids.
pub const IDS: usize = ATTEMPTS_MAX + 1;

/// Most users.
pub const USERS_MAX: usize = 3;

/// Most client keys, of all users together.
pub(super) const KEYS_MAX: usize = 4;

/// Most coupons of one claim.
pub const COUPONS_MAX: usize = 2;

/// Most payments, and most cancellations.
pub(super) const CALLS_MAX: usize = 2;

/// Most movements.
pub(super) const MOVEMENTS_MAX: usize = 4;

/// Most workers of each kind.
pub(super) const WORKERS_MAX: usize = 2;

/// Most apis that refuse from memory.
pub(super) const APIS_MAX: usize = 2;

/// Most messages in the partition. Publications beyond it are not explored.
pub(super) const MESSAGES_MAX: usize = 10;

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
    pub left: Left,
    /// Which packets may be late.
    pub late_kinds: &'static [LateKind],
    /// Whether a request may pause before it calls the gate.
    pub pauses: bool,
    /// Whether the three statements of the reread are separate steps.
    pub reread_in_steps: bool,
    /// Whether direct landings, reads of a rebuild, and deliveries to the gate take few steps. Bounds of direct claims
    /// and of holds explore them in full.
    pub coarse: bool,
    /// Initial mode of the template.
    pub mode: ClaimMode,
    pub accept_after: AcceptAfter,
    pub relays: usize,
    pub landers: usize,
    /// Whether coupons are held until they are paid for.
    pub held: bool,
    /// Lapses after which a user is banned; 0: never.
    pub lapses_allowed: u8,
    /// Whether returned coupons are retired instead of sold again.
    pub retire: bool,
    /// Number of expiry-workers. After a rebalance two of them may drain the same shard.
    pub lapsers: usize,
    /// Requests to confirm. Those with the same reference are copies of one request.
    pub payments: &'static [Payment],
    /// Requests to cancel.
    pub cancels: &'static [Cancel],
    /// Whether a movement's message may come before the movement is visible in MySQL.
    pub hidden: bool,
    /// Whether the old primary of a failover takes commits for a while.
    pub two_primaries: bool,
    /// Whether the operator pauses the template at the gate once.
    pub halts: bool,
    /// Number of apis that refuse from memory. Without them time does not pass.
    pub apis: usize,
    /// A planted mistake.
    pub bug: Option<Bug>,
}

/// How many steps or faults of each kind there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Left {
    /// Rebuilds that begin, for whatever reason.
    pub rebuilds: u8,
    /// Deaths of processes.
    pub crashes: u8,
    /// How often Redis loses everything.
    pub losses: u8,
    /// How often Redis goes back to the contents of its replica or its disk.
    pub rewinds: u8,
    /// How often the gate's contents become wrong.
    pub lies: u8,
    /// Packets that may arrive after their sender has stopped waiting for an answer.
    pub late: u8,
    /// Checks of the keeper, with their two reads as separate steps.
    pub checks: u8,
    /// Landings that are rolled back for a reason outside the claim: a lock wait, or another admission of the batch.
    pub rollbacks: u8,
    /// Holds whose deadline may pass.
    pub deadlines: u8,
    /// Entries that relays read.
    pub reads: u8,
    /// How often the gate does not answer a lander, which goes on without it.
    pub deaf: u8,
    /// How often the broker refuses an entry for good.
    pub refusals: u8,
    /// How often a client asks for its claim's state.
    pub looks: u8,
    /// How often someone looks a claim up under another template, and leaves a fence there.
    pub strangers: u8,
    /// How often the resolver looks for a queued request that is in neither outbox nor topic.
    pub orphans: u8,
    /// How often MySQL fails over to a replica that lacks its newest commits.
    pub failovers: u8,
    /// How often an api forgets the template, because it restarts or learns of a change in another way.
    pub forgets: u8,
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
    /// Pauses the template; accepted claims land.
    Pause,
    /// Pauses the template; accepted claims are rejected.
    PauseReject,
    Resume,
    /// Ends the template for good; accepted claims land.
    End,
    /// Ends the template for good; accepted claims are rejected.
    EndReject,
    /// Changes the stock by a top-up or a cut.
    Move(i16),
    /// Changes the validity of coupons claimed from now on.
    Validity,
    Mode(ClaimMode),
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
    /// `set_state.lua`
    SetState,
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
        checks: 0,
        rollbacks: 0,
        deadlines: 0,
        reads: 0,
        deaf: 0,
        refusals: 0,
        looks: 0,
        strangers: 0,
        orphans: 0,
        failovers: 0,
        forgets: 0,
    };
}

impl Bounds {
    /// One direct claim of one coupon, without faults.
    pub const CALM: Self = Self {
        total: 1,
        limit: 1,
        attempts: &[attempt(0, 0, 1)],
        changes: &[],
        resolvers: 0,
        rebuilders: 0,
        left: Left::NONE,
        late_kinds: &[],
        pauses: true,
        reread_in_steps: false,
        coarse: false,
        mode: ClaimMode::Direct,
        accept_after: AcceptAfter::Topic,
        relays: 0,
        landers: 0,
        held: false,
        lapses_allowed: 0,
        retire: false,
        lapsers: 0,
        payments: &[],
        cancels: &[],
        hidden: false,
        two_primaries: false,
        halts: false,
        apis: 0,
        bug: None,
    };

    /// One queued claim, accepted after the topic.
    pub const QUEUED: Self = Self {
        mode: ClaimMode::Queued,
        relays: 1,
        landers: 1,
        rebuilders: 1,
        pauses: false,
        coarse: true,
        ..Self::CALM
    };

    /// One claim of a coupon that is held.
    pub const HELD: Self = Self { held: true, lapsers: 1, pauses: false, ..Self::CALM };

    /// One user, and an api that may refuse from memory.
    pub const REFUSING: Self =
        Self { apis: 1, rebuilders: 1, pauses: false, coarse: true, ..Self::CALM };

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) fn users(&self) -> impl Iterator<Item = u8> + use<> {
        let last = self.attempts.iter().map(|attempt| attempt.user).max();
        0..=last.unwrap_or(0)
    }

    /// Returns whether the template may ever queue claims.
    pub(super) fn queues(&self) -> bool {
        let queues =
            |change: &Change| matches!(change, Change::Mode(mode) if *mode != ClaimMode::Direct);
        self.mode != ClaimMode::Direct || self.changes.iter().any(queues)
    }

    /// Returns whether the stock may change apart from landings.
    pub(super) fn moves(&self) -> bool {
        self.held || self.changes.iter().any(|change| matches!(change, Change::Move(_)))
    }
}

/// A claim of `user` under `key`.
pub const fn attempt(user: u8, key: u8, quantity: u8) -> Attempt {
    Attempt { user, key, quantity }
}

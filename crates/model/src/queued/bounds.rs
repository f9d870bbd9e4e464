//! Bounds of a search: the claims, the operator's changes, and the faults that may strike.

use crate::Bug;

/// Most claims. The id of a claim is its index in the list.
pub const ATTEMPTS_MAX: usize = 4;

/// Id of the additional claim that probes quiet states.
pub(super) const SPARE: usize = ATTEMPTS_MAX;

/// All ids.
pub(super) const IDS: usize = ATTEMPTS_MAX + 1;

/// Most users.
pub const USERS_MAX: usize = 3;

/// Most movements.
pub(super) const MOVEMENTS_MAX: usize = 3;

/// Most relays, landers and rebuilders.
pub(super) const WORKERS_MAX: usize = 2;

/// Most messages in the partition. Publications beyond it are not explored.
pub(super) const MESSAGES_MAX: usize = 10;

/// The bounds of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Initial number of coupons.
    pub total: i16,
    /// Limit per user, at least 1.
    pub limit: u8,
    /// Initial mode of the template.
    pub mode: Mode,
    pub accept_after: AcceptAfter,
    /// The claims of one coupon each. Those with the same key are sent in this order, and may be under way together.
    pub attempts: &'static [Attempt],
    /// The operator's changes, in this order.
    pub changes: &'static [Change],
    pub relays: usize,
    pub landers: usize,
    pub rebuilders: usize,
    pub left: Left,
    /// A planted mistake.
    pub bug: Option<Bug>,
}

/// How many steps or faults of each kind there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Left {
    /// Rebuilds, for whatever reason.
    pub rebuilds: u8,
    /// Entries that relays read.
    pub reads: u8,
    /// Deaths of processes.
    pub crashes: u8,
    /// How often Redis loses everything.
    pub losses: u8,
    /// How often Redis goes back to the contents of its replica or its disk.
    pub rewinds: u8,
    /// How often the gate's contents become wrong.
    pub lies: u8,
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
}

/// A request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    pub user: u8,
    /// The client's key; no two users share one.
    pub key: u8,
}

/// `claim_mode` of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A claim lands before its answer.
    Direct,
    /// A claim is answered 202, and lands behind a queue.
    Queued,
    /// Either; the api says with each claim whether its lander is behind.
    Spill,
}

/// `accept_after` of a template: who must have a claim before it is answered 202.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptAfter {
    /// The gate alone.
    Gate,
    /// A replica of the gate.
    Replica,
    /// The topic.
    Topic,
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
    Mode(Mode),
}

impl Left {
    /// Nothing.
    pub const NONE: Self = Self {
        rebuilds: 0,
        reads: 0,
        crashes: 0,
        losses: 0,
        rewinds: 0,
        lies: 0,
        deaf: 0,
        refusals: 0,
        looks: 0,
        strangers: 0,
        orphans: 0,
    };
}

impl Bounds {
    /// One queued claim of one coupon, accepted after the topic, without faults.
    pub const CALM: Self = Self {
        total: 1,
        limit: 1,
        mode: Mode::Queued,
        accept_after: AcceptAfter::Topic,
        attempts: &[attempt(0, 0)],
        changes: &[],
        relays: 1,
        landers: 1,
        rebuilders: 1,
        left: Left::NONE,
        bug: None,
    };

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

/// A claim of `user` under `key`.
pub const fn attempt(user: u8, key: u8) -> Attempt {
    Attempt { user, key }
}

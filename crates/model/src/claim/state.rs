//! A state of the whole protocol.

use coupon::{ClaimMode, Open, TemplateState};

use super::{
    bounds::{ATTEMPTS_MAX, IDS, Left, SPARE, USERS_MAX, WORKERS_MAX},
    promise::Promise,
    truth::{Landing, Lapses, Truth},
};
pub use super::{
    failover::Servers,
    halt::{Carrier, Halt},
    holds::state::{Cancel, Holds, Payment},
    queue::state::{Lander, Looker, Orphan, Outcome, Queue, Relay},
    sold_out::Memory,
};
use crate::gate::{Gate, Message, Numbers};

/// The gate of a search. A user has at most as many requests as there are claims.
pub type BoundGate = Gate<USERS_MAX, ATTEMPTS_MAX>;

/// The complete state at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// MySQL.
    pub truth: Truth,
    /// The gate's Redis.
    pub gate: BoundGate,
    /// The contents of Redis's replica, or of its disk.
    pub copy: Option<BoundGate>,
    /// The claims, by id; the last one probes quiet states.
    pub walks: [Walk; IDS],
    pub resolvers: [Resolver; WORKERS_MAX],
    pub rebuilders: [Rebuilder; WORKERS_MAX],
    pub operator: Operator,
    /// The last movement that the consumer has sent to the gate.
    pub consumed: u8,
    /// What the keeper's check has read so far.
    pub check: Option<Check>,
    /// The packet in the network.
    pub packet: Option<Packet>,
    /// The latest epoch that was reported wrong.
    pub wrong: u8,
    /// The epoch in which the gate's contents were made wrong.
    pub lied: u8,
    pub servers: Servers,
    pub queue: Queue,
    pub holds: Holds,
    pub memory: Memory,
    pub halt: Halt,
    pub left: Left,
    /// A promise that the last step broke.
    pub broken: Option<Promise>,
}

/// One claim, from the gate to its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Walk {
    /// Its next step.
    pub at: At,
    /// The epoch that its process knows.
    pub known: u8,
    /// The admission; of a queued claim perhaps that of another request with the same key.
    pub message: Message,
    /// The last change of validity in the template as the process knows it; initially none.
    pub terms: u8,
    /// How often it was admitted.
    pub admissions: u8,
    /// Results of the reread's earlier statements.
    pub seen: Seen,
    /// Only with the fence on the client's key: the fence to take over, as id + 1.
    pub over: u8,
    /// Queued: the run of Redis in which the gate answered.
    pub run: u8,
    /// Queued: whether its `claim.lua` wrote anything, so that WAIT waits for it.
    pub wrote: bool,
    /// Ticks until no api refuses its user from memory any more.
    pub wait: u8,
}

/// The next step of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum At {
    /// The client has not sent it.
    #[default]
    Unsent,
    /// Calls the gate; `true`: MySQL had no answer under its key.
    Gate(bool),
    /// Looks up the key in MySQL, because the refusal may not be final.
    Lookup,
    /// Looks up the key in MySQL before it is queued.
    LookFirst,
    /// Queued; looks up the key once more before 202, since another request with it may have ended meanwhile.
    LookAgain,
    /// Publishes the entry itself.
    Publish,
    /// `published.lua`
    Confirm,
    /// WAIT
    Wait,
    /// Lands.
    Land,
    /// Was rolled back; rereads with the first, second or third statement.
    Reread {
        statement: u8,
        /// Whether the claim itself was the reason.
        own_reason: bool,
    },
    /// Fences its admission.
    Fence(Ending),
    /// Releases the admission.
    Release(Ending),
    /// Has landed; the gate has yet to be notified.
    Settle,
    /// Its answer, 201 or 202, waits until no api refuses its user from memory.
    HeldBack,
    /// Was answered 201, 202, or with the stored answer of its key. Kept only where a promise depends on it.
    Answered,
    /// Was answered a definite refusal.
    Refused,
    /// Ended in any other way, or was never answered.
    Done,
}

/// How a claim that gave up its admission is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// With 409.
    Refused,
    /// With the stored answer.
    Answered,
    /// With 503.
    Retryable,
}

/// What a reread has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seen {
    /// The epoch that guards the landing.
    pub epoch: u8,
    /// `template_stock.open`
    pub open: Option<Open>,
    /// `template_stock.stock`
    pub stock: i16,
    /// The taken numbers; of a direct claim only its own.
    pub taken: Numbers,
    /// The admission that landed or was rejected under the key, as id + 1.
    pub answered: u8,
    /// Whether that one landed.
    pub has_landed: bool,
    /// Whether the admission is fenced.
    pub fenced: bool,
}

/// The resolver, which ends admissions whose process died or hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Resolver {
    #[default]
    Idle,
    /// Has read an entry in flight, at a gate of this epoch.
    Fence { id: u8, epoch: u8 },
    /// Has fenced it.
    Release { id: u8, epoch: u8 },
    /// Has found it landed.
    Settle { id: u8, epoch: u8 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rebuilder {
    /// Its next step.
    pub next: RebuildStep,
    pub epoch: u8,
    /// The history of the server that it is connected to.
    pub history: u8,
    /// The partition's end, as noted.
    pub end: u8,
    /// Only with [`crate::Bug::NeverQueuedAskedAtRaise`]: the answer.
    pub never_queued: bool,
    /// Version, state and mode of the template, as read.
    pub template: Option<(u8, TemplateState, ClaimMode)>,
    /// m₀: the last movement before the users were read.
    pub first: u8,
    /// m₁: the last movement that the stock contains.
    pub movement: u8,
    /// The stock, as read with m₁.
    pub stock: i16,
    /// The users, as read.
    pub read: [ReadUser; USERS_MAX],
}

/// What a rebuild reads about a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ReadUser {
    /// Whether the user has an answer in MySQL.
    pub known: bool,
    pub taken: Numbers,
    pub lapses: Lapses,
}

/// The steps of a rebuild, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RebuildStep {
    /// Only with [`crate::Bug::FirstMovementReadEarly`]: raise MySQL's epoch after m₀ was read.
    Raise,
    /// Raise MySQL's epoch, if there is a reason.
    #[default]
    NextEpoch,
    /// `begin.lua`
    Begin,
    /// Wait until the outbox is empty; skip the drain if the template was never queued.
    Empty,
    /// Note the partition's end.
    NoteEnd,
    /// Wait until the committed offset has reached it.
    Drain,
    /// `set queued_epoch = E where epoch = E`; after the end: close.
    SetQueued,
    /// `begin.lua` once more, if the queue was drained: the gate may have been lost meanwhile.
    BeginAgain,
    /// Read the template.
    ReadTemplate,
    /// Read m₀.
    ReadFirst,
    /// Read this user, or, without holds, all users.
    ReadUser(u8),
    /// Read epoch, stock and m₁ in one statement, and give up if the epoch differs.
    ReadStock,
    /// Only with [`crate::Bug::StockAndMovementApart`].
    ReadMovement,
    /// `load.lua`, with the coupons that were returned meanwhile.
    Load,
    /// `open.lua`
    Open,
    /// `move.lua`, for movements made while it was loading.
    CatchUp,
    /// `unload.lua`, after the close.
    Unload,
}

/// The operator's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Operator {
    /// Number of changes that were committed or refused.
    pub committed: u8,
    /// What must still be sent to the gate.
    pub tell: Tell,
    /// Whether a pause at the gate was looked for before the next change, and whether it was answered by then.
    pub looked: Option<bool>,
    /// Whether a change was lost on its way, with its sender or its packet, so that only the keeper updates the gate.
    pub send_lost: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tell {
    #[default]
    Nothing,
    State,
    /// The movement of this number, once it is visible.
    Movement(u8),
}

/// The first half of a check of the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Check {
    /// Has read MySQL's stock, to find a gate that holds too much.
    Stock(Account),
    /// Has read the gate's account, to find a gate that holds too little.
    Gate(Account),
}

/// A stock at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Account {
    pub epoch: u8,
    /// The last movement that it contains.
    pub movement: u8,
    /// The stock; for a gate, plus what is in flight.
    pub stock: i16,
}

/// A packet that its sender has given up. Each script carries the epoch that it was sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packet {
    /// `claim.lua`
    Claim { id: u8, epoch: u8 },
    /// `settle.lua`
    Settle { id: u8, epoch: u8 },
    /// `release.lua`
    Release { id: u8, epoch: u8 },
    /// A landing, including COMMIT.
    Landing(Landing),
    /// `move.lua`
    Move { seq: u8, epoch: u8 },
    /// `set_state.lua`
    SetState { state: TemplateState, version: u8, epoch: u8 },
}

impl Walk {
    /// Returns whether the claim was sent and has not ended.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.at, At::Unsent | At::Answered | At::Refused | At::Done)
    }
}

impl State {
    pub(super) fn walk(&self, id: u8) -> &Walk {
        &self.walks[usize::from(id)]
    }

    pub(super) fn walk_mut(&mut self, id: u8) -> &mut Walk {
        &mut self.walks[usize::from(id)]
    }

    /// Returns the state with this next step of one claim.
    pub(super) fn with_walk(&self, id: u8, at: At) -> Self {
        let mut with = *self;
        with.walk_mut(id).at = at;
        with
    }

    /// Ends one claim. Its other fields do not matter any more, nor how it was answered, if it was not refused.
    pub(super) fn end(&mut self, id: u8, at: At) {
        let kept = self.memory.is_used() || usize::from(id) == SPARE || at != At::Answered;
        let at = if kept { at } else { At::Done };
        *self.walk_mut(id) = Walk { at, ..Walk::default() };
    }

    pub(super) fn is_rebuilding(&self) -> bool {
        self.rebuilders.iter().any(|rebuilder| rebuilder.next != RebuildStep::NextEpoch)
    }
}

//! A state of the whole protocol of queued claims.

use std::fmt;

use super::{
    bounds::{IDS, Left, MESSAGES_MAX, WORKERS_MAX},
    gate::{Entry, Facts, Gate, Message},
    promise::Promise,
    truth::{Outcome, Reason, Truth},
};
use crate::Few;

/// The complete state at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// MySQL.
    pub truth: Truth,
    /// The gate's Redis.
    pub gate: Gate,
    /// The contents of Redis's replica, or of its disk.
    pub replica: Option<Gate>,
    /// The template's partition of `coupon.claims`. Messages before `committed` are blank, since none is read again.
    pub topic: Few<Message, MESSAGES_MAX>,
    /// The lander's committed offset.
    pub committed: u8,
    /// The requests of clients, by the id that they are admitted under; the last one probes quiet states.
    pub walks: [Walk; IDS],
    pub relays: [Relay; WORKERS_MAX],
    pub landers: [Lander; WORKERS_MAX],
    pub rebuilders: [Rebuilder; WORKERS_MAX],
    pub resolver: Resolver,
    pub looker: Looker,
    /// The epoch of each queued claim's receipt; 0: it has none.
    pub receipts: [u8; IDS],
    /// The claims answered 202, by bit.
    pub accepted: u8,
    /// Those of them whose 202 survives every fault so far.
    pub kept: u8,
    /// The claims whose 202 does not hold: the broker refused the entry for good, or the gate had not heard of a
    /// movement when it admitted them.
    pub excused: u8,
    /// The claims that took a coupon when a later one with their key had been answered by the gate: their keys were looked
    /// up first.
    pub overtaken: u8,
    /// What a client with a receipt is told.
    pub told: [Outcome; IDS],
    /// Number of the operator's changes that were committed or refused.
    pub changed: u8,
    /// The latest epoch that was reported wrong.
    pub wrong: u8,
    /// The epoch in which the gate's contents were made wrong.
    pub lied: u8,
    pub left: Left,
    /// A promise that the last step broke.
    pub broken: Option<Promise>,
}

/// One request of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Walk {
    /// Its next step.
    pub at: At,
    /// The admission; perhaps that of another request with the same key.
    pub message: Message,
    /// Run of Redis in which it was answered.
    pub run: u8,
    /// Whether its `claim.lua` wrote anything, so that WAIT waits for it.
    pub wrote: bool,
}

/// The next step of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum At {
    /// Not sent, or met no gate.
    #[default]
    Unsent,
    /// The gate's answer is not final: looks the key up in MySQL.
    Lookup,
    /// The user's entry says to look: looks the key up in MySQL before the claim is queued.
    LookFirst,
    /// The key has no answer in MySQL: asks the gate once more.
    AskLooked,
    /// Queued, and the user's entry says to look: looks the key up once more before 202, since another request with it
    /// may have ended meanwhile.
    LookAgain,
    /// Publishes the entry itself.
    Publish,
    /// `published.lua`
    Confirm,
    /// WAIT
    Wait,
    /// Direct: lands.
    Land,
    /// Direct: `settle.lua`, then 201.
    Settle,
    /// Direct: `release.lua`, then a definite refusal, the stored answer, or 503.
    Release(Ending),
    /// Was answered 202.
    Accepted,
    /// Was answered 201, or with the stored answer of its key.
    Answered,
    /// Was answered a definite refusal.
    Refused,
    /// Was answered 409 in progress or 503, or never.
    Done,
}

/// How a direct claim that gave up its admission is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    Refused,
    Answered,
    Retryable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Relay {
    #[default]
    Idle,
    /// Has read an entry in this run of Redis.
    Publish { entry: Entry, run: u8 },
    /// XACK and XDEL
    Trim { at: u8, run: u8 },
}

/// A lander, and the offset that it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Lander {
    #[default]
    Idle,
    Land(u8, Message),
    /// Was rolled back.
    Reread(u8, Message),
    /// Decided to reject.
    Reject(u8, Message, Reason),
    /// The key was answered under another id.
    Fence(u8, Message),
    Settle(u8, Message),
    Release(u8, Message),
    Commit(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rebuilder {
    /// Its next step.
    pub next: RebuildStep,
    pub epoch: u8,
    /// The partition's end, as noted.
    pub end: u8,
    /// Only with [`crate::Bug::NeverQueuedAskedAtRaise`]: the answer.
    pub never_queued: bool,
    /// What was read from MySQL.
    pub facts: Option<Facts>,
}

/// The steps of a rebuild, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RebuildStep {
    /// Raise MySQL's epoch.
    #[default]
    Raise,
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
    /// Read MySQL, and give up if the epoch differs.
    Read,
    /// `load.lua` and `open.lua`
    Open,
    /// `unload.lua`, after the close.
    Unload,
}

/// The resolver's search for a queued request that is in neither outbox nor topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Resolver {
    #[default]
    Idle,
    /// Not in the outbox, and the partition's end was noted.
    Wait { id: u8, epoch: u8, end: u8 },
    /// Only with [`crate::Bug::EndNotedBeforeOutbox`].
    OutboxNext { id: u8, epoch: u8, end: u8 },
}

/// A `GET` of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Looker {
    #[default]
    Idle,
    /// Has read `queued_epoch`.
    Epoch { id: u8, queued: u8 },
    /// Only with [`crate::Bug::RowReadBeforeEpoch`]: has found no row.
    NoRow { id: u8 },
}

impl Walk {
    /// Returns whether its process is at work.
    pub fn is_under_way(&self) -> bool {
        use At::{Accepted, Answered, Done, Refused, Unsent};
        !matches!(self.at, Unsent | Accepted | Answered | Refused | Done)
    }
}

impl State {
    /// Ends one request.
    pub(super) fn end(&mut self, id: u8, at: At) {
        self.walks[usize::from(id)] = Walk { at, ..Walk::default() };
    }

    /// Returns the state with this next step of one request.
    pub(super) fn with_walk(&self, id: u8, at: At) -> Self {
        let mut with = *self;
        with.walks[usize::from(id)].at = at;
        with
    }

    /// Appends a message, if the explored partition has room.
    pub(super) fn publish(&mut self, message: Message) -> bool {
        let room = self.topic.as_slice().len() < MESSAGES_MAX;
        if room {
            self.topic.push(message);
        }
        room
    }

    /// The partition's end.
    pub(super) fn topic_end(&self) -> u8 {
        self.topic.as_slice().len() as u8
    }

    /// Commits the offset after `at`.
    pub(super) fn commit(&mut self, at: u8) {
        self.committed = self.committed.max(at + 1);
        let consumed = usize::from(self.committed);
        self.topic.as_mut_slice()[..consumed].fill(Message::default());
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Truth { epoch, queued_epoch, stock, total, open, state, rows, .. } = self.truth;
        writeln!(f, "MySQL: epoch {epoch}, queued {queued_epoch}, stock {stock} of {total}")?;
        writeln!(f, "       {state:?}, open for {open:?}; rows {rows:?}")?;
        writeln!(f, "topic: {:?}, committed {}", self.topic.as_slice(), self.committed)?;
        writeln!(f, "told:  {:?}, 202 {:#b}, kept {:#b}", self.told, self.accepted, self.kept)?;
        let Gate { run, meta, users, requests, outbox, .. } = self.gate;
        writeln!(f, "gate:  run {run}, {meta:?}")?;
        writeln!(f, "       {users:?}, {requests:?}")?;
        write!(f, "       outbox {:?}", outbox.as_slice())
    }
}

//! A state of the whole protocol of holds.

use std::fmt;

use super::{
    bounds::{CALLS_MAX, IDS, Left, USERS_MAX, WORKERS_MAX},
    gate::{Gate, Meta},
    ledger::{Lapses, Set},
    promise::Promise,
    truth::{Landing, Truth},
};
use crate::gate::Numbers;

/// The complete state at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// MySQL.
    pub truth: Truth,
    pub gate: Gate,
    /// The contents that Redis returns to in a rewind.
    pub snapshot: Option<Gate>,
    /// The claims, by id; the last one probes quiet states.
    pub walks: [Walk; IDS],
    pub payments: [Payment; CALLS_MAX],
    pub cancels: [Cancel; CALLS_MAX],
    /// What each expiry-worker has read and is about to lapse.
    pub lapsers: [Set; WORKERS_MAX],
    pub resolver: Resolver,
    pub rebuilders: [Rebuilder; WORKERS_MAX],
    pub operator: Operator,
    /// The last movement that the consumer has sent to the gate.
    pub consumed: u8,
    /// What the keeper's check has read so far.
    pub look: Option<Look>,
    /// The packet in the network.
    pub packet: Option<Packet>,
    /// The latest epoch that was reported wrong.
    pub wrong: u8,
    /// The epoch in which the gate got a coupon too many.
    pub lied: u8,
    /// How many more deadlines may pass.
    pub deadlines: u8,
    pub left: Left,
    /// A promise that the last step broke.
    pub broken: Option<Promise>,
}

/// One claim, from the gate to its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Walk {
    /// Its next step.
    pub at: At,
    /// The admission's epoch.
    pub epoch: u8,
    /// The admission's numbers.
    pub numbers: Numbers,
    /// How often it was admitted.
    pub admissions: u8,
}

/// The next step of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum At {
    /// The client has not sent it.
    #[default]
    Unsent,
    /// Calls the gate again.
    Gate,
    /// Looks up the key in MySQL, because the refusal may not be final.
    Lookup,
    /// Lands.
    Land,
    /// Was rolled back, and rereads. `own_reason`: a duplicate or the guard rolled it back, not a reason outside the
    /// claim.
    Reread { own_reason: bool },
    /// Fences its admission.
    Fence(Ending),
    /// Releases the admission.
    Release(Ending),
    /// Is answered 201; the gate has yet to be notified.
    Settle,
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
    /// With the stored answer, or 503.
    Other,
}

/// A request to confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Payment {
    /// Not sent, or sent without an answer; it may be sent again.
    #[default]
    Unsent,
    /// Only with [`crate::Bug::ConfirmWithoutCompare`]: has read that all coupons are held.
    Read,
    /// Answered OK.
    Paid,
    /// Answered that the hold has lapsed or was cancelled.
    Refused,
}

/// A request to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Cancel {
    #[default]
    Unsent,
    /// Has read the ids of the coupons.
    Read(Set),
    /// Its movement has this number; sends it to the gate once it is visible.
    Tell(u8),
    /// Answered, or dead.
    Done,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rebuilder {
    /// Its next step.
    pub next: RebuildStep,
    pub epoch: u8,
    /// m₀: the last movement before the pages were read.
    pub first: u8,
    /// m₁: the last movement that the stock contains.
    pub movement: u8,
    /// The stock, as read with m₁.
    pub stock: i16,
    /// The pages.
    pub read: [ReadUser; USERS_MAX],
}

/// What a page says about a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ReadUser {
    /// Whether the user has a coupon, in whatever state.
    pub had_coupon: bool,
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
    /// Read m₀.
    ReadFirst,
    /// Read the page of this user.
    ReadUser(u8),
    /// Read epoch, stock and m₁ in one statement, and give up if the epoch differs.
    ReadStock,
    /// `load.lua`, with the coupons that were returned meanwhile.
    Load,
    /// `open.lua`
    Open,
    /// `move.lua`, for movements made while it was loading.
    CatchUp,
}

/// The operator's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Operator {
    /// Number of changes that were committed or refused.
    pub committed: u8,
    /// The movement to send to the gate; 0: none.
    pub tell: u8,
}

/// The first half of a check of the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Look {
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

/// A packet that its sender has given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packet {
    /// `claim.lua`, with the epoch that it was sent with.
    Claim { id: u8, epoch: u8 },
    /// `settle.lua`, likewise.
    Settle { id: u8, epoch: u8 },
    /// `release.lua`, likewise.
    Release { id: u8, epoch: u8 },
    /// A landing, including COMMIT.
    Landing(Landing),
    /// `move.lua`, likewise.
    Move { seq: u8, epoch: u8 },
}

impl Walk {
    /// Returns whether the claim was sent and has not ended.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.at, At::Unsent | At::Refused | At::Done)
    }

    /// Returns an ended walk. Its other fields do not matter any more.
    pub(super) fn ended(at: At) -> Self {
        Self { at, ..Self::default() }
    }
}

impl State {
    /// Returns the state with this next step of one claim.
    pub(super) fn with_walk(&self, id: u8, at: At) -> Self {
        let mut with = *self;
        with.walks[usize::from(id)].at = at;
        with
    }

    /// Ends one claim.
    pub(super) fn end(&mut self, id: u8, at: At) {
        self.walks[usize::from(id)] = Walk::ended(at);
    }

    /// Returns the epoch of the gate; 0 if there is none.
    pub(super) fn gate_epoch(&self) -> u8 {
        self.gate.meta.map_or(0, |meta| meta.epoch)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Truth { total, stock, epoch, movement, lapses, hidden, .. } = self.truth;
        writeln!(f, "MySQL: epoch {epoch}, stock {stock} of {total}, lapses {lapses:?}")?;
        for (id, coupons) in self.truth.landed() {
            writeln!(f, "       claim {id}: {coupons:?}")?;
        }
        for seq in 1..=movement {
            writeln!(f, "       movement {seq}: {:?}", self.truth.message(seq))?;
        }
        if let Some(hidden) = hidden {
            writeln!(f, "       not yet visible: {hidden:?}")?;
        }
        let Some(meta) = self.gate.meta else { return write!(f, "gate:  absent") };
        let Meta { phase, epoch, users, stock, movement, run } = meta;
        writeln!(f, "gate:  {phase:?}, epoch {epoch}, stock {stock}, movement {movement}")?;
        write!(f, "       in flight {:?}, {users} users", self.gate.inflight)?;
        for (user, entry) in self.gate.users.iter().enumerate() {
            if let Some(entry) = entry {
                write!(f, "\n       user {user}: {entry:?}")?;
            }
        }
        if run != self.gate.run { write!(f, "\n       of another run") } else { Ok(()) }
    }
}

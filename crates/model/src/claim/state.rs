//! A state of the whole claim protocol.

use std::fmt;

use coupon::TemplateState;

use super::{
    bounds::{ATTEMPTS_MAX, USERS_MAX, WORKERS_MAX},
    promise::Promise,
    truth::{Landing, Row, Truth},
};
use crate::gate::{Entry, Gate, Meta, Numbers, OpenFacts};

/// The gate of a search. A user has at most as many requests as there are claims.
pub type BoundGate = Gate<USERS_MAX, ATTEMPTS_MAX>;

/// The complete state at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// MySQL.
    pub truth: Truth,
    /// The gate's Redis.
    pub gate: BoundGate,
    /// The contents that Redis returns to in a rewind.
    pub snapshot: Option<BoundGate>,
    /// The claims, by id; the last one probes quiet states.
    pub walks: [Walk; ATTEMPTS_MAX + 1],
    pub resolvers: [Resolver; WORKERS_MAX],
    pub rebuilders: [Rebuilder; WORKERS_MAX],
    /// Progress of the operator's changes.
    pub operator: Operator,
    /// The last movement that the consumer has sent to the gate.
    pub consumed: u8,
    /// What the keeper's check has read so far.
    pub look: Option<Look>,
    /// The packet in the network.
    pub packet: Option<Packet>,
    /// The latest epoch that was reported wrong.
    pub wrong: u8,
    /// The epoch in which the gate's contents were made wrong.
    pub lied: u8,
    pub left: Left,
    /// A promise that the last step broke.
    pub broken: Option<Promise>,
}

/// One claim, from the gate to its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Walk {
    /// Its next step.
    pub at: At,
    /// The epoch that its process knows.
    pub known: u8,
    /// The admission's epoch.
    pub epoch: u8,
    /// The admission's numbers.
    pub numbers: Numbers,
    /// The last change of validity in the template as the process knows it; initially none.
    pub terms: u8,
    /// How often it was admitted.
    pub admissions: u8,
    /// Results of the reread's earlier statements.
    pub seen: Seen,
    /// Only with the fence on the client's key: the fence to take over, as id + 1.
    pub over: u8,
}

/// The next step of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum At {
    /// The client has not sent it.
    #[default]
    Unsent,
    /// Calls the gate.
    Gate,
    /// Looks up the key in MySQL, because the refusal may not be final.
    Lookup,
    /// Lands.
    Land,
    /// Was rolled back; rereads with the first, second or third statement.
    Reread(u8),
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

/// Results of the reread's earlier statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seen {
    /// `template_stock.epoch`.
    pub epoch: u8,
    /// `template_stock.open`.
    pub open: bool,
    /// `template_stock.stock`.
    pub stock: i16,
    /// Whether one of the numbers is taken.
    pub number_taken: bool,
    /// Only if the claim rows are read first: the admission that landed under the key, as id + 1.
    pub landed: u8,
    /// Only then: whether the admission is fenced.
    pub fenced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Resolver {
    #[default]
    Idle,
    /// Has read an entry in flight.
    Fence {
        id: u8,
        /// The gate's epoch at that time.
        epoch: u8,
    },
    /// Has fenced it.
    Release {
        id: u8,
        /// The gate's epoch at that time.
        epoch: u8,
    },
    /// Has found it landed.
    Settle {
        id: u8,
        /// The gate's epoch at that time.
        epoch: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rebuilder {
    /// Its next step.
    pub next: RebuildStep,
    pub epoch: u8,
    /// Version and state of the template, as read.
    pub template: Option<(u8, TemplateState)>,
    /// The stock, as read.
    pub stock: i16,
    /// The last movement, as read.
    pub movement: u8,
    /// The taken numbers, as read.
    pub taken: [Numbers; USERS_MAX],
}

/// The steps of a rebuild, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RebuildStep {
    /// Raise MySQL's epoch, if there is a reason.
    #[default]
    NextEpoch,
    /// `begin.lua`
    Begin,
    /// Read the template.
    ReadTemplate,
    /// Read stock and last movement, and give up if the epoch differs.
    ReadStock,
    /// Only with [`crate::Bug::StockAndMovementApart`].
    ReadMovement,
    /// Read the taken numbers.
    ReadNumbers,
    /// `load.lua`
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
    /// Whether the last one must still be sent to the gate.
    pub must_send: bool,
    /// Whether a change was lost on its way, with its sender or its packet, so that only the keeper updates the gate.
    pub send_lost: bool,
}

/// The first half of the keeper's check, which reads MySQL before the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Look {
    pub epoch: u8,
    pub stock: i16,
    pub movement: u8,
}

/// A packet that its sender has given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packet {
    /// `claim.lua`
    Claim {
        id: u8,
        /// The epoch that it was sent with.
        epoch: u8,
    },
    /// `settle.lua`
    Settle {
        id: u8,
        /// The epoch that it was sent with.
        epoch: u8,
    },
    /// `release.lua`
    Release {
        id: u8,
        /// The epoch that it was sent with.
        epoch: u8,
    },
    /// A landing, including COMMIT.
    Landing(Landing),
    /// `move.lua`
    Move {
        /// Number of the movement.
        seq: u8,
        /// The epoch that it was sent with.
        epoch: u8,
    },
    /// `set_state.lua`
    SetState {
        state: TemplateState,
        version: u8,
        /// The epoch that it was sent with.
        epoch: u8,
    },
}

/// How many faults of each kind may still strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Left {
    pub rebuilds: u8,
    /// Deaths of processes.
    pub crashes: u8,
    pub losses: u8,
    pub rewinds: u8,
    pub lies: u8,
    pub late: u8,
    /// Checks of the keeper that are explored.
    pub looks: u8,
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
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Truth { total, stock, epoch, version, state, movement, .. } = self.truth;
        let fenced = (0..).zip(self.truth.claims).filter(|(_, row)| *row == Row::Void);
        let fenced: Vec<u8> = fenced.map(|(id, _)| id).collect();
        let landed: Vec<(u8, Numbers)> = self.truth.landed().collect();
        writeln!(f, "MySQL: epoch {epoch}, stock {stock} of {total}, {state:?} v{version}")?;
        writeln!(f, "       movement {movement}; landed {landed:?}, fenced {fenced:?}")?;
        let Some(meta) = self.gate.meta else { return write!(f, "gate:  absent") };
        let Meta { phase, epoch, users, facts, run } = meta;
        let OpenFacts { version, state, stock, movement, .. } = facts;
        writeln!(f, "gate:  {phase:?}, epoch {epoch}, stock {stock}, {state:?} v{version}")?;
        write!(f, "       movement {movement}; in flight {:?}, {users} users", self.gate.inflight)?;
        for (user, entry) in self.gate.users.iter().enumerate() {
            let Some(Entry { look_in_mysql, taken, floor, requests }) = entry else { continue };
            write!(f, "\n       user {user}: {taken:?}, look in MySQL: {look_in_mysql}, ")?;
            write!(f, "none below {floor}, ")?;
            f.debug_list().entries(requests.as_slice()).finish()?;
        }
        if run != self.gate.run { write!(f, "\n       of another run") } else { Ok(()) }
    }
}

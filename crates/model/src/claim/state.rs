//! A state of the whole protocol.

use std::fmt;

use coupon::TemplateState;

use super::{
    bounds::{ATTEMPTS_MAX, USERS_MAX, WORKERS_MAX},
    promise::Promise,
    truth::{Landing, Row, Truth},
};
use crate::gate::{Entry, Gate, Meta, Numbers, OpenFacts};

/// The gate of a search: a user has at most as many requests as there are claims.
pub type BoundGate = Gate<USERS_MAX, ATTEMPTS_MAX>;

/// Everything, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    /// MySQL.
    pub truth: Truth,
    /// The gate's Redis.
    pub gate: BoundGate,
    /// What it comes back with when it is rewound.
    pub snapshot: Option<BoundGate>,
    /// The claims, by id; the last one tries quiet states.
    pub walks: [Walk; ATTEMPTS_MAX + 1],
    /// The resolvers.
    pub resolvers: [Resolver; WORKERS_MAX],
    /// The rebuilders.
    pub rebuilders: [Rebuilder; WORKERS_MAX],
    /// How many changes were committed, and whether the gate was told the last one.
    pub operator: Operator,
    /// Up to which movement the consumer has told the gate.
    pub consumed: u8,
    /// What the keeper's look has read so far.
    pub look: Option<Look>,
    /// The packet in the network.
    pub packet: Option<Packet>,
    /// The latest epoch that was reported wrong.
    pub wrong: u8,
    /// The epoch in which the gate was made to lie.
    pub lied: u8,
    /// Faults that may still strike.
    pub left: Left,
    /// A promise that the last step broke.
    pub broken: Option<Promise>,
}

/// One claim, from the gate to its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Walk {
    /// What it does next.
    pub at: At,
    /// The epoch that its process knows.
    pub known: u8,
    /// The admission's epoch.
    pub epoch: u8,
    /// The admission's numbers.
    pub numbers: Numbers,
    /// The last change of validity in the template it has; at first its process has heard of none.
    pub terms: u8,
    /// How often it passed the gate.
    pub admissions: u8,
    /// What the reread's earlier statements saw.
    pub seen: Seen,
    /// Only with the fence on the client's key: the fence to take over, as id + 1.
    pub over: u8,
}

/// What a claim does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum At {
    /// The client has not sent it.
    #[default]
    Unsent,
    /// Asks the gate.
    Gate,
    /// Looks the key up, because the refusal may not be final.
    Lookup,
    /// Lands.
    Land,
    /// Was rolled back: rereads the first, second or third statement.
    Reread(u8),
    /// Places its own fence.
    Fence(Ending),
    /// Releases the admission.
    Release(Ending),
    /// Is answered 201; the gate is to be told.
    Settle,
    /// Was answered a definite refusal.
    Refused,
    /// Was answered something else, or never.
    Done,
}

/// How a claim ends that gave its admission up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// With 409.
    Refused,
    /// With the stored answer, or 503.
    Other,
}

/// What the reread's earlier statements saw.
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
    /// Only where the claim rows are read first: the admission that landed under the key, as id + 1.
    pub landed: u8,
    /// Only there: whether the admission's fence stands.
    pub fenced: bool,
}

/// A resolver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Resolver {
    /// Has nothing to do.
    #[default]
    Idle,
    /// Read an entry in flight.
    Fence {
        /// The admission.
        id: u8,
        /// The gate's epoch then.
        epoch: u8,
    },
    /// Its fence stands.
    Release {
        /// The admission.
        id: u8,
        /// The gate's epoch then.
        epoch: u8,
    },
    /// Found it landed.
    Settle {
        /// The admission.
        id: u8,
        /// The gate's epoch then.
        epoch: u8,
    },
}

/// A rebuilder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rebuilder {
    /// What it does next.
    pub next: RebuildStep,
    /// Its epoch.
    pub epoch: u8,
    /// What it read of the template.
    pub template: Option<(u8, TemplateState)>,
    /// What it read of the stock.
    pub stock: i16,
    /// The last movement that it read.
    pub movement: u8,
    /// What it read of the coupons.
    pub taken: [Numbers; USERS_MAX],
}

/// The steps of a rebuild, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RebuildStep {
    /// Raise MySQL's epoch, if there is a reason.
    #[default]
    NextEpoch,
    /// `begin.lua`
    Begin,
    /// Read the template.
    ReadTemplate,
    /// Read stock and last movement, and give up if the epoch is another.
    ReadStock,
    /// Only with [`crate::Bug::StockAndMovementApart`].
    ReadMovement,
    /// Read the taken numbers.
    ReadNumbers,
    /// `load.lua`
    Load,
    /// `open.lua`
    Open,
    /// `move.lua`, for the movements that came while it was loading.
    CatchUp,
}

/// The operator's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Operator {
    /// Changes that are committed, or were refused.
    pub committed: u8,
    /// Whether the gate must be told the last one.
    pub tells: bool,
    /// Whether whoever had to tell the gate died: it waits for the keeper.
    pub untold: bool,
}

/// The first half of the keeper's look: it reads MySQL first and the gate second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Look {
    /// The epoch.
    pub epoch: u8,
    /// The stock.
    pub stock: i16,
    /// The last movement.
    pub movement: u8,
}

/// A packet whose sender has given it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packet {
    /// `claim.lua`
    Claim {
        /// The claim.
        id: u8,
        /// The epoch it was sent with.
        epoch: u8,
    },
    /// `settle.lua`
    Settle {
        /// The admission.
        id: u8,
        /// The epoch it was sent with.
        epoch: u8,
    },
    /// `release.lua`
    Release {
        /// The admission.
        id: u8,
        /// The epoch it was sent with.
        epoch: u8,
    },
    /// A landing, COMMIT included.
    Landing(Landing),
    /// `move.lua`
    Move {
        /// The movement.
        seq: u8,
        /// The epoch it was sent with.
        epoch: u8,
    },
    /// `set_state.lua`
    SetState {
        /// The template's state.
        state: TemplateState,
        /// The template's version.
        version: u8,
        /// The epoch it was sent with.
        epoch: u8,
    },
}

/// Faults that may still strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Left {
    /// Rebuilds.
    pub rebuilds: u8,
    /// Processes that die.
    pub crashes: u8,
    /// Losses.
    pub losses: u8,
    /// Rewinds.
    pub rewinds: u8,
    /// Lies.
    pub lies: u8,
    /// Late packets.
    pub late: u8,
    /// Looks of the keeper.
    pub looks: u8,
}

impl Walk {
    /// Whether it has neither an answer nor been given up.
    pub fn is_under_way(&self) -> bool {
        !matches!(self.at, At::Unsent | At::Refused | At::Done)
    }

    /// At its end; what it knew does not matter any more.
    pub(super) fn ended(at: At) -> Self {
        Self { at, ..Self::default() }
    }
}

impl State {
    /// With the next step of one claim.
    pub(super) fn with_walk(&self, id: u8, at: At) -> Self {
        let mut with = *self;
        with.walks[usize::from(id)].at = at;
        with
    }

    /// One claim is at its end.
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

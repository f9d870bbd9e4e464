//! The gate: admits each claim in one Redis script.
//!
//! All keys of a template's gate carry one hash tag. Every script receives the epoch that its caller knows and the run
//! of the Redis that it is connected to, so neither a late packet nor a rewound Redis does harm. `lua/README.md` lists
//! keys and scripts. A queued claim is appended to a stream in the step that admits it; relays take it from there.
//!
//! Architecture invariant: scripts and their typed wrappers, no policy. `landing` decides how to act on an answer.

mod connection;
mod entry;
mod error;
mod flights;
#[doc(hidden)]
pub mod fuzz;
mod gate;
mod inspect;
mod keys;
mod many;
mod operator;
mod outbox;
mod outbox_entry;
mod rebuild;
mod replica;
mod scripts;
mod users;
mod verdict;

pub use connection::{GateProbe, GateRedis, GateServer, Run};
pub use entry::{Entry, EntryError, Request, RequestState};
pub use error::GateError;
pub use flights::{Flights, InFlight};
pub use gate::Gate;
pub use inspect::{Held, Meta, Phase};
pub use many::{CheckedGate, KeyFault, QuietGate, Reach, SoldOutGate, SoldOutLook};
pub use operator::{Halted, Moved, Unloaded};
pub use outbox::{OutboxFrom, OutboxRead};
pub use outbox_entry::{OutboxEntry, OutboxError};
pub use rebuild::{LOAD_USERS_MAX, OpenFacts};
pub use replica::Replicated;
pub use users::ReadEntry;
pub use verdict::{OUTBOX_MAX, QUEUED_PER_USER_MAX, QueueOptions, REFUSING, Refusal, Verdict};

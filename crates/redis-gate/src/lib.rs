//! The gate: admits each claim in one Redis script.
//!
//! All keys of a template's gate carry one hash tag. Every script receives the epoch that its caller knows and the run
//! of the Redis that it is connected to, so neither a late packet nor a rewound Redis does harm. `lua/README.md` lists
//! keys and scripts.
//!
//! Architecture invariant: scripts and their typed wrappers, no policy. `landing` decides how to act on an answer.

mod connection;
mod entry;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod gate;
mod inspect;
mod keys;
mod operator;
mod presence;
mod rebuild;
mod scripts;

pub use connection::{GateRedis, Run};
pub use entry::{Entry, EntryError, Request, RequestState};
pub use error::GateError;
pub use gate::{Gate, Refusal, Verdict};
pub use inspect::{Flights, InFlight, Meta, Phase, ReadEntry};
pub use operator::{Moved, Unloaded};
pub use presence::{CheckedGate, QuietGate};
pub use rebuild::{LOAD_USERS_MAX, OpenFacts};

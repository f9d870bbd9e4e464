//! The gate: admission in one Redis script per claim.
//!
//! All keys of a template's gate carry one hash tag. Every script names the epoch its caller knows and
//! the run of the Redis it speaks to, so neither a late packet nor a rewound Redis can do harm.
//! `lua/README.md` lists keys and scripts.
//!
//! Architecture invariant: a script and its typed wrapper, no policy. What to do about an answer is
//! `landing`'s.

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
pub use presence::{Standing, Still};
pub use rebuild::{LOAD_USERS_MAX, OpenFacts};

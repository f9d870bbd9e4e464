//! The protocols of the gate and of the view as executable specifications, explored exhaustively within small bounds.
//!
//! - [`gate`]: a template's gate as a pure state machine, with one method per script.
//! - [`claim`]: a direct claim, from the client's request to its answer, and the processes around the gate.
//! - [`queued`]: a claim that is answered 202 before it lands.
//! - [`holds`]: coupons that are held until they are paid for, and the stock that lapses and cancellations return.
//! - [`sold_out`]: claims that an api refuses from memory.
//! - [`view`]: a user's view, with its commands, its consumer and its readers.
//! - [`worker`]: the worker numbers under which processes make ids.
//!
//! [`search`] visits every reachable state of one of these. [`Bug`] lists planted mistakes: a search that does not find
//! them proves nothing.
//!
//! `docs/model.md` lists what is modelled and what is not.

mod bug;
pub mod claim;
mod few;
pub mod gate;
pub mod holds;
pub mod queued;
mod reread;
pub mod search;
pub mod sold_out;
pub mod view;
pub mod worker;

pub use bug::Bug;
pub use few::Few;

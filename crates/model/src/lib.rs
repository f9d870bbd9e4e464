//! The protocols of the gate and of the view as executable specifications, explored exhaustively within small bounds.
//!
//! - [`gate`]: a template's gate as a pure state machine, with one method per script.
//! - [`claim`]: a claim, from the client's request to its answer, direct or queued, with or without a hold, and the
//!   processes around the gate.
//! - [`view`]: a user's view, with its commands, its consumer and its readers.
//! - [`reconcile`]: the looks of the reconciler at a gate that is sold from, and the repairs that follow.
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
pub mod reconcile;
pub mod search;
pub mod view;
pub mod worker;

pub use bug::Bug;
pub use few::Few;

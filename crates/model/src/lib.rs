//! The protocols of the gate and of the view as executable specifications, explored exhaustively within small bounds.
//!
//! [`gate`] is a template's gate as a pure state machine, with one method per script. [`claim`] is everything around
//! it. [`queued`] is the way of a claim that is answered before it lands. [`holds`] is the way of coupons that are held
//! until they are paid, and of what comes back. [`sold_out`] is how an api refuses
//! from memory. [`view`] is a user's view, with its commands, its consumer and its readers. [`search`] visits every reachable state. [`Bug`] lists planted mistakes: a search that
//! does not find them proves nothing.
//!
//! `docs/model.md` says what is covered and what is not.

mod bug;
pub mod claim;
mod few;
pub mod gate;
pub mod holds;
pub mod queued;
pub mod search;
pub mod sold_out;
pub mod view;

pub use bug::Bug;
pub use few::Few;

//! The protocols of the gate and of the view as executable specifications, explored exhaustively in
//! small bounds.
//!
//! [`gate`] is the gate of a template as a pure state machine, command by command as the scripts have
//! it; [`claim`] is everything around it; [`view`] is a user's view, with its commands, its consumer and
//! its readers. [`search`] visits every state that can be reached. [`Bug`] lists what was once worded
//! wrongly: a search that does not find those proves nothing.
//!
//! Read `docs/model.md` for what is covered and what is not.

mod bug;
pub mod claim;
mod few;
pub mod gate;
pub mod search;
pub mod view;

pub use bug::Bug;
pub use few::Few;

//! The rules of the source tree.

mod guarantees;
mod rooms;
mod tidy;

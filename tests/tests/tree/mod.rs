//! The rules of the source tree.

mod rooms;
mod tidy;

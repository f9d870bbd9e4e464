//! The rules of the source tree.

mod guarantees;
mod plain_code;
mod rooms;
mod tidy;
mod tiers;

//! The rules of the source tree.

mod guarantees;
mod kubernetes;
mod plain_code;
mod rooms;
mod tidy;
mod tiers;

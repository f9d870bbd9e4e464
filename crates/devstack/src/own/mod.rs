//! Servers that one test has for itself, and may stop, break or replace.

pub(crate) mod broker;
pub(crate) mod brokers;
pub(crate) mod cluster;
pub(crate) mod database;
pub(crate) mod pair;
pub(crate) mod redis;
pub(crate) mod sentinel;
pub(crate) mod slot_move;

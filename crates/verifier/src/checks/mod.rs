//! The checks, one file for each kind of invariant.

pub(crate) mod account;
pub(crate) mod answers;
pub(crate) mod changes;
pub(crate) mod claimed;
pub(crate) mod entries;
pub(crate) mod expiry;
pub(crate) mod gate;
pub(crate) mod gates;
pub(crate) mod holds;
pub(crate) mod lag;
pub(crate) mod ledger;
pub(crate) mod limit;
pub(crate) mod queued;
pub(crate) mod redemption;
pub(crate) mod stock;
pub(crate) mod view;

//! Claims: the happy path, races, faults, kills, and what a client hears.

pub(crate) mod claim_poll;
pub(crate) mod faults;
pub(crate) mod happy;
pub(crate) mod races;
pub(crate) mod sold_out;

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    pub(crate) mod campaign;
    pub(crate) mod clocks;
    pub(crate) mod epochs;
    pub(crate) mod hung_api;
    pub(crate) mod kills;
    pub(crate) mod replay;
    pub(crate) mod unavailable;
    pub(crate) mod unknown_ids;
}

//! Figures next to baselines, measured in one run on one machine: only their ratio applies
//! elsewhere.
//!
//! Each module measures one thing; `scenarios/` combines them.

pub mod bare;
pub mod cdc;
pub mod claims;
pub mod closed;
pub mod curves;
pub mod export;
pub mod holds;
pub mod lists;
pub mod lone;
pub mod machine;
pub mod mixed;
pub mod overload;
pub mod pending;
pub mod queued;
pub mod redeem;
pub mod redis_tools;
pub mod report;
pub mod scenarios;
pub mod stage;
pub mod storm;
pub mod tailer_alone;
pub mod visible;

//! Figures beside baselines, measured in one run on one machine: only their ratio travels.
//!
//! Each module measures one thing; the binaries in `bin/` say what is measured together.

pub mod bare;
pub mod cdc;
pub mod hardware;
pub mod hot;
pub mod lists;
pub mod lone;
pub mod pending;
pub mod report;
pub mod stage;
pub mod storm;
pub mod tailer;
pub mod thin;
pub mod visible;

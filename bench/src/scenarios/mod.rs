//! The benches: each combines what the modules beside this one measure.

pub mod capacity;
pub mod claims;
pub mod curves;
pub mod expiry;
pub mod export;
pub mod grants;
pub mod holds;
pub mod mixed;
pub mod overload;
pub mod queued;
pub mod redeem;
pub mod smoke;
pub mod tailer;
pub mod view;

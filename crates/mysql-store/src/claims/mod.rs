//! Claims and their landing.

pub mod claim;
pub mod claim_states;
pub mod fence;
pub mod landing;
pub mod look_up;
pub mod lost_claim;
pub mod search;
pub mod story;

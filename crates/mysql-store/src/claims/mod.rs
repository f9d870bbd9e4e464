//! Claims and their landing.

pub mod claim;
pub mod landing;
pub mod lease;
pub mod look_up;

//! Claims: landing, fences, and what is read after a rollback.

mod fence;
mod landing;
mod look_up;
mod queued_landing;
mod rejection;
mod reread;
mod story;

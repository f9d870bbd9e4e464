//! What becomes of claims and their answers when more come than can be landed: too many users, a database that is slow, and
//! one user who sends without a pause.

pub mod flood;
pub mod slow;

//! The checks that look at a part of the platform, a template or some users, and return what they find. [`crate::verify`]
//! is all parts of a platform at rest.
//!
//! Of those, the accounts hold at every moment, and claims and coupons too, since each statement sees one. What compares
//! a gate or a view with MySQL takes what was read, or needs rest.

pub use mysql_store::verify::Span;

pub use crate::checks::{
    account::ledger_of,
    claimed::{orphans, over_limit, uneven, unnumbered},
    entries::{NumbersLook, numbers, requests, stock},
    view::of_users,
};

//! One sale, and all that are open: before it, while it runs, and what it was.

pub(crate) mod live;
pub(crate) mod readiness;
pub(crate) mod rehearse;
pub(crate) mod report;
mod stop;

//! Whole sales with a queue: their books, their modes, and a MySQL that hangs under them.

pub(crate) mod books;
pub(crate) mod mode_changes;
pub(crate) mod spilled;

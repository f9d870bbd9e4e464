//! Whole sales with a queue: their books, their modes, and a MySQL that hangs under them.

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    pub(crate) mod books;
    pub(crate) mod mode_changes;
    pub(crate) mod spilled;
}

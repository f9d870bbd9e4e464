//! A primary of MySQL dies, and its replica takes over.

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    pub(crate) mod asynchronous;
    pub(crate) mod semi_synchronous;
}

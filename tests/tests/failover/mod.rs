//! A primary of MySQL, or a master of the gate, dies, and its replica takes over.

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    pub(crate) mod asynchronous;
    pub(crate) mod gate_cluster;
    pub(crate) mod semi_synchronous;
}

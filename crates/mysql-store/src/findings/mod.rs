//! What a reconciler finds wrong, and how far its walks are.

pub mod finding;
pub mod finding_decision;
pub mod reconcile_walk;

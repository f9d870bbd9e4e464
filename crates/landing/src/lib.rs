//! Lands admissions: turns the claims that the gate admitted into rows in MySQL.
//!
//! Read in this order: [`claims`] takes one claim from the gate to its answer. [`lander`] batches landings and sets
//! aside (`aside`) those of a template whose stock row is locked. [`batch`] lands one batch and decides the outcome of
//! each admission. [`settler`] reports landed admissions to the gate. [`gates`] holds what a process knows about its
//! gates, and [`keeper`] is the task that maintains them, by means of [`rebuild`] and [`movements`]. [`resolver`] ends
//! admissions whose process died. [`ids`] generates ids under a leased worker number. [`queue`] carries claims that
//! were accepted before they land, and [`queued`] lands them. [`sold_out`] refuses claims of a sold-out template
//! without asking its gate.

pub mod batch;
pub mod claims;
mod gate;
pub mod ids;
pub mod lander;
pub mod metric;
pub mod queue;
pub mod queued;
pub mod sold_out;
mod sync;

pub use gate::{gates, keeper, lost_claims, movements, rebuild, resolver};
pub use lander::settler;

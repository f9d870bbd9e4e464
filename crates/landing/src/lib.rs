//! Makes admissions true: one code for every mode.
//!
//! Read in this order: [`claims`] is the walk of one claim; [`lander`] batches landings, and sets aside
//! (`aside`) those of a template whose row is held; [`batch`]
//! lands one batch and decides what became of each; [`settler`] tells the gate; [`gates`] is what a
//! process knows of them, [`keeper`] the task that keeps them, by [`rebuild`] and [`movements`];
//! [`resolver`] ends admissions whose process died. [`ids`] makes ids under a leased worker number.

mod aside;
pub mod batch;
mod calm;
pub mod claims;
pub mod gates;
mod id_clock;
pub mod ids;
pub mod keeper;
pub mod lander;
pub mod metric;
pub mod movements;
pub mod rebuild;
pub mod resolver;
pub mod settler;

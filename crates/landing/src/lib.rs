//! Makes admissions true: one code for every mode.
//!
//! Read in this order: [`claims`] is the walk of one claim; [`lander`] batches landings; [`batch`]
//! lands one batch and decides what became of each; [`settler`] tells the gate; [`gates`] keeps gates
//! loaded, by [`rebuild`]; [`resolver`] ends admissions whose process died. [`ids`] makes ids under a
//! leased worker number.

pub mod batch;
pub mod claims;
pub mod gates;
pub mod ids;
pub mod lander;
pub mod metric;
pub mod rebuild;
pub mod resolver;
pub mod settler;

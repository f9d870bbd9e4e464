//! Lands admissions: turns the claims that the gate admitted into rows in MySQL.
//!
//! Read in this order: [`claims`] takes one claim from the gate to its answer. [`lander`] batches landings and sets
//! aside (`aside`) those of a template whose stock row is locked. [`batch`] lands one batch and decides the outcome
//! of each admission. [`settler`] reports landed admissions to the gate. [`gates`] holds what a process knows about
//! its gates, and [`keeper`] is the task that maintains them, by means of [`rebuild`] and [`movements`]. [`resolver`]
//! ends admissions whose process died. [`ids`] generates ids under a leased worker number.

pub mod claims;
mod gate;
pub mod ids;
pub mod lander;
pub mod metric;

pub use gate::{gates, keeper, movements, rebuild, resolver};
pub use lander::{batch, settler};

use claims::label;
use metric::{
    BATCH_SECONDS, BATCH_SIZE, CLAIMS_UNDER_WAY, GATE_VERDICTS, GUARD_REJECTIONS, IN_FLIGHT_OLDEST,
    LANDING_QUEUE, LANDING_RETRIES, MISSING_STOCK, REBUILD_SECONDS, REBUILDS, RESOLVED,
    SETTLING_QUEUE, STUCK, UNREADABLE,
};

/// Describes the metrics once, for `/metrics`. Counters exist from the start with every label value: a counter that
/// first appears with its first increment shows no increase.
pub fn describe_metrics() {
    let counters: [(_, _, &[&'static str], _); 5] = [
        (GATE_VERDICTS, "outcome", &label::VERDICTS, "answers of the gate"),
        (LANDING_RETRIES, "reason", &batch::RETRIES, "landings run again"),
        (GUARD_REJECTIONS, "decision", &label::DECISIONS, "admissions that MySQL did not land"),
        (RESOLVED, "action", &resolver::ACTIONS, "admissions left in flight, and what was done"),
        (REBUILDS, "result", &rebuild::RESULTS, "rebuilds of gates"),
    ];
    for (name, label, words, text) in counters {
        metrics::describe_counter!(name, text);
        for word in words {
            metrics::counter!(name, label => *word).absolute(0);
        }
    }
    metrics::describe_counter!(UNREADABLE, "gates begun anew because something was unreadable");
    metrics::counter!(UNREADABLE).absolute(0);
    for (name, text) in [
        (CLAIMS_UNDER_WAY, "claims that this process is working on"),
        (LANDING_QUEUE, "admissions that wait for the next landing"),
        (SETTLING_QUEUE, "landed admissions of which the gate has not been told"),
        (IN_FLIGHT_OLDEST, "age of the oldest admission in flight for longer than 10 s, 0: none"),
        (STUCK, "admissions in flight for more than a minute"),
        (MISSING_STOCK, "coupons of MySQL's stock that the gates do not hold"),
    ] {
        metrics::describe_gauge!(name, text);
    }
    for (name, text) in [
        (BATCH_SIZE, "coupons of one landing"),
        (BATCH_SECONDS, "one landing, repetitions included"),
        (REBUILD_SECONDS, "one rebuild of a gate"),
    ] {
        metrics::describe_histogram!(name, text);
        // Registers the histogram, still empty.
        drop(metrics::histogram!(name));
    }
}

//! The invariants of the platform (docs/verify.md), one function each. They read MySQL, the gate, the view and the
//! topics of a platform at rest, and report one line each. They change nothing.
//!
//! ```text
//! I1  stock       no oversell at any moment           (a [`Sampler`] beside the load)
//! I2  stock       total - stock = coupons not returned; coupons and claims are consistent (rows)
//! I3  limit       no user has more coupons than the limit
//! I4  answers     every 201 is in MySQL, and every claim there was requested          (needs a history)
//! I5  answers     a definite refusal left no row; replays have equal bytes            (needs a history)
//! I6  gate        gate stock = MySQL stock
//! I7  gate        gate entries = MySQL's taken numbers, nothing in flight
//! I8  view        views = unused rows: members, scores, details
//! I9  expiry      each coupon expires once, never early, none missed
//! I10 changes     the topic holds every committed change, in order, and nothing else (topics)
//! I11 view        no view lists a coupon that has ended
//! I12 lag         nothing is left to consume
//! I13 redemption  used coupons = redemptions that stand, and their money adds up
//! I14 queued      queued claims have ended, and rejected ones have no coupons; a hold ends once (holds)
//! I15 ledger      stock and lapses are the sums of the ledger, and its returns are the coupons that came back
//! ```
//! Start with [`verify`]; call [`at_rest`] first if the platform was busy. [`spans`] has those checks that look at a part of
//! the platform and return what they find.

mod at_rest;
mod checks;
mod error;
mod finding;
mod history;
mod outcome;
mod progress;
mod rows;
mod sampler;
mod sources;
pub mod spans;
mod topics;

use chrono::{DateTime, Utc};

pub use at_rest::at_rest;
pub use error::VerifyError;
pub use finding::{About, Finding};
pub use history::{History, Record};
pub use outcome::{Outcome, Report, Verdict};
pub use progress::ProgressReporter;
pub use sampler::Sampler;
pub use sources::{Settings, Sources};

use checks::{answers, changes, expiry, gate, lag, ledger, limit, queued, redemption, stock, view};

/// Checks every invariant at `now`. Without `history`, the clients' own records, I4 and I5 are skipped.
///
/// # Errors
/// A source could not be read, so the state of the invariants is unknown.
pub async fn verify(
    sources: &Sources,
    history: Option<&History>,
    now: DateTime<Utc>,
) -> Result<Report, VerifyError> {
    let (views, revenants) = view::agree(sources, now).await?;
    Ok(Report {
        outcomes: vec![
            stock::is_conserved(sources).await?,
            limit::is_kept(sources).await?,
            answers::are_true(sources, history).await?,
            answers::refusals_left_nothing(sources, history).await?,
            gate::stock_agrees(sources).await?,
            gate::entries_agree(sources, now).await?,
            views,
            expiry::is_lawful(sources, now).await?,
            changes::are_published(sources).await?,
            revenants,
            lag::is_zero(sources).await?,
            redemption::adds_up(sources).await?,
            queued::have_ended(sources, now).await?,
            ledger::adds_up(sources).await?,
        ],
    })
}

//! How long a payment waits for its claim. A shop may pay for a queued claim before the claim has landed, so that MySQL
//! does not know a claim says nothing yet.
//!
//! ```text
//! first look, nothing ─ SETTLE ─▶ ends of the claims' topic ─ landers have passed them ─▶ last look ─▶ no such claim
//!                        └────────────────── LONGEST after the first look ──────────────────────────▶ not landed
//! ```
//! The guarantee: a claim that was accepted before the payment was taken over is in MySQL at the last look, or it never
//! lands. Only a queue that takes longer than [`LONGEST`] makes a payment a dead letter although its claim may land.
//!
//! The payments of a batch share one patience, so a hundred wrong ones take no longer than one.

use chrono::{DateTime, TimeDelta, Utc};
use futures::future::try_join_all;
use topic::{QueueOffsets, TopicError};

/// Time before the ends are asked for. A claim that was accepted at the gate reaches its topic within it.
const SETTLE: TimeDelta = TimeDelta::seconds(2);

/// Longest wait. Payments behind it in its partition wait too, and their holds run meanwhile.
pub(crate) const LONGEST: TimeDelta = TimeDelta::seconds(60);

/// The patience with one batch of payments.
pub(crate) struct Patience<'a> {
    offsets: &'a QueueOffsets,
    state: State,
}

enum State {
    /// No look has found nothing yet.
    Fresh,
    /// Since the first look that found nothing. The ends are those of the claims' topic, by partition, once they are
    /// known.
    Waiting {
        since: DateTime<Utc>,
        ends: Option<Vec<i64>>,
    },
    /// Whatever could land has its end.
    Passed,
    TooLong,
}

/// What follows from a look that found no claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    LookAgain,
    NoSuchClaim,
    NotLanded,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(offsets: &'a QueueOffsets) -> Self {
        Self { offsets, state: State::Fresh }
    }

    /// Returns what follows from a look that just found no claim.
    pub(crate) async fn after_look(&mut self, now: DateTime<Utc>) -> Verdict {
        let (since, ends) = match &mut self.state {
            State::Fresh => {
                self.state = State::Waiting { since: now, ends: None };
                return Verdict::LookAgain;
            }
            State::Waiting { since, ends } => (*since, ends),
            State::Passed => return Verdict::NoSuchClaim,
            State::TooLong => return Verdict::NotLanded,
        };
        if now - since >= LONGEST {
            self.state = State::TooLong;
            return Verdict::NotLanded;
        }
        if now - since >= SETTLE {
            match has_passed(self.offsets, ends).await {
                Ok(true) => self.state = State::Passed,
                Ok(false) => {}
                Err(error) => {
                    let error = runtime::report(&error);
                    runtime::seldom!("how far queued claims have landed is not known", error);
                }
            }
        }
        // The claim may have landed since the look, so only another one decides.
        Verdict::LookAgain
    }

    /// Begins the wait once more: without MySQL, nothing landed.
    pub(crate) fn begin_again(&mut self) {
        if matches!(self.state, State::Waiting { .. } | State::TooLong) {
            self.state = State::Fresh;
        }
    }
}

/// Returns whether the landers have passed the ends of all partitions. Asks for the ends if they are not known.
async fn has_passed(
    offsets: &QueueOffsets,
    ends: &mut Option<Vec<i64>>,
) -> Result<bool, TopicError> {
    let partitions = offsets.partitions().await?;
    let known = match ends.take() {
        Some(known) => known,
        None => try_join_all((0..partitions).map(|partition| offsets.end(partition))).await?,
    };
    let known = ends.insert(known);
    let landed = try_join_all((0..partitions).map(|partition| offsets.committed(partition))).await;
    Ok(landed?.iter().zip(known).all(|(landed, end)| landed >= end))
}

#[cfg(test)]
mod tests {
    use topic::TopicNames;

    use super::*;

    /// No broker is asked before [`SETTLE`] or after [`LONGEST`].
    #[tokio::test]
    async fn a_wait_has_an_end_and_begins_again_when_mysql_was_away() {
        let offsets = QueueOffsets::new("127.0.0.1:1", &TopicNames::new("none"));
        let mut patience = Patience::new(&offsets);
        let first = DateTime::UNIX_EPOCH;
        let millisecond = TimeDelta::milliseconds(1);
        assert_eq!(patience.after_look(first).await, Verdict::LookAgain);
        assert_eq!(patience.after_look(first + SETTLE - millisecond).await, Verdict::LookAgain);
        assert_eq!(patience.after_look(first + LONGEST).await, Verdict::NotLanded);
        assert_eq!(
            patience.after_look(first + LONGEST).await,
            Verdict::NotLanded,
            "all of a batch"
        );
        patience.begin_again();
        assert_eq!(patience.after_look(first + LONGEST * 2).await, Verdict::LookAgain);
        assert_eq!(patience.after_look(first + LONGEST * 3).await, Verdict::NotLanded);
    }
}

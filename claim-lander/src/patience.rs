//! How long a payment waits for its claim. A shop may pay for a queued claim before the claim has landed. So a claim
//! that is not in MySQL may still land.
//!
//! ```text
//! first look, nothing ─ SETTLE ─▶ ends of the claims' topic ─ landers have passed them ─▶ last look ─▶ no such claim
//!                        └────────────────── LONGEST after the first look ──────────────────────────▶ not landed
//! ```
//! A claim whose id is younger than [`LONGEST`] may be admitted and still wait in an outbox. So the verdict "no such
//! claim" is never given for it; after [`LONGEST`] the verdict is "not landed".
//!
//! The guarantee: a claim that reached its topic before the payment was taken over is in MySQL at the last look, or it
//! never lands. A payment whose claim may still land becomes a dead letter only if outbox and queue take longer than
//! [`LONGEST`].
//!
//! The payments of a batch share one patience, so a hundred wrong payments take no longer than one.

use chrono::{DateTime, TimeDelta, Utc};
use futures::future::try_join_all;
use topic::{QueueOffsets, TopicError};

/// Time before the ends are read. A claim that the gate accepted usually reaches its topic within it.
const SETTLE: TimeDelta = TimeDelta::seconds(2);

/// Longest wait. Payments behind it in its partition wait too, and their holds run meanwhile.
pub(crate) const LONGEST: TimeDelta = TimeDelta::seconds(60);

/// The patience with one batch of payments.
pub(crate) struct Patience<'a> {
    offsets: &'a QueueOffsets,
    state: State,
}

enum State {
    /// No look has missed a claim yet.
    Fresh,
    /// Waits since the first look that missed a claim. The ends are those of the claims' topic, by partition, once they
    /// are known.
    Waiting {
        since: DateTime<Utc>,
        ends: Option<Vec<i64>>,
    },
    /// All claims that had reached the topic have their end. Waits since the same look.
    Passed {
        since: DateTime<Utc>,
    },
    TooLong,
}

/// The verdict after a look that found no claim.
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

    /// Returns the verdict after a look that just found no claim. `admitted` is the time in the claim's id.
    pub(crate) async fn after_look(
        &mut self,
        now: DateTime<Utc>,
        admitted: DateTime<Utc>,
    ) -> Verdict {
        let is_young = (now - admitted).abs() < LONGEST;
        match &mut self.state {
            State::Fresh => self.state = State::Waiting { since: now, ends: None },
            State::Passed { .. } if !is_young => return Verdict::NoSuchClaim,
            State::Waiting { since, .. } | State::Passed { since } if now - *since >= LONGEST => {
                self.state = State::TooLong;
                return Verdict::NotLanded;
            }
            State::Waiting { since, ends } if now - *since >= SETTLE => {
                match has_passed(self.offsets, ends).await {
                    Ok(true) => self.state = State::Passed { since: *since },
                    Ok(false) => {}
                    Err(error) => {
                        let error = runtime::report(&error);
                        runtime::seldom!("how far queued claims have landed is not known", error);
                    }
                }
            }
            State::Waiting { .. } | State::Passed { .. } => {}
            State::TooLong => return Verdict::NotLanded,
        }
        // The claim may have landed since the look, so only another one decides.
        Verdict::LookAgain
    }

    /// Restarts the wait, because no claim landed while MySQL was away.
    pub(crate) fn begin_again(&mut self) {
        if !matches!(self.state, State::Passed { .. }) {
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
        let old = first - LONGEST;
        let millisecond = TimeDelta::milliseconds(1);
        assert_eq!(patience.after_look(first, old).await, Verdict::LookAgain);
        assert_eq!(
            patience.after_look(first + SETTLE - millisecond, old).await,
            Verdict::LookAgain
        );
        assert_eq!(patience.after_look(first + LONGEST, old).await, Verdict::NotLanded);
        let next = patience.after_look(first + LONGEST, old).await;
        assert_eq!(next, Verdict::NotLanded, "all of a batch");
        patience.begin_again();
        assert_eq!(patience.after_look(first + LONGEST * 2, old).await, Verdict::LookAgain);
        assert_eq!(patience.after_look(first + LONGEST * 3, old).await, Verdict::NotLanded);
    }

    #[tokio::test]
    async fn a_young_claim_that_the_landers_have_not_seen_is_waited_for() {
        let offsets = QueueOffsets::new("127.0.0.1:1", &TopicNames::new("none"));
        let since = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        let mut patience = Patience { offsets: &offsets, state: State::Passed { since } };
        let millisecond = TimeDelta::milliseconds(1);
        let last = since + LONGEST - millisecond;
        for old in [last - LONGEST, last + LONGEST, DateTime::UNIX_EPOCH] {
            assert_eq!(patience.after_look(last, old).await, Verdict::NoSuchClaim, "{old}");
        }
        for young in [last, last - LONGEST + millisecond, last + LONGEST - millisecond] {
            assert_eq!(patience.after_look(last, young).await, Verdict::LookAgain, "{young}");
        }
        assert_eq!(
            patience.after_look(since + LONGEST, since + millisecond).await,
            Verdict::NotLanded
        );
    }
}

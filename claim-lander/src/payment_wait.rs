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
//! All payments that wait share the brokers' answer, so a hundred wrong payments cause no more requests than one.

use std::{sync::Arc, time::Instant};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::QueueReach;
use futures::future::try_join_all;
use topic::{QueueOffsets, TopicError};

/// Time before the ends are read. A claim that the gate accepted usually reaches its topic within it.
const SETTLE: TimeDelta = TimeDelta::seconds(2);

/// Longest wait. The payment's hold runs meanwhile.
pub(crate) const LONGEST: TimeDelta = TimeDelta::seconds(60);

/// The patience with one payment.
#[derive(Debug)]
pub(crate) struct PaymentWait {
    state: State,
}

#[derive(Debug)]
enum State {
    /// No look has missed the claim since the wait was started.
    Fresh,
    /// Waits since the first look that missed the claim. The ends are those of the claims' topic, by partition, once
    /// they are known.
    Waiting { since: DateTime<Utc>, looked: Instant, ends: Option<Vec<i64>> },
    /// All claims that had reached the topic have their end. Waits since the same look.
    Passed { since: DateTime<Utc> },
}

/// The verdict after a look that found no claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    LookAgain,
    NoSuchClaim,
    NotLanded,
}

/// How far the claims' topic reaches and has landed, by partition.
#[derive(Debug, Clone)]
pub(crate) struct TopicReach {
    asked: Instant,
    partitions: Arc<Vec<QueueReach>>,
}

impl TopicReach {
    pub(crate) async fn ask(offsets: &QueueOffsets) -> Result<Self, TopicError> {
        let asked = Instant::now();
        let partitions = offsets.partitions().await?;
        let all = (0..partitions).map(|partition| offsets.reach(partition));
        Ok(Self { asked, partitions: Arc::new(try_join_all(all).await?) })
    }

    fn ends(&self) -> Vec<i64> {
        self.partitions.iter().map(|partition| partition.end).collect()
    }

    /// Returns whether the landers have passed these ends ([`QueueReach::has_passed`]).
    fn has_passed(&self, ends: &mut [i64]) -> bool {
        let both = self.partitions.iter().zip(ends);
        // All are evaluated, because each lowers an end that no longer exists.
        both.map(|(now, noted)| now.has_passed(noted)).fold(true, |all, one| all & one)
    }
}

impl PaymentWait {
    pub(crate) fn new() -> Self {
        Self { state: State::Fresh }
    }

    /// Returns whether the verdict needs a [`TopicReach`].
    pub(crate) fn wants_reach(&self, now: DateTime<Utc>) -> bool {
        matches!(&self.state, State::Waiting { since, .. } if now - *since >= SETTLE)
    }

    /// Returns the verdict after a look that just found no claim. `admitted` is the time in the claim's id; `reach` is
    /// the brokers' last answer, if any.
    pub(crate) fn after_look(
        &mut self,
        now: DateTime<Utc>,
        admitted: DateTime<Utc>,
        reach: Option<&TopicReach>,
    ) -> Verdict {
        let is_young = (now - admitted).abs() < LONGEST;
        match &mut self.state {
            State::Fresh => {
                self.state = State::Waiting { since: now, looked: Instant::now(), ends: None };
            }
            State::Passed { .. } if !is_young => return Verdict::NoSuchClaim,
            State::Waiting { since, .. } | State::Passed { since } if now - *since >= LONGEST => {
                return Verdict::NotLanded;
            }
            State::Waiting { since, looked, ends } if now - *since >= SETTLE => {
                // Ends that were read before the first look may lack the claim.
                let Some(reach) = reach.filter(|reach| reach.asked >= *looked) else {
                    return Verdict::LookAgain;
                };
                let ends = ends.get_or_insert_with(|| reach.ends());
                if reach.has_passed(ends) {
                    self.state = State::Passed { since: *since };
                }
            }
            State::Waiting { .. } | State::Passed { .. } => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(committed: i64, end: i64) -> TopicReach {
        let partitions = Arc::new(vec![QueueReach { committed, end }]);
        TopicReach { asked: Instant::now(), partitions }
    }

    #[test]
    fn a_wait_has_an_end_and_begins_again_when_mysql_was_away() {
        let mut patience = PaymentWait::new();
        let first = DateTime::UNIX_EPOCH;
        let old = first - LONGEST;
        let millisecond = TimeDelta::milliseconds(1);
        let look = |patience: &mut PaymentWait, now| patience.after_look(now, old, None);
        assert_eq!(look(&mut patience, first), Verdict::LookAgain);
        assert!(!patience.wants_reach(first + SETTLE - millisecond));
        assert!(patience.wants_reach(first + SETTLE));
        assert_eq!(look(&mut patience, first + LONGEST - millisecond), Verdict::LookAgain);
        assert_eq!(look(&mut patience, first + LONGEST), Verdict::NotLanded);
        patience.begin_again();
        assert_eq!(look(&mut patience, first + LONGEST * 2), Verdict::LookAgain);
        assert_eq!(look(&mut patience, first + LONGEST * 3), Verdict::NotLanded);
    }

    #[test]
    fn a_claim_is_unknown_once_the_landers_have_passed_what_was_queued_after_the_first_look() {
        let first = DateTime::UNIX_EPOCH;
        let early = reach(9, 9);
        let old = first - LONGEST;
        let mut patience = PaymentWait::new();
        patience.after_look(first, old, None);
        let mut look = |reach: &TopicReach| patience.after_look(first + SETTLE, old, Some(reach));
        assert_eq!([look(&early), look(&early)], [Verdict::LookAgain; 2], "asked too early");
        assert_eq!([look(&reach(8, 10)), look(&reach(9, 12))], [Verdict::LookAgain; 2]);
        assert_eq!(look(&reach(10, 12)), Verdict::LookAgain, "only another look decides");
        assert_eq!(look(&reach(10, 12)), Verdict::NoSuchClaim);
    }

    #[test]
    fn the_ends_of_a_topic_that_was_made_anew_are_not_waited_for() {
        let first = DateTime::UNIX_EPOCH;
        let old = first - LONGEST;
        let mut patience = PaymentWait::new();
        patience.after_look(first, old, None);
        let mut look = |reach: TopicReach| patience.after_look(first + SETTLE, old, Some(&reach));
        assert_eq!([look(reach(8, 10)), look(reach(0, 2))], [Verdict::LookAgain; 2]);
        // The topic is in use: its landers seldom reach its present end.
        assert_eq!([look(reach(2, 30)), look(reach(3, 40))].last(), Some(&Verdict::NoSuchClaim));
    }

    #[test]
    fn a_young_claim_that_the_landers_have_not_seen_is_waited_for() {
        let since = DateTime::UNIX_EPOCH + TimeDelta::days(20_000);
        let mut patience = PaymentWait { state: State::Passed { since } };
        let millisecond = TimeDelta::milliseconds(1);
        let last = since + LONGEST - millisecond;
        for old in [last - LONGEST, last + LONGEST, DateTime::UNIX_EPOCH] {
            assert_eq!(patience.after_look(last, old, None), Verdict::NoSuchClaim, "{old}");
        }
        for young in [last, last - LONGEST + millisecond, last + LONGEST - millisecond] {
            assert_eq!(patience.after_look(last, young, None), Verdict::LookAgain, "{young}");
        }
        assert_eq!(
            patience.after_look(since + LONGEST, since + millisecond, None),
            Verdict::NotLanded
        );
    }
}

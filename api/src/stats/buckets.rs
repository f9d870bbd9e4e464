//! Latencies as counts in buckets, and answers by word. Merging adds; it loses nothing and needs no order.

use std::{collections::BTreeMap, time::Duration};

use topic::LATENCY_BOUNDS_MS;

use crate::code::Code;

/// Number of latency buckets.
const BUCKETS: usize = LATENCY_BOUNDS_MS.len();

/// Word of a claim that landed with this answer.
pub(crate) const LANDED: &str = "LANDED";

/// Word of the repeated answer of a landed claim.
pub(crate) const REPLAYED: &str = "REPLAYED";

/// Word of a claim that was answered 202: it lands, or is rejected, later.
pub(crate) const ACCEPTED: &str = "ACCEPTED";

/// Words that are no codes.
const SUCCESSES: [&str; 3] = [LANDED, REPLAYED, ACCEPTED];

/// Status of the codes that decide nothing: the claim may have landed, or lands when the same key is sent again.
const UNDECIDED: u16 = 503;

/// Answers by latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Buckets([u64; BUCKETS]);

impl Buckets {
    /// Reads the counts of a message. Counts beyond the last bucket go there.
    pub(crate) fn of_wire(counts: &[u64]) -> Self {
        let mut buckets = Self::default();
        for (index, count) in counts.iter().enumerate() {
            let bucket = &mut buckets.0[index.min(BUCKETS - 1)];
            *bucket = bucket.saturating_add(*count);
        }
        buckets
    }

    /// Returns the counts for a message, without empty buckets at the end.
    pub(crate) fn to_wire(self) -> Vec<u64> {
        let used = self.0.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        self.0[..used].to_vec()
    }

    pub(crate) fn count(&mut self, took: Duration) {
        let ms = took.as_micros().div_ceil(1_000);
        let bucket = LATENCY_BOUNDS_MS.iter().position(|bound| ms <= u128::from(*bound));
        self.0[bucket.unwrap_or(BUCKETS - 1)] += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_add(more);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().fold(0, |total, count| total.saturating_add(*count))
    }

    /// Returns the bound, in milliseconds, of the bucket in which `percent` of all answers are reached: the true
    /// value is at most that, and above the bound before. `None`: there are no answers.
    pub(crate) fn quantile_ms(&self, percent: u64) -> Option<u32> {
        let rank = (u128::from(self.total()) * u128::from(percent)).div_ceil(100).max(1);
        let mut reached = 0;
        let bucket = self.0.iter().position(|count| {
            reached += u128::from(*count);
            reached >= rank
        });
        bucket.map(|bucket| LATENCY_BOUNDS_MS[bucket])
    }
}

/// Answers by word and latency.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answers(BTreeMap<String, Buckets>);

impl Answers {
    pub(crate) fn add(&mut self, word: String, buckets: &Buckets) {
        self.0.entry(word).or_default().merge(buckets);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (word, buckets) in &other.0 {
            self.add(word.clone(), buckets);
        }
    }

    /// Returns the answers of one word.
    pub(crate) fn of(&self, word: &str) -> Buckets {
        self.0.get(word).copied().unwrap_or_default()
    }

    /// Returns the answers of all words.
    pub(crate) fn all(&self) -> Buckets {
        let mut all = Buckets::default();
        self.0.values().for_each(|buckets| all.merge(buckets));
        all
    }

    /// Returns the number of refusals by code.
    pub(crate) fn refused(&self) -> BTreeMap<String, u64> {
        self.by_code(|word| !is_undecided(word))
    }

    /// Returns the number of answers that decided nothing, by code.
    pub(crate) fn unknown(&self) -> BTreeMap<String, u64> {
        self.by_code(is_undecided)
    }

    fn by_code(&self, admits: impl Fn(&str) -> bool) -> BTreeMap<String, u64> {
        let codes = self.0.iter().filter(|(word, _)| !SUCCESSES.contains(&word.as_str()));
        let codes = codes.filter(|(word, _)| admits(word));
        codes.map(|(word, buckets)| (word.clone(), buckets.total())).collect()
    }
}

/// A code that this version does not know counts as a refusal.
fn is_undecided(word: &str) -> bool {
    Code::ALL.iter().any(|code| code.word() == word && code.status() == UNDECIDED)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn buckets(ms: &[u64]) -> Buckets {
        let mut buckets = Buckets::default();
        ms.iter().for_each(|ms| buckets.count(Duration::from_millis(*ms)));
        buckets
    }

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket_and_nothing_has_none() {
        let seen = buckets(&[1, 1, 1, 3, 3, 3, 40, 40, 90, 99_999]);
        assert_eq!(
            [1, 50, 90, 99, 100].map(|percent| seen.quantile_ms(percent)),
            [1, 5, 100, 15_000, 15_000].map(Some)
        );
        assert_eq!(buckets(&[]).quantile_ms(50), None);
        let mut exact = Buckets::default();
        exact.count(Duration::from_micros(1_001));
        assert_eq!(exact.quantile_ms(50), Some(2), "a bound is inclusive, and not more");
    }

    #[test]
    fn only_refusals_are_counted_as_refused_and_a_503_as_unknown() {
        let mut answers = Answers::default();
        for word in [LANDED, REPLAYED, ACCEPTED, "SOLD_OUT", "CLAIM_PENDING", "OF_A_LATER_VERSION"]
        {
            answers.add(word.to_owned(), &buckets(&[1]));
        }
        let of = |words: &[&str]| -> BTreeMap<String, u64> {
            words.iter().map(|word| ((*word).to_owned(), 1)).collect()
        };
        assert_eq!(answers.refused(), of(&["OF_A_LATER_VERSION", "SOLD_OUT"]));
        assert_eq!(answers.unknown(), of(&["CLAIM_PENDING"]));
        assert_eq!(answers.all().total(), 6);
    }

    #[test]
    fn counts_of_more_buckets_than_known_are_kept_in_the_last() {
        let read = Buckets::of_wire(&[1; 40]);
        assert_eq!((read.total(), read.quantile_ms(100)), (40, Some(15_000)));
        assert_eq!(Buckets::of_wire(&[u64::MAX, 1]).total(), u64::MAX, "and none overflows");
    }

    proptest! {
        #[test]
        fn merging_loses_nothing_and_needs_no_order(
            left in vec(0_u64..40_000, 0..60), right in vec(0_u64..40_000, 0..60),
        ) {
            let both = buckets(&[left.clone(), right.clone()].concat());
            let mut one = buckets(&left);
            let mut other = buckets(&right);
            one.merge(&buckets(&right));
            other.merge(&buckets(&left));
            prop_assert_eq!(one, both);
            prop_assert_eq!(other, both);
            prop_assert_eq!(both.total(), (left.len() + right.len()) as u64);
            prop_assert_eq!(Buckets::of_wire(&both.to_wire()), both);
        }

        #[test]
        fn a_quantile_is_never_below_the_true_one_and_in_its_bucket(
            mut ms in vec(1_u64..15_000, 1..200), percent in 1_u64..=100,
        ) {
            let said = u64::from(buckets(&ms).quantile_ms(percent).unwrap());
            ms.sort_unstable();
            let rank = (ms.len() * percent as usize).div_ceil(100);
            let is = ms[rank - 1];
            let below = LATENCY_BOUNDS_MS.iter().rev().map(|bound| u64::from(*bound));
            let below = below.filter(|bound| *bound < said).max().unwrap_or(0);
            prop_assert!(below < is && is <= said, "{is} is not in ({below}, {said}]");
        }
    }
}

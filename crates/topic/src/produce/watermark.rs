//! Tracks which of a stream of numbered messages are acknowledged: all below the watermark.
//!
//! Acknowledgements of a partition arrive in order, but partitions overtake each other. A queue of flags, starting at
//! the first unacknowledged number, records early acknowledgements. The producer's queue bounds its length.

use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Watermark {
    /// All numbers below are acknowledged.
    low: u64,
    /// Whether `low`, `low + 1`, … are acknowledged.
    early: VecDeque<bool>,
}

impl Watermark {
    /// Returns the first number that is not acknowledged; all below are.
    pub(crate) fn low(&self) -> u64 {
        self.low
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        number.checked_sub(self.low).is_none_or(|ahead| {
            let index = usize::try_from(ahead).unwrap_or(usize::MAX);
            self.early.get(index) == Some(&true)
        })
    }

    /// Acknowledges a number; repeating it has no effect. Returns whether the watermark moved.
    pub(crate) fn acknowledge(&mut self, number: u64) -> bool {
        let Some(ahead) = number.checked_sub(self.low) else { return false };
        if ahead == 0 {
            self.early.pop_front();
            self.low += 1;
            while self.early.front() == Some(&true) {
                self.early.pop_front();
                self.low += 1;
            }
            return true;
        }
        let index = usize::try_from(ahead).unwrap_or(usize::MAX);
        if self.early.len() <= index {
            self.early.resize(index + 1, false);
        }
        self.early[index] = true;
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_watermark_is_the_first_number_missing(order in Just((0u64..64).collect::<Vec<_>>()).prop_shuffle()) {
            let mut watermark = Watermark::default();
            let mut seen = std::collections::BTreeSet::new();
            for number in order {
                seen.insert(number);
                let before = watermark.low();
                let moved = watermark.acknowledge(number);
                let missing = (0..).find(|candidate| !seen.contains(candidate)).unwrap();
                prop_assert_eq!(watermark.low(), missing);
                prop_assert_eq!(moved, missing > before);
                prop_assert!(!watermark.acknowledge(number) || watermark.low() > missing);
            }
            prop_assert!(watermark.early.is_empty());
        }
    }
}

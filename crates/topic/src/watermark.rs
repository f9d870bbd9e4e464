//! Which of a numbered stream of messages are acknowledged: all below the watermark.
//!
//! Acknowledgements arrive per partition in order, but partitions overtake each other. A ring of
//! bits from the first unacknowledged number on remembers what came early; its length is bounded
//! by the producer's queue.

use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Watermark {
    /// All numbers below are acknowledged.
    low: u64,
    /// One entry for `low`, `low + 1`, …: acknowledged already?
    early: VecDeque<bool>,
}

impl Watermark {
    /// Every number below it is acknowledged.
    pub(crate) fn low(&self) -> u64 {
        self.low
    }

    /// Marks a number; a repeated one has no effect. Says whether the watermark moved.
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

//! Sets of small numbers, one bit each.

use std::fmt;

/// A set of the numbers 1 to 8.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Numbers(u8);

impl Numbers {
    /// Returns the size of the set.
    pub fn count(self) -> u8 {
        self.0.count_ones().try_into().unwrap_or(u8::MAX)
    }

    /// Returns the union.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the numbers that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether the sets have a number in common.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The numbers, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (1..=8).filter(move |number| self.0 >> (number - 1) & 1 == 1)
    }

    pub(crate) fn lowest_free(self, count: u8) -> Self {
        (1..=8).filter(|number| self.0 >> (number - 1) & 1 == 0).take(count.into()).collect()
    }

    pub(super) fn range(after: u8, count: u8) -> Self {
        (after + 1..=after + count).filter(|number| *number <= 8).collect()
    }
}

impl FromIterator<u8> for Numbers {
    fn from_iter<I: IntoIterator<Item = u8>>(numbers: I) -> Self {
        Self(numbers.into_iter().fold(0, |set, number| set | 1 << (number - 1)))
    }
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A set of ids below 64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ids(u64);

impl Ids {
    pub fn insert(&mut self, id: u8) {
        self.0 |= 1 << id;
    }

    pub fn remove(&mut self, id: u8) {
        self.0 &= !(1 << id);
    }

    /// The ids, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |id| self.0 >> id & 1 == 1)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

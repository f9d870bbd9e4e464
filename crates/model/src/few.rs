//! A short inline list. States are copied and hashed by the million, so they own no heap memory.

use std::hash::{Hash, Hasher};

/// At most `N` items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Few<T, const N: usize> {
    /// Items beyond `count` are defaults, so that equal lists have equal bytes.
    items: [T; N],
    count: u8,
}

impl<T: Hash, const N: usize> Hash for Few<T, N> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.count.hash(hasher);
        for item in &self.items[..usize::from(self.count)] {
            item.hash(hasher);
        }
    }
}

impl<T: Copy + Default, const N: usize> Default for Few<T, N> {
    fn default() -> Self {
        Self { items: [T::default(); N], count: 0 }
    }
}

impl<T: Copy + Default, const N: usize> Few<T, N> {
    /// Returns the items, oldest first.
    pub fn as_slice(&self) -> &[T] {
        &self.items[..usize::from(self.count)]
    }

    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.items[..usize::from(self.count)]
    }

    /// Appends an item.
    ///
    /// # Panics
    /// The list is full: the capacity is too small for the explored bounds.
    pub fn push(&mut self, item: T) {
        self.items[usize::from(self.count)] = item;
        self.count += 1;
    }

    /// Removes an item.
    ///
    /// # Panics
    /// There is no item at `index`.
    pub fn remove(&mut self, index: usize) {
        let count = usize::from(self.count);
        self.items[index..count].rotate_left(1);
        self.count -= 1;
        self.items[count - 1] = T::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_are_equal_whatever_was_in_them() {
        let mut one: Few<u8, 3> = Few::default();
        for item in [7, 8, 9] {
            one.push(item);
        }
        one.remove(1);
        one.remove(1);
        let mut other = Few::default();
        other.push(7);
        assert_eq!(one, other);
        assert_eq!(one.as_slice(), [7]);
    }
}

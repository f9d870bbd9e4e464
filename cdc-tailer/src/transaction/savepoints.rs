//! The savepoints of an open transaction, by name and by order.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::transaction::row_buffer::BufferPosition;

/// Savepoints kept of one transaction: some four megabytes with the longest names. A client may set any number of
/// savepoints under new names, and the binlog does not show their release. So the oldest are forgotten.
pub(super) const KEPT_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Savepoints {
    /// In the order in which they were set.
    in_order: BTreeMap<u64, (Arc<str>, BufferPosition)>,
    /// Their keys in `in_order`.
    by_name: HashMap<Arc<str>, u64>,
    next: u64,
    /// Number of names that are not ASCII.
    beyond_ascii: usize,
    /// Whether there were more than [`KEPT_MAX`].
    has_forgotten: bool,
}

/// Why the position of a savepoint is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missed {
    /// The names are not ASCII, and it is unknown which of them the server treats as equal.
    Ambiguous,
    /// The savepoint may be one of the forgotten ones.
    Forgotten,
    /// The savepoint was never set.
    Unknown,
}

impl Savepoints {
    /// Sets a savepoint; replaces one of the same name.
    pub(super) fn set(&mut self, name: &[u8], at: BufferPosition) {
        let name: Arc<str> = normalized(name).into();
        if let Some(replaced) = self.unname(&name) {
            self.in_order.remove(&replaced);
        }
        self.beyond_ascii += usize::from(!name.is_ascii());
        self.by_name.insert(Arc::clone(&name), self.next);
        self.in_order.insert(self.next, (name, at));
        self.next += 1;
        if self.in_order.len() > KEPT_MAX
            && let Some((_, (oldest, _))) = self.in_order.pop_first()
        {
            self.unname(&oldest);
            self.has_forgotten = true;
        }
    }

    /// Returns the position of a savepoint, and drops the savepoints after it.
    pub(super) fn roll_back_to(&mut self, name: &[u8]) -> Result<BufferPosition, Missed> {
        if self.in_order.len() > 1 && self.beyond_ascii > 0 {
            return Err(Missed::Ambiguous);
        }
        let known = self.by_name.get(normalized(name).as_str()).copied();
        let known = known.and_then(|number| Some((number, self.in_order.get(&number)?.1)));
        let Some((number, at)) = known else {
            return Err(if self.has_forgotten { Missed::Forgotten } else { Missed::Unknown });
        };
        while let Some(last) = self.in_order.last_entry()
            && *last.key() > number
        {
            let (later, _) = last.remove();
            self.unname(&later);
        }
        Ok(at)
    }

    fn unname(&mut self, name: &str) -> Option<u64> {
        let number = self.by_name.remove(name)?;
        self.beyond_ascii -= usize::from(!name.is_ascii());
        Some(number)
    }
}

/// Normalizes the name of a savepoint: the server ignores case.
fn normalized(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transaction::row_buffer::RowBuffer;

    fn set(savepoints: &mut Savepoints, name: &str) {
        savepoints.set(name.as_bytes(), RowBuffer::default().position());
    }

    #[test]
    fn savepoints_of_ever_new_names_take_neither_more_memory_nor_more_time() {
        const SET: usize = 1_000_000;
        let mut savepoints = Savepoints::default();
        for number in 0..SET {
            set(&mut savepoints, &format!("s{number}"));
        }
        assert_eq!(savepoints.in_order.len(), KEPT_MAX);
        assert_eq!(savepoints.by_name.len(), KEPT_MAX);
        let oldest = format!("s{}", SET - KEPT_MAX);
        assert!(savepoints.roll_back_to(oldest.as_bytes()).is_ok());
        assert_eq!((savepoints.in_order.len(), savepoints.by_name.len()), (1, 1));
        assert_eq!(savepoints.roll_back_to(b"s0"), Err(Missed::Forgotten));
    }

    #[test]
    fn a_savepoint_that_is_set_again_replaces_the_older_one() {
        let mut savepoints = Savepoints::default();
        for _ in 0..100_000 {
            set(&mut savepoints, "Place");
            set(&mut savepoints, "other");
        }
        assert_eq!((savepoints.in_order.len(), savepoints.by_name.len()), (2, 2));
        assert!(savepoints.roll_back_to(b"PLACE").is_ok());
        assert_eq!(savepoints.roll_back_to(b"other"), Err(Missed::Unknown), "it came later");
    }

    #[test]
    fn names_beyond_ascii_are_ambiguous_as_long_as_there_are_several() {
        let mut savepoints = Savepoints::default();
        set(&mut savepoints, "é");
        assert!(savepoints.roll_back_to("É".as_bytes()).is_ok());
        set(&mut savepoints, "two");
        assert_eq!(savepoints.roll_back_to(b"two"), Err(Missed::Ambiguous));
    }
}

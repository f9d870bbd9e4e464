//! When each owned shard has to be looked at next: wake-ups and assignments, folded.
//!
//! A look at the index replaces all that was known of a shard, because the index is the truth. But a
//! change is in the binlog a moment before it is in the tables, so a wake-up can be faster than its
//! coupon: a look in between would forget it. Hence each shard that was woken is looked at once more,
//! when every coupon that it was woken for is in the tables.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use coupon::expiry_shards;
use topic::ExpiryWakeUp;

/// The next deadline of each owned shard. It may be too early, never too late: whoever looks too
/// early finds nothing due and reads the index again.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    partitions: i32,
    /// Owned shards; `None`: no unused coupon is known.
    next: BTreeMap<u8, Option<DateTime<Utc>>>,
    /// Shards woken since the last second look.
    woken: BTreeSet<u8>,
    /// Shards woken before it.
    settled: BTreeSet<u8>,
}

impl Deadlines {
    /// Deadlines of no shard yet, for a topic of that many partitions.
    pub(crate) fn new(partitions: i32) -> Self {
        Self { partitions, ..Self::default() }
    }

    /// The owned partitions have changed. Shards that are new are to be looked at now: what their
    /// former owner knew is gone, the index knows it all.
    pub(crate) fn assign(&mut self, owned: &[i32]) {
        self.next = shards_of(owned, self.partitions)
            .map(|shard| {
                (shard, self.next.get(&shard).copied().unwrap_or(Some(DateTime::UNIX_EPOCH)))
            })
            .collect();
    }

    /// A wake-up has come. One of a shard that is not owned (any more, or yet) changes nothing: its
    /// owner reads the index after the coupon was committed.
    pub(crate) fn fold(&mut self, wake_up: ExpiryWakeUp) {
        let Some(deadline) = DateTime::from_timestamp_millis(wake_up.deadline_ms) else { return };
        if self.next.contains_key(&wake_up.shard) {
            self.woken.insert(wake_up.shard);
            self.lower(wake_up.shard, deadline);
        }
    }

    /// The shard has to be looked at by `deadline`; a later one known gives way.
    fn lower(&mut self, shard: u8, deadline: DateTime<Utc>) {
        let Some(next) = self.next.get_mut(&shard) else { return };
        if next.is_none_or(|known| deadline < known) {
            *next = Some(deadline);
        }
    }

    /// The shard has to be looked at now.
    pub(crate) fn look_now(&mut self, shard: u8) {
        self.lower(shard, DateTime::UNIX_EPOCH);
    }

    /// Called at an interval longer than a commit's way from the binlog to the tables: shards that
    /// were woken before the last call have to be looked at now.
    pub(crate) fn look_twice(&mut self) {
        for shard in std::mem::take(&mut self.settled) {
            self.look_now(shard);
        }
        self.settled = std::mem::take(&mut self.woken);
    }

    /// What the index says after a look, in place of all that was known.
    pub(crate) fn set(&mut self, shard: u8, deadline: Option<DateTime<Utc>>) {
        if let Some(next) = self.next.get_mut(&shard) {
            *next = deadline;
        }
    }

    /// The shard to be looked at first, and when.
    pub(crate) fn earliest(&self) -> Option<(u8, DateTime<Utc>)> {
        self.known().min_by_key(|(_, deadline)| *deadline)
    }

    /// The shards to be looked at by `now`, at most `most`, the earliest first.
    pub(crate) fn due(&self, now: DateTime<Utc>, most: usize) -> Vec<u8> {
        let mut due: Vec<_> = self.known().filter(|(_, deadline)| *deadline <= now).collect();
        due.sort_by_key(|(_, deadline)| *deadline);
        due.into_iter().map(|(shard, _)| shard).take(most).collect()
    }

    fn known(&self) -> impl Iterator<Item = (u8, DateTime<Utc>)> {
        self.next.iter().filter_map(|(shard, next)| Some((*shard, (*next)?)))
    }

    /// The owned shards and what is known of each.
    pub(crate) fn shards(&self) -> Vec<(u8, Option<DateTime<Utc>>)> {
        self.next.iter().map(|(shard, next)| (*shard, *next)).collect()
    }
}

/// The shards of the owned partitions: shard s belongs to partition s modulo their number.
pub(crate) fn shards_of(owned: &[i32], partitions: i32) -> impl Iterator<Item = u8> {
    expiry_shards().filter(move |shard| owned.contains(&(i32::from(*shard) % partitions.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(ms).unwrap()
    }

    fn wake(shard: u8, deadline_ms: i64) -> ExpiryWakeUp {
        ExpiryWakeUp { shard, deadline_ms }
    }

    #[test]
    fn a_new_shard_is_looked_at_now_and_one_that_stays_keeps_its_deadline() {
        let mut deadlines = Deadlines::new(32);
        deadlines.assign(&[3]);
        assert_eq!(deadlines.shards().len(), 2, "shards 3 and 35");
        assert_eq!(deadlines.earliest(), Some((3, DateTime::UNIX_EPOCH)));
        deadlines.set(3, Some(at(500)));
        deadlines.set(35, None);
        deadlines.assign(&[3, 4]);
        assert_eq!(deadlines.earliest(), Some((4, DateTime::UNIX_EPOCH)));
        deadlines.assign(&[3]);
        assert_eq!(deadlines.earliest(), Some((3, at(500))));
        deadlines.assign(&[]);
        assert_eq!(deadlines.earliest(), None);
    }

    #[test]
    fn the_shards_that_are_due_come_in_the_order_of_their_deadlines() {
        let mut deadlines = Deadlines::new(64);
        deadlines.assign(&[1, 2, 3, 4]);
        for (shard, deadline) in [(1, Some(300)), (2, Some(100)), (3, None), (4, Some(200))] {
            deadlines.set(shard, deadline.map(at));
        }
        assert!(deadlines.due(at(99), 4).is_empty());
        assert_eq!(deadlines.due(at(200), 4), [2, 4]);
        assert_eq!(deadlines.due(at(300), 2), [2, 4]);
    }

    #[test]
    fn wake_ups_only_lower_the_deadline_of_an_owned_shard() {
        let mut deadlines = Deadlines::new(64);
        deadlines.assign(&[1, 2]);
        deadlines.set(1, None);
        deadlines.set(2, Some(at(900)));
        deadlines.fold(wake(1, 700));
        deadlines.fold(wake(1, 800));
        deadlines.fold(wake(2, 950));
        deadlines.fold(wake(3, 100));
        deadlines.fold(wake(200, 100));
        deadlines.fold(wake(2, i64::MAX));
        assert_eq!(deadlines.shards(), [(1, Some(at(700))), (2, Some(at(900)))]);
    }

    #[test]
    fn a_woken_shard_is_looked_at_again_when_its_coupon_must_be_there() {
        let mut deadlines = Deadlines::new(64);
        deadlines.assign(&[1, 2]);
        deadlines.set(1, None);
        deadlines.set(2, None);
        deadlines.fold(wake(1, 700));
        // The index knew nothing yet.
        deadlines.set(1, None);
        deadlines.look_twice();
        assert_eq!(deadlines.earliest(), None, "too soon");
        deadlines.fold(wake(2, 900));
        deadlines.look_twice();
        assert_eq!(deadlines.earliest(), Some((1, DateTime::UNIX_EPOCH)));
        deadlines.set(1, None);
        assert_eq!(deadlines.earliest(), Some((2, at(900))));
        deadlines.look_twice();
        assert_eq!(deadlines.earliest(), Some((2, DateTime::UNIX_EPOCH)));
        deadlines.set(2, None);
        deadlines.look_twice();
        assert_eq!(deadlines.earliest(), None, "once");
    }
}

//! The next deadline of each shard, combined from wake-ups, assignments and reads of the index.
//!
//! A read of the index replaces everything known about a shard. But a change appears in the binlog a moment before it
//! is visible in the tables, so a wake-up can arrive before its coupon, and a read in between would lose it. Therefore
//! each woken shard is read once more, when every coupon that it was woken for must be visible.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use chrono::{DateTime, Utc};
use coupon::{EXPIRY_SHARDS, expiry_shards};
use topic::ExpiryWakeUp;

/// The next deadline of each watched shard, which includes all owned ones. A deadline may be too early, but never too
/// late unless its shard was put off: on an early one the worker finds nothing due and reads the index again.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    partitions: i32,
    /// The previous partition count, while the group may still assign by it.
    former: Option<i32>,
    /// The watched shards; `None` if no coupon with a deadline is known.
    next: BTreeMap<u8, Option<DateTime<Utc>>>,
    /// The watched shards that the group assigned to us.
    owned: BTreeSet<u8>,
    /// The watched shards taken over because their owner did not drain them.
    adopted: BTreeSet<u8>,
    /// Shards woken since the last call of [`Self::look_twice`].
    woken: BTreeSet<u8>,
    /// Shards woken before that call and after the one before it; the next call reads them once more.
    woken_before: BTreeSet<u8>,
    /// The last turn of each shard.
    turns: BTreeMap<u8, u64>,
    /// Turns given so far.
    turn: u64,
    /// Shards that are tried again later: their deadline is not that of the index.
    put_off: BTreeSet<u8>,
}

impl Deadlines {
    /// Starts without shards, for a topic with this many partitions.
    pub(crate) fn new(partitions: i32) -> Self {
        Self { partitions, ..Self::default() }
    }

    /// Applies a new set of owned partitions. All their shards are due at once: their wake-ups may have gone to another
    /// worker, the index has all deadlines, and a read is one seek. Other shards are dropped.
    pub(crate) fn assign(&mut self, owned: &[i32]) {
        self.owned = shards_of(owned, self.partitions).collect();
        self.adopted.clear();
        let before = self.former.map(|former| shards_of(owned, former));
        let watched = self.owned.iter().copied().chain(before.into_iter().flatten());
        self.next = watched.map(|shard| (shard, Some(DateTime::UNIX_EPOCH))).collect();
    }

    /// Applies the topic's current partition count, and returns whether it has changed. The group does not say by which
    /// count it assigned, so until [`Self::settle`] the shards of both counts are watched.
    pub(crate) fn count_partitions(&mut self, partitions: i32, owned: &[i32]) -> bool {
        if self.partitions == partitions {
            return false;
        }
        self.former = Some(std::mem::replace(&mut self.partitions, partitions));
        self.assign(owned);
        true
    }

    /// Records that the group assigns by the current partition count.
    pub(crate) fn settle(&mut self, owned: &[i32]) {
        if self.former.take().is_some() {
            self.assign(owned);
        }
    }

    /// Whether the group may still assign by the previous partition count. Then wake-ups may wait in partitions that no
    /// worker reads.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.former.is_some()
    }

    /// Folds in a wake-up. A shard that is not owned is watched too: a sender that sees another partition count may
    /// have sent it here, and its owner does not receive it. Two workers on one shard do no harm.
    pub(crate) fn fold(&mut self, wake_up: ExpiryWakeUp) {
        let Some(deadline) = DateTime::from_timestamp_millis(wake_up.deadline_ms) else { return };
        if i64::from(wake_up.shard) < EXPIRY_SHARDS {
            self.next.entry(wake_up.shard).or_default();
            self.woken.insert(wake_up.shard);
            self.lower(wake_up.shard, deadline);
        }
    }

    /// Watches a shard that its owner neglects, until [`Self::give_back`] or the next assignment.
    pub(crate) fn adopt(&mut self, shard: u8) {
        self.next.entry(shard).or_default();
        self.adopted.insert(shard);
        self.look_now(shard);
    }

    /// Whether the shard was taken over.
    pub(crate) fn is_adopted(&self, shard: u8) -> bool {
        self.adopted.contains(&shard)
    }

    /// Leaves a shard that was taken over to its owner again, unless a wake-up for it came here.
    pub(crate) fn give_back(&mut self, shard: u8) {
        let is_woken = self.woken.contains(&shard) || self.woken_before.contains(&shard);
        if self.adopted.remove(&shard) && !is_woken {
            self.next.remove(&shard);
            self.put_off.remove(&shard);
        }
    }

    /// Number of shards that the group assigned to us.
    pub(crate) fn owned(&self) -> usize {
        self.owned.len()
    }

    /// Makes every watched shard due now.
    pub(crate) fn look_at_all(&mut self) {
        self.next.values_mut().for_each(|next| *next = Some(DateTime::UNIX_EPOCH));
    }

    /// Lowers the shard's deadline to `deadline`, unless it is earlier already.
    fn lower(&mut self, shard: u8, deadline: DateTime<Utc>) {
        let Some(next) = self.next.get_mut(&shard) else { return };
        if next.is_none_or(|known| deadline < known) {
            *next = Some(deadline);
        }
    }

    /// Makes the shard due now.
    pub(crate) fn look_now(&mut self, shard: u8) {
        self.lower(shard, DateTime::UNIX_EPOCH);
    }

    /// Makes shards due now that were woken before the previous call. Call it at an interval longer than a commit takes
    /// from the binlog to the tables.
    pub(crate) fn look_twice(&mut self) {
        for shard in std::mem::take(&mut self.woken_before) {
            self.look_now(shard);
        }
        self.woken_before = std::mem::take(&mut self.woken);
    }

    /// Replaces the shard's deadline by the one read from the index.
    pub(crate) fn set(&mut self, shard: u8, deadline: Option<DateTime<Utc>>) {
        self.put_off.remove(&shard);
        if let Some(next) = self.next.get_mut(&shard) {
            *next = deadline;
        }
    }

    /// Postpones the shard until `again`: some of its coupons are due and cannot end now.
    pub(crate) fn put_off(&mut self, shard: u8, again: DateTime<Utc>) {
        self.set(shard, Some(again));
        self.put_off.insert(shard);
    }

    /// Whether the shard has due coupons that could not end when it was last drained.
    pub(crate) fn is_put_off(&self, shard: u8) -> bool {
        self.put_off.contains(&shard)
    }

    /// The shard with the earliest deadline, and that deadline.
    pub(crate) fn earliest(&self) -> Option<(u8, DateTime<Utc>)> {
        self.known().min_by_key(|(_, deadline)| *deadline)
    }

    /// How long until the earliest deadline; zero if it has passed.
    pub(crate) fn wait(&self, now: DateTime<Utc>) -> Option<Duration> {
        let (_, deadline) = self.earliest()?;
        Some(deadline.signed_duration_since(now).to_std().unwrap_or(Duration::ZERO))
    }

    /// At most `most` shards with a deadline at or before `now`. The one whose last turn is longest ago comes first, so
    /// a shard with a million due coupons delays no other by more than a turn.
    pub(crate) fn take_turns(&mut self, now: DateTime<Utc>, most: usize) -> Vec<u8> {
        let mut due: Vec<_> = self.known().filter(|(_, deadline)| *deadline <= now).collect();
        due.sort_by_key(|(shard, deadline)| (self.turns.get(shard).copied(), *deadline));
        let due: Vec<u8> = due.into_iter().map(|(shard, _)| shard).take(most).collect();
        for shard in &due {
            self.turn += 1;
            self.turns.insert(*shard, self.turn);
        }
        due
    }

    fn known(&self) -> impl Iterator<Item = (u8, DateTime<Utc>)> {
        self.next.iter().filter_map(|(shard, next)| Some((*shard, (*next)?)))
    }

    /// The watched shards and their deadlines.
    pub(crate) fn shards(&self) -> Vec<(u8, Option<DateTime<Utc>>)> {
        self.next.iter().map(|(shard, next)| (*shard, *next)).collect()
    }
}

/// The shards of the owned partitions: shard s belongs to partition s modulo the partition count.
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
    fn each_deal_makes_every_own_shard_due_and_drops_the_others() {
        let mut deadlines = Deadlines::new(32);
        deadlines.assign(&[3]);
        assert_eq!(deadlines.shards().len(), 2, "shards 3 and 35");
        assert_eq!(deadlines.earliest(), Some((3, DateTime::UNIX_EPOCH)));
        deadlines.set(3, Some(at(500)));
        deadlines.set(35, None);
        let anew = Some(DateTime::UNIX_EPOCH);
        deadlines.assign(&[3, 4]);
        assert_eq!(deadlines.shards(), [(3, anew), (4, anew), (35, anew), (36, anew)]);
        deadlines.set(3, Some(at(500)));
        deadlines.assign(&[3]);
        assert_eq!(deadlines.shards(), [(3, anew), (35, anew)]);
        deadlines.assign(&[]);
        assert_eq!(deadlines.earliest(), None);
    }

    #[test]
    fn the_shards_that_are_due_take_turns_and_begin_in_the_order_of_their_deadlines() {
        let mut deadlines = Deadlines::new(64);
        deadlines.assign(&[1, 2, 3, 4, 5]);
        let all = [(1, Some(300)), (2, Some(100)), (3, None), (4, Some(200)), (5, Some(900))];
        for (shard, deadline) in all {
            deadlines.set(shard, deadline.map(at));
        }
        assert!(deadlines.take_turns(at(99), 4).is_empty());
        assert_eq!(deadlines.take_turns(at(200), 1), [2]);
        assert_eq!(deadlines.take_turns(at(300), 2), [4, 1]);
        // None of them is drained, and one more is due.
        assert_eq!(deadlines.take_turns(at(900), 2), [5, 2]);
        assert_eq!(deadlines.take_turns(at(900), 2), [4, 1]);
        assert_eq!(deadlines.take_turns(at(900), 9), [5, 2, 4, 1]);
        deadlines.set(5, None);
        assert_eq!(deadlines.take_turns(at(900), 1), [2]);
    }

    #[test]
    fn wake_ups_only_lower_a_deadline_and_one_of_another_shard_is_heard_until_the_next_deal() {
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
        assert_eq!(
            deadlines.shards(),
            [(1, Some(at(700))), (2, Some(at(900))), (3, Some(at(100)))]
        );
        assert_eq!(deadlines.owned(), 2);
        deadlines.assign(&[1, 2]);
        let anew = Some(DateTime::UNIX_EPOCH);
        assert_eq!(deadlines.shards(), [(1, anew), (2, anew)]);
    }

    #[test]
    fn with_other_partitions_the_shards_of_both_counts_are_watched_until_the_group_deals_by_the_new_one()
     {
        let mut deadlines = Deadlines::new(32);
        deadlines.assign(&[3]);
        deadlines.set(3, Some(at(500)));
        deadlines.set(35, None);
        assert!(!deadlines.count_partitions(32, &[3]));
        assert_eq!(deadlines.shards(), [(3, Some(at(500))), (35, None)]);
        assert!(deadlines.count_partitions(64, &[3]) && deadlines.is_unsettled());
        let anew = Some(DateTime::UNIX_EPOCH);
        assert_eq!(deadlines.shards(), [(3, anew), (35, anew)]);
        assert_eq!(deadlines.owned(), 1, "by the new count");
        deadlines.assign(&[3, 40]);
        assert_eq!(deadlines.shards(), [(3, anew), (35, anew), (40, anew)]);
        deadlines.settle(&[3, 40]);
        assert_eq!(deadlines.shards(), [(3, anew), (40, anew)]);
        deadlines.set(3, Some(at(500)));
        deadlines.settle(&[3, 40]);
        assert_eq!(deadlines.earliest(), Some((40, DateTime::UNIX_EPOCH)), "once");
        assert!(!deadlines.is_unsettled());
    }

    #[test]
    fn a_shard_that_was_put_off_is_looked_at_again_and_an_earlier_wake_up_is_heeded() {
        let mut deadlines = Deadlines::new(64);
        deadlines.assign(&[1]);
        deadlines.put_off(1, at(900));
        assert!(deadlines.is_put_off(1));
        deadlines.fold(wake(1, 700));
        assert_eq!(deadlines.earliest(), Some((1, at(700))));
        assert!(deadlines.is_put_off(1), "it was not drained yet");
        deadlines.set(1, None);
        assert!(!deadlines.is_put_off(1));
    }

    #[test]
    fn a_shard_that_was_taken_on_is_given_back_when_it_is_drained_or_at_the_next_deal() {
        let mut deadlines = Deadlines::new(64);
        deadlines.assign(&[1]);
        deadlines.set(1, None);
        deadlines.adopt(5);
        assert_eq!(deadlines.earliest(), Some((5, DateTime::UNIX_EPOCH)));
        assert!(deadlines.is_adopted(5) && deadlines.owned() == 1);
        deadlines.put_off(5, at(900));
        deadlines.give_back(5);
        deadlines.give_back(1);
        assert!(!deadlines.is_adopted(5) && !deadlines.is_put_off(5));
        assert_eq!(deadlines.shards(), [(1, None)], "its own stays");
        deadlines.adopt(5);
        deadlines.assign(&[1]);
        assert!(!deadlines.is_adopted(5));
        assert_eq!(deadlines.shards(), [(1, Some(DateTime::UNIX_EPOCH))]);
    }

    #[test]
    fn a_shard_that_was_taken_on_and_woken_here_is_watched_on() {
        let mut deadlines = Deadlines::new(64);
        deadlines.assign(&[1]);
        deadlines.adopt(5);
        deadlines.fold(wake(5, 700));
        deadlines.set(5, Some(at(700)));
        deadlines.give_back(5);
        assert!(!deadlines.is_adopted(5));
        assert_eq!(deadlines.shards()[1], (5, Some(at(700))));
    }

    #[test]
    fn a_woken_shard_is_looked_at_again_when_its_coupon_must_be_there() {
        let mut deadlines = Deadlines::new(64);
        deadlines.assign(&[1, 2]);
        deadlines.set(1, None);
        deadlines.set(2, None);
        deadlines.fold(wake(1, 700));
        // The index does not show the coupon yet.
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

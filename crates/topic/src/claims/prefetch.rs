//! The messages that a reader holds of each partition: those that wait, and the batch in progress.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    ops::Bound,
};

use super::reader::{LaneBatch, LaneMessage};

/// The messages held of all partitions.
#[derive(Debug)]
pub(super) struct Prefetch<T> {
    lanes: BTreeMap<i32, Lane<T>>,
    /// Partition of the last batch, so that partitions take turns.
    last: i32,
    /// The partitions owned at the last [`Prefetch::keep`].
    owned: Vec<i32>,
    /// Newly owned partitions: the client may have paused fetching them under an earlier ownership.
    new: Vec<i32>,
}

/// Partitions to stop fetching, and partitions to fetch again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fetching {
    pub(super) stop: Vec<i32>,
    pub(super) go_on: Vec<i32>,
}

#[derive(Debug)]
struct Lane<T> {
    waiting: VecDeque<LaneMessage<T>>,
    /// Offset after the last message that arrived.
    end: i64,
    /// The batch handed out and not done: its first offset, and the one after its last.
    out: Option<(i64, i64)>,
    /// Whether the next batch may follow although one is out.
    is_passed: bool,
    /// Whether its fetching was paused.
    is_stopped: bool,
}

// Not derived: that would require `T: Default`.
impl<T> Default for Prefetch<T> {
    fn default() -> Self {
        Self { lanes: BTreeMap::new(), last: 0, owned: Vec::new(), new: Vec::new() }
    }
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), end: 0, out: None, is_passed: false, is_stopped: false }
    }
}

impl<T> Prefetch<T> {
    /// Adds a message that arrived.
    pub(super) fn push(&mut self, partition: i32, message: LaneMessage<T>) {
        let lane = self.lanes.entry(partition).or_default();
        if message.offset < lane.end {
            // The partition was lost and came back: it begins where its last owner stopped.
            *lane = Lane::default();
        }
        lane.end = message.offset + 1;
        lane.waiting.push_back(message);
        // A message arrived, so the client fetches it again.
        lane.is_stopped = false;
    }

    /// Drops the messages of all other partitions.
    pub(super) fn keep(&mut self, partitions: &[i32]) {
        if self.owned == partitions {
            return;
        }
        self.lanes.retain(|partition, _| partitions.contains(partition));
        self.new.retain(|partition| partitions.contains(partition));
        let new = partitions.iter().filter(|partition| !self.owned.contains(partition));
        self.new.extend(new);
        self.owned = partitions.to_vec();
    }

    /// Returns how fetching changes, if `share` messages of a partition may wait. Each partition has its own share, so
    /// the backlog of one does not delay others.
    pub(super) fn fetching(&mut self, share: usize) -> Fetching {
        let mut fetching = Fetching { stop: Vec::new(), go_on: mem::take(&mut self.new) };
        for (partition, lane) in &mut self.lanes {
            let waiting = lane.waiting.len();
            if waiting >= share && !lane.is_stopped {
                lane.is_stopped = true;
                fetching.stop.push(*partition);
            } else if waiting <= share / 2 && lane.is_stopped {
                // Half, so that the client pauses and resumes once for many messages.
                lane.is_stopped = false;
                fetching.go_on.push(*partition);
            }
        }
        fetching
    }

    /// Lets a partition hand out its next batch although one is out. Returns whether that changes anything.
    pub(super) fn pass(&mut self, partition: i32) -> bool {
        let lane = self.lanes.get_mut(&partition).filter(|lane| lane.out.is_some());
        lane.is_some_and(|lane| !mem::replace(&mut lane.is_passed, true))
    }

    /// Hands out up to `max` messages of the next partition that has no batch out, or whose batch was passed; `None` if
    /// no such message waits.
    pub(super) fn take(&mut self, max: usize) -> Option<LaneBatch<T>> {
        let is_next =
            |lane: &Lane<T>| (lane.out.is_none() || lane.is_passed) && !lane.waiting.is_empty();
        let behind = self.lanes.range((Bound::Excluded(self.last), Bound::Unbounded));
        let before = self.lanes.range(..=self.last);
        let partition = *behind.chain(before).find(|(_, lane)| is_next(lane))?.0;
        let lane = self.lanes.get_mut(&partition)?;
        let messages: Vec<_> = lane.waiting.drain(..max.clamp(1, lane.waiting.len())).collect();
        let first = messages.first()?.offset;
        let last = messages.last()?.offset;
        let undone = lane.out.map_or(first, |(undone, _)| undone);
        (lane.out, lane.is_passed) = (Some((undone, last + 1)), false);
        self.last = partition;
        Some(LaneBatch { partition, messages })
    }

    /// Records that everything before `next_offset` is done. Returns whether the offset belongs to the batch that is
    /// out, and may be stored.
    pub(super) fn done(&mut self, partition: i32, next_offset: i64) -> bool {
        let Some(lane) = self.lanes.get_mut(&partition) else { return false };
        let Some((first, end)) = lane.out else { return false };
        if next_offset <= first || next_offset > end {
            return false;
        }
        lane.out = (next_offset < end).then_some((next_offset, end));
        true
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn filled(offsets: &[(i32, i64)]) -> Prefetch<()> {
        let mut prefetch = Prefetch::default();
        for (partition, offset) in offsets {
            prefetch.push(*partition, message(*offset));
        }
        prefetch
    }

    fn message(offset: i64) -> LaneMessage<()> {
        let at = DateTime::UNIX_EPOCH;
        let key = Vec::new();
        let body = Err(Vec::new());
        LaneMessage { offset, at, key, body }
    }

    fn taken(prefetch: &mut Prefetch<()>, max: usize) -> Option<(i32, Vec<i64>)> {
        let batch = prefetch.take(max)?;
        Some((batch.partition, batch.messages.iter().map(|message| message.offset).collect()))
    }

    #[test]
    fn partitions_take_turns_and_none_has_two_batches_out() {
        let mut prefetch = filled(&[(0, 5), (0, 6), (0, 7), (3, 1), (3, 2)]);
        assert_eq!(taken(&mut prefetch, 2), Some((3, vec![1, 2])));
        assert_eq!(taken(&mut prefetch, 2), Some((0, vec![5, 6])));
        assert_eq!(taken(&mut prefetch, 2), None, "one message waits, behind a batch");
        assert!(prefetch.done(0, 6));
        assert_eq!(taken(&mut prefetch, 2), None, "half of it is done");
        assert!(prefetch.done(0, 7) && prefetch.done(3, 3));
        assert_eq!(taken(&mut prefetch, 2), Some((0, vec![7])));
        assert_eq!(taken(&mut prefetch, 2), None);
    }

    #[test]
    fn a_batch_that_is_passed_is_followed_by_one_more_and_what_is_done_counts_from_the_first() {
        let mut prefetch = filled(&[(0, 5), (0, 6), (0, 7), (0, 8), (0, 9)]);
        assert!(!prefetch.pass(0), "nothing is out");
        assert_eq!(taken(&mut prefetch, 2), Some((0, vec![5, 6])));
        assert!(prefetch.pass(0) && !prefetch.pass(0));
        assert_eq!(taken(&mut prefetch, 2), Some((0, vec![7, 8])));
        assert_eq!(taken(&mut prefetch, 2), None, "passed once");
        assert!(!prefetch.done(0, 5), "the first of all is not done");
        assert!(prefetch.done(0, 8) && !prefetch.done(0, 7));
        assert_eq!(taken(&mut prefetch, 2), None);
        assert!(prefetch.done(0, 9));
        assert_eq!(taken(&mut prefetch, 2), Some((0, vec![9])));
    }

    #[test]
    fn nothing_is_done_that_is_not_out() {
        let mut prefetch = filled(&[(0, 5), (0, 6)]);
        assert!(!prefetch.done(0, 6));
        assert_eq!(taken(&mut prefetch, 1), Some((0, vec![5])));
        assert!(!prefetch.done(0, 5) && !prefetch.done(0, 7) && !prefetch.done(1, 6));
        assert!(prefetch.done(0, 6) && !prefetch.done(0, 6));
    }

    #[test]
    fn a_partition_that_was_lost_takes_along_what_was_held_of_it() {
        let mut prefetch = filled(&[(0, 5), (0, 6), (0, 7), (1, 9)]);
        assert_eq!(taken(&mut prefetch, 1), Some((1, vec![9])));
        assert_eq!(taken(&mut prefetch, 1), Some((0, vec![5])));
        prefetch.keep(&[1]);
        assert!(!prefetch.done(0, 6), "another member's");
        assert!(prefetch.done(1, 10));
        assert_eq!(taken(&mut prefetch, 9), None, "nothing waits");
    }

    #[test]
    fn a_partition_is_fetched_until_its_share_waits_and_again_when_half_of_it_is_taken() {
        let mut prefetch = filled(&[(0, 5), (0, 6), (0, 7), (1, 9)]);
        let changed =
            |stop: &[i32], go_on: &[i32]| Fetching { stop: stop.to_vec(), go_on: go_on.to_vec() };
        assert_eq!(prefetch.fetching(4), changed(&[], &[]));
        prefetch.push(0, message(8));
        assert_eq!(prefetch.fetching(4), changed(&[0], &[]));
        assert_eq!(prefetch.fetching(4), changed(&[], &[]), "told once");
        assert_eq!(taken(&mut prefetch, 1), Some((1, vec![9])));
        assert_eq!(taken(&mut prefetch, 1), Some((0, vec![5])));
        assert_eq!(prefetch.fetching(4), changed(&[], &[]));
        assert!(prefetch.done(0, 6));
        assert_eq!(taken(&mut prefetch, 1), Some((0, vec![6])));
        assert_eq!(prefetch.fetching(4), changed(&[], &[0]));
        (9..13).for_each(|offset| prefetch.push(0, message(offset)));
        assert_eq!(prefetch.fetching(4), changed(&[0], &[]));
        prefetch.push(0, message(13));
        assert_eq!(prefetch.fetching(4), changed(&[0], &[]), "it came on all the same");
    }

    /// The client keeps a partition paused across a rebalance.
    #[test]
    fn a_partition_that_is_owned_anew_is_fetched() {
        let mut prefetch = Prefetch::default();
        prefetch.keep(&[0, 1]);
        assert_eq!(prefetch.fetching(1).go_on, [0, 1]);
        prefetch.keep(&[0, 1]);
        prefetch.push(0, message(5));
        assert_eq!(prefetch.fetching(1), Fetching { stop: vec![0], go_on: vec![] });
        prefetch.keep(&[1]);
        prefetch.keep(&[0, 1]);
        assert_eq!(prefetch.fetching(1), Fetching { stop: vec![], go_on: vec![0] });
    }

    /// A partition may be lost and assigned again between two calls of [`Prefetch::keep`].
    #[test]
    fn a_partition_that_came_back_begins_anew() {
        let mut prefetch = filled(&[(0, 5), (0, 6), (0, 7)]);
        assert_eq!(taken(&mut prefetch, 1), Some((0, vec![5])));
        prefetch.push(0, message(5));
        assert!(!prefetch.done(0, 7), "it was not given out again");
        assert_eq!(taken(&mut prefetch, 9), Some((0, vec![5])));
        prefetch.push(0, message(6));
        assert!(prefetch.done(0, 6));
        assert_eq!(taken(&mut prefetch, 9), Some((0, vec![6])));
    }
}

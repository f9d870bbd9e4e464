//! What a reader holds of each partition: messages that wait, and the batch that is being worked on.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use super::reader::{ClaimMessage, ClaimsBatch};

/// What is held of every partition.
#[derive(Debug, Default)]
pub(super) struct Prefetch {
    lanes: BTreeMap<i32, Lane>,
    /// Partition of the last batch, so that partitions take turns.
    last: i32,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<ClaimMessage>,
    /// Offset behind the last message that arrived.
    end: i64,
    /// The batch that was given out and is not done: its first offset, and the one behind its last.
    out: Option<(i64, i64)>,
}

impl Prefetch {
    /// Adds a message that arrived.
    pub(super) fn push(&mut self, partition: i32, message: ClaimMessage) {
        let lane = self.lanes.entry(partition).or_default();
        if message.offset < lane.end {
            // The partition was lost and came back: it begins where its last owner stopped.
            *lane = Lane::default();
        }
        lane.end = message.offset + 1;
        lane.waiting.push_back(message);
    }

    /// Drops what is held of other partitions than these.
    pub(super) fn keep(&mut self, partitions: &[i32]) {
        self.lanes.retain(|partition, _| partitions.contains(partition));
    }

    /// Returns the number of messages that wait.
    pub(super) fn waiting(&self) -> usize {
        self.lanes.values().map(|lane| lane.waiting.len()).sum()
    }

    /// Gives out up to `max` messages of the next partition of which no batch is out; `None` if no such message waits.
    pub(super) fn take(&mut self, max: usize) -> Option<ClaimsBatch> {
        let is_next = |lane: &Lane| lane.out.is_none() && !lane.waiting.is_empty();
        let behind = self.lanes.range((Bound::Excluded(self.last), Bound::Unbounded));
        let before = self.lanes.range(..=self.last);
        let partition = *behind.chain(before).find(|(_, lane)| is_next(lane))?.0;
        let lane = self.lanes.get_mut(&partition)?;
        let messages: Vec<_> = lane.waiting.drain(..max.clamp(1, lane.waiting.len())).collect();
        let (first, last) = (messages.first()?.offset, messages.last()?.offset);
        lane.out = Some((first, last + 1));
        self.last = partition;
        Some(ClaimsBatch { partition, messages })
    }

    /// Records that everything before `next_offset` is done. Returns whether it belongs to the batch that is out, and
    /// may be stored.
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

    fn filled(offsets: &[(i32, i64)]) -> Prefetch {
        let mut prefetch = Prefetch::default();
        for (partition, offset) in offsets {
            prefetch.push(*partition, message(*offset));
        }
        prefetch
    }

    fn message(offset: i64) -> ClaimMessage {
        let (at, key, body) = (DateTime::UNIX_EPOCH, Vec::new(), Err(Vec::new()));
        ClaimMessage { offset, at, key, body }
    }

    fn taken(prefetch: &mut Prefetch, max: usize) -> Option<(i32, Vec<i64>)> {
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
        assert_eq!(prefetch.waiting(), 0);
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
        assert_eq!(prefetch.waiting(), 0);
    }

    /// Losing a partition and getting it again may go unnoticed between two looks.
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

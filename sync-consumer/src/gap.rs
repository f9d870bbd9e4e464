//! Detects gaps: messages that the topic deleted before this group read them.
//!
//! A consumer whose offset is out of range silently restarts at the earliest remaining message, and every existing view
//! lacks the messages in between. Therefore each message must directly follow its predecessor, and the first one of a
//! partition must follow the group's committed offset. Because no new message may arrive at all, the topic's earliest
//! offsets are checked too.

use std::collections::HashMap;

use topic::{Message, PartitionOffsets};

/// The offset of the next message of each partition.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    next: HashMap<i32, i64>,
}

/// A range of missing messages in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) partition: i32,
    /// The first missing offset.
    pub(crate) from: i64,
    /// The first offset that exists again.
    pub(crate) to: i64,
}

impl Positions {
    /// Gaps before and within a batch. A partition without a known position begins at 0.
    pub(crate) fn gaps(&self, batch: &[Message]) -> Vec<Gap> {
        let mut next = self.next.clone();
        let mut gaps = Vec::new();
        for &Message { partition, offset: to, .. } in batch {
            let from = next.insert(partition, to + 1).unwrap_or_default();
            if to > from {
                gaps.push(Gap { partition, from, to });
            }
        }
        gaps
    }

    /// Gaps between our positions in the `owned` partitions and the earliest offsets that the topic holds.
    pub(crate) fn forgotten(&self, owned: &[i32], offsets: &[PartitionOffsets]) -> Vec<Gap> {
        let gap = |span: &PartitionOffsets| {
            let from = self.next.get(&span.partition).copied().unwrap_or_default();
            let is_gap = owned.contains(&span.partition) && span.start > from;
            is_gap.then_some(Gap { partition: span.partition, from, to: span.start })
        };
        offsets.iter().filter_map(gap).collect()
    }

    /// Moves past gaps, after every view that existed was dropped for them.
    pub(crate) fn skip(&mut self, gaps: &[Gap]) {
        self.next.extend(gaps.iter().map(|gap| (gap.partition, gap.to)));
    }

    /// Advances to the group's committed offsets; another consumer may have had a partition meanwhile.
    pub(crate) fn learn(&mut self, committed: &HashMap<i32, i64>) {
        for (&partition, &offset) in committed {
            let next = self.next.entry(partition).or_default();
            *next = offset.max(*next);
        }
    }

    /// Advances past a finished batch.
    pub(crate) fn pass(&mut self, batch: &[Message]) {
        self.next.extend(batch.iter().map(|message| (message.partition, message.offset + 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(messages: &[(i32, i64)]) -> Vec<Message> {
        let message = |&(partition, offset)| Message {
            topic: "t".to_owned(),
            partition,
            offset,
            key: Vec::new(),
            payload: None,
            headers: Vec::new(),
            timestamp_ms: None,
        };
        messages.iter().map(message).collect()
    }

    #[test]
    fn a_following_or_repeated_message_is_no_gap() {
        let mut positions = Positions::default();
        let first = batch(&[(0, 0), (1, 0), (0, 1)]);
        assert_eq!(positions.gaps(&first), []);
        positions.pass(&first);
        assert_eq!(positions.gaps(&batch(&[(0, 2), (1, 1)])), []);
        assert_eq!(positions.gaps(&batch(&[(0, 0), (0, 1), (0, 2)])), []);
    }

    #[test]
    fn a_jump_is_a_gap_before_a_batch_and_within_it() {
        let mut positions = Positions::default();
        positions.pass(&batch(&[(0, 4)]));
        let found = positions.gaps(&batch(&[(0, 7), (1, 0), (1, 2)]));
        let gap = |partition, from, to| Gap { partition, from, to };
        assert_eq!(found, [gap(0, 5, 7), gap(1, 1, 2)]);
    }

    #[test]
    fn messages_deleted_from_our_partitions_are_a_gap_without_any_message() {
        let span = |partition, start| PartitionOffsets { partition, start, end: start + 5 };
        let offsets = [span(0, 5), span(1, 3), span(2, 9)];
        let mut positions = Positions::default();
        positions.pass(&batch(&[(0, 4), (2, 0)]));
        let gap = |partition, from, to| Gap { partition, from, to };
        assert_eq!(positions.forgotten(&[], &offsets), []);
        let found = positions.forgotten(&[0, 1, 2], &offsets);
        assert_eq!(found, [gap(1, 0, 3), gap(2, 1, 9)]);
        positions.skip(&found);
        assert_eq!(positions.forgotten(&[0, 1, 2], &offsets), []);
        assert_eq!(positions.gaps(&batch(&[(0, 5), (1, 3), (2, 9)])), []);
    }

    #[test]
    fn offsets_that_another_consumer_committed_are_no_gap() {
        let mut positions = Positions::default();
        positions.pass(&batch(&[(0, 4)]));
        positions.learn(&HashMap::from([(0, 7), (1, 3)]));
        assert_eq!(positions.gaps(&batch(&[(0, 7), (1, 3)])), []);
        assert_eq!(positions.gaps(&batch(&[(1, 4)])), [Gap { partition: 1, from: 3, to: 4 }]);
        // Committed offsets lag behind finished work.
        positions.learn(&HashMap::from([(0, 2)]));
        assert_eq!(positions.gaps(&batch(&[(0, 7)])), []);
    }
}

//! Shards that their owner neglects: which of them are taken over, and which are reported.
//!
//! One overdue coupon does not prove neglect: the shard's owner may be in a storm, or no worker can end the coupon. So
//! a shard is taken over if its first due coupons are the same at two checks, and it is reported if coupons ended here
//! that the owner should have ended.

use std::collections::{BTreeMap, BTreeSet};

use mysql_store::expiry::{Due, DueHold};
use tracing::error;

/// The first due coupons of a shard, in the order of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    pub(crate) unused: Option<Due>,
    pub(crate) held: Option<DueHold>,
}

/// What the checks of other workers' shards have found.
#[derive(Debug, Default)]
pub(crate) struct UnownedShards {
    /// The overdue shards of the last check.
    overdue: BTreeMap<u8, First>,
    /// Shards that were taken over and whose coupons have ended here since the last check.
    swept: BTreeSet<u8>,
    /// The shards that were swept between the last check and the one before.
    swept_before: BTreeSet<u8>,
}

impl UnownedShards {
    /// Records a check of the overdue shards of others, and returns those in which nothing has moved since the last
    /// check.
    pub(crate) fn look(&mut self, overdue: BTreeMap<u8, First>) -> Vec<u8> {
        self.swept_before = std::mem::take(&mut self.swept);
        let before = std::mem::replace(&mut self.overdue, overdue);
        let still = self.overdue.iter().filter(|(shard, first)| before.get(shard) == Some(first));
        still.map(|(shard, _)| *shard).collect()
    }

    /// Records that coupons of a shard that was taken over have ended here. If none end, its owner was quicker, or they
    /// cannot end.
    pub(crate) fn swept(&mut self, shard: u8) {
        self.swept.insert(shard);
    }

    /// Reports, until the next check, the shards that were swept here before the last one. Returns what is wrong.
    pub(crate) fn report(&self) -> Option<String> {
        let shards = &self.swept_before;
        if shards.is_empty() {
            return None;
        }
        error!(?shards, "nobody ends the coupons of shards: they are swept here");
        Some(format!("shards {shards:?} are nobody's, and swept here"))
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use coupon::CouponId;

    use super::*;

    fn look(shards: &[(u8, i64)]) -> BTreeMap<u8, First> {
        let due = |id| Due { id: CouponId(id), valid_until: DateTime::UNIX_EPOCH };
        let first =
            |(shard, id): &(u8, i64)| (*shard, First { unused: Some(due(*id)), held: None });
        shards.iter().map(first).collect()
    }

    #[test]
    fn a_shard_is_neglected_once_its_first_coupon_is_the_same_at_two_looks() {
        let mut neglect = UnownedShards::default();
        assert!(neglect.look(look(&[(1, 10), (2, 20), (3, 30)])).is_empty());
        // The owner of the first is at work; the owner of the second has finished.
        assert_eq!(neglect.look(look(&[(1, 11), (3, 30)])), [3]);
        assert_eq!(neglect.look(look(&[(1, 11), (2, 20)])), [1]);
    }

    #[test]
    fn a_swept_shard_is_reported_from_the_next_look_to_the_one_after_it() {
        let mut neglect = UnownedShards::default();
        let looked = |neglect: &mut UnownedShards| {
            neglect.look(look(&[]));
            neglect.report()
        };
        neglect.swept(3);
        let why = looked(&mut neglect).unwrap();
        assert!(why.contains("{3} are nobody's"), "{why}");
        assert_eq!(looked(&mut neglect), None);
    }
}

//! Expiry messages: who has to be woken when.
//!
//! A million coupons of one template end in the same second, so wake-ups are coalesced by shard and
//! second. Within a batch only: a wake-up sent for an earlier coupon may have been spent already by
//! the time a later one lands.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use topic::ExpiryWakeUp;

/// The wake-ups of a batch.
#[derive(Debug, Default)]
pub(crate) struct WakeUps {
    /// (shard, second) → the exact earliest deadline in it, milliseconds since 1970.
    earliest: BTreeMap<(u8, i64), i64>,
}

impl WakeUps {
    /// An unused coupon of `shard` ends at `deadline`.
    pub(crate) fn add(&mut self, shard: u8, deadline: DateTime<Utc>) {
        let deadline_ms = deadline.timestamp_millis();
        let earliest =
            self.earliest.entry((shard, deadline_ms.div_euclid(1000))).or_insert(deadline_ms);
        *earliest = deadline_ms.min(*earliest);
    }

    /// One message for each shard and second.
    pub(crate) fn into_messages(self) -> Vec<ExpiryWakeUp> {
        let message = |((shard, _), deadline_ms)| ExpiryWakeUp { shard, deadline_ms };
        self.earliest.into_iter().map(message).collect()
    }
}

/// The partition of a shard's wake-ups: chosen here, so that worker and consumer agree whatever a
/// client library makes of a key.
pub(crate) fn partition(shard: u8, partitions: i32) -> i32 {
    i32::from(shard) % partitions.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_coalesced_by_shard_and_second_to_the_exact_earliest() {
        let mut wake_ups = WakeUps::default();
        for (shard, ms) in [(1, 5_900), (1, 5_100), (1, 6_000), (2, 5_500), (1, 5_500)] {
            wake_ups.add(shard, DateTime::from_timestamp_millis(ms).unwrap());
        }
        let expected = [(1, 5_100), (1, 6_000), (2, 5_500)];
        let expected = expected.map(|(shard, deadline_ms)| ExpiryWakeUp { shard, deadline_ms });
        assert_eq!(wake_ups.into_messages(), expected);
    }

    #[test]
    fn every_shard_has_a_partition_whatever_their_number() {
        assert_eq!(partition(63, 8), 7);
        assert_eq!(partition(63, 64), 63);
        assert_eq!(partition(5, 0), 0);
    }
}

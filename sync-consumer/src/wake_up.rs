//! Wake-ups for the expiry worker.
//!
//! A million coupons of one template end in the same second, so wake-ups are coalesced by shard and
//! second, within a batch and over batches that follow closely: a wake-up may arrive at any time
//! before its deadline. They are not coalesced for longer, because an earlier coupon's wake-up may
//! already have been consumed when a later coupon lands.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::CouponStatus;
use serde::Deserialize;
use tokio::time::{self, Instant};
use topic::{ExpiryWakeUp, Message};

/// The part of an event that a wake-up needs. The rest is skipped, so that reading each change a second time costs a
/// fraction of the first.
#[derive(Deserialize)]
struct Ending {
    after: Option<EndingRow>,
}

#[derive(Deserialize)]
struct EndingRow {
    status: u8,
    expiry_shard: u8,
    valid_until: i64,
}

impl EndingRow {
    /// Whether a worker ends the coupon at its `valid_until`. Confirming a held coupon changes its `valid_until`.
    fn has_deadline(&self) -> bool {
        CouponStatus::from_code(self.status).is_ok_and(CouponStatus::has_deadline)
    }
}

/// How long wake-ups are buffered for coalescing: at 30 batches per second it saves nine of ten
/// sends. Offsets wait too, so a crash repeats this much in addition to the commit interval.
const HOLD: Duration = Duration::from_millis(250);

/// A nearer deadline is sent at once. This is many times [`HOLD`] plus the delivery to the worker.
const NEAR: TimeDelta = TimeDelta::seconds(5);

#[derive(Debug, Default)]
pub(crate) struct WakeUps {
    /// (shard, second) → the earliest deadline in that second, in milliseconds since 1970.
    earliest: BTreeMap<(u8, i64), i64>,
}

impl WakeUps {
    /// The wake-ups of the coupons with a deadline, unused or held, in a batch of changes. An unreadable change has
    /// none here; the views' consumer sets it aside.
    pub(crate) fn of(batch: &[Message]) -> Self {
        let mut wake_ups = Self::default();
        let payloads = batch.iter().filter_map(|message| message.payload.as_deref());
        let rows = payloads.filter_map(|payload| topic::decode::<Ending>(payload).ok()?.after);
        for row in rows.filter(EndingRow::has_deadline) {
            wake_ups.add(row.expiry_shard, row.valid_until);
        }
        wake_ups
    }

    /// Adds a coupon of `shard` that ends at `deadline_ms`.
    fn add(&mut self, shard: u8, deadline_ms: i64) {
        let earliest =
            self.earliest.entry((shard, deadline_ms.div_euclid(1000))).or_insert(deadline_ms);
        *earliest = deadline_ms.min(*earliest);
    }

    /// One message per shard and second.
    pub(crate) fn messages(&self) -> impl Iterator<Item = ExpiryWakeUp> {
        let message = |(&(shard, _), &deadline_ms)| ExpiryWakeUp { shard, deadline_ms };
        self.earliest.iter().map(message)
    }
}

/// Buffered wake-ups, and the messages that are done once these are sent.
#[derive(Debug, Default)]
pub(crate) struct PendingWakeUps {
    wake_ups: WakeUps,
    /// The last message of each partition.
    last: HashMap<i32, Message>,
    /// When the wake-ups are due to be sent.
    until: Option<Instant>,
}

impl PendingWakeUps {
    /// Adds a batch with its wake-ups.
    pub(crate) fn add(&mut self, wake_ups: &WakeUps, batch: Vec<Message>, now: DateTime<Utc>) {
        let near_ms = (now + NEAR).timestamp_millis();
        let near = wake_ups.messages().any(|wake_up| wake_up.deadline_ms < near_ms);
        let patience = if near || wake_ups.earliest.is_empty() { Duration::ZERO } else { HOLD };
        let until = Instant::now() + patience;
        self.until = Some(self.until.map_or(until, |known| known.min(until)));
        wake_ups.messages().for_each(|new| self.wake_ups.add(new.shard, new.deadline_ms));
        self.last.extend(batch.into_iter().map(|message| (message.partition, message)));
    }

    /// Waits until the wake-ups are due; forever if none are buffered.
    pub(crate) async fn due(&self) {
        match self.until {
            Some(until) => time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    /// Whether the wake-ups are due.
    pub(crate) fn is_due(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }

    /// One message per shard and second.
    pub(crate) fn messages(&self) -> impl Iterator<Item = ExpiryWakeUp> {
        self.wake_ups.messages()
    }

    /// Clears the buffer after its wake-ups were sent, and returns the messages that are done now.
    pub(crate) fn take(&mut self) -> Vec<Message> {
        std::mem::take(self).last.into_values().collect()
    }
}

/// The partition of a shard's wake-ups. It is chosen here, so that worker and consumer agree
/// independently of how a client library hashes keys.
pub(crate) fn partition(shard: u8, partitions: i32) -> i32 {
    i32::from(shard) % partitions.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(partition: i32, offset: i64, payload: Option<&str>) -> Message {
        Message {
            topic: "t".to_owned(),
            partition,
            offset,
            key: Vec::new(),
            payload: payload.map(|text| text.as_bytes().to_vec()),
            headers: Vec::new(),
            timestamp_ms: None,
        }
    }

    #[test]
    fn deadlines_are_coalesced_by_shard_and_second_to_the_exact_earliest() {
        let mut wake_ups = WakeUps::default();
        for (shard, ms) in [(1, 5_900), (1, 5_100), (1, 6_000), (2, 5_500), (1, 5_500)] {
            wake_ups.add(shard, ms);
        }
        let expected = [(1, 5_100), (1, 6_000), (2, 5_500)];
        let expected = expected.map(|(shard, deadline_ms)| ExpiryWakeUp { shard, deadline_ms });
        assert_eq!(wake_ups.messages().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn only_unused_and_held_coupons_wake_and_what_cannot_be_read_stops_no_other() {
        let row = |status, shard, ms| {
            format!(
                r#"{{"before":null,"after":{{"status":{status},"expiry_shard":{shard},"valid_until":{ms},"x":[1]}}}}"#
            )
        };
        let texts = [
            row(0, 1, 5_000),
            "{".to_owned(),
            row(1, 2, 5_000),
            r#"{"before":null,"after":null}"#.to_owned(),
            row(0, 300, 5_000),
            row(0, 3, 6_000),
            row(4, 4, 6_000),
            row(5, 5, 6_000),
            row(99, 6, 6_000),
        ];
        let mut batch: Vec<_> = texts.iter().map(|text| message(0, 1, Some(text))).collect();
        batch.push(message(0, 7, None));
        let woken: Vec<_> = WakeUps::of(&batch).messages().map(|one| one.shard).collect();
        assert_eq!(woken, [1, 3, 4]);
    }

    #[test]
    fn far_deadlines_wait_for_company_and_near_ones_take_it_along() {
        let now = DateTime::from_timestamp_millis(0).unwrap();
        let add = |pending: &mut PendingWakeUps, partition, deadline_ms| {
            let mut wake_ups = WakeUps::default();
            wake_ups.add(1, deadline_ms);
            pending.add(&wake_ups, vec![message(partition, deadline_ms, None)], now);
        };
        let mut pending = PendingWakeUps::default();
        for (partition, deadline_ms) in [(0, 60_500), (0, 60_400), (1, 61_000)] {
            add(&mut pending, partition, deadline_ms);
            assert!(!pending.is_due());
        }
        add(&mut pending, 1, 4_000);
        assert!(pending.is_due());
        let deadlines: Vec<_> = pending.messages().map(|wake_up| wake_up.deadline_ms).collect();
        assert_eq!(deadlines, [4_000, 60_400, 61_000]);
        let mut done: Vec<_> =
            pending.take().iter().map(|message| (message.partition, message.offset)).collect();
        done.sort_unstable();
        assert_eq!(done, [(0, 60_400), (1, 4_000)]);
        assert!(!pending.is_due() && pending.messages().next().is_none());

        // Without a wake-up, only the messages are done.
        pending.add(&WakeUps::default(), vec![message(2, 1, None)], now);
        assert!(pending.is_due() && pending.messages().next().is_none());
        assert_eq!(pending.take().len(), 1);
    }

    #[test]
    fn every_shard_has_a_partition_whatever_their_number() {
        assert_eq!(partition(63, 8), 7);
        assert_eq!(partition(63, 64), 63);
        assert_eq!(partition(5, 0), 0);
    }
}

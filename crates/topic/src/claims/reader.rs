//! Reads queued claims, or payments, for a lander, in batches of one partition.

use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use coupon::QueuedClaim;
use tokio::sync::{Notify, watch};

use super::{message::decode_claim, prefetch::Prefetch};
use crate::{
    Assignment, Consumer, ConsumerOptions, DecodeError, FetchAhead, HeldUp, Message,
    PaymentMessage, TopicError, TopicNames, decode_payment,
};

/// Batches of a partition that wait while one is out: the next one is then available at once. At this limit the
/// partition is not fetched further, but others are. One read may exceed it by less than a batch.
pub const PREFETCH_BATCHES: usize = 1;

/// Small, because all partitions share one queue of the client: when a partition is paused, its messages there are
/// dropped and fetched again. A batch of small claims fits into one response.
const FETCH_AHEAD: FetchAhead =
    FetchAhead { kbytes: 1024, partition_bytes: 256 * 1024, least_bytes: 1 };

/// Messages of one partition, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneBatch<T> {
    /// Partition of the topic.
    pub partition: i32,
    /// At least one.
    pub messages: Vec<LaneMessage<T>>,
}

/// One message of the topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneMessage<T> {
    pub offset: i64,
    /// When it was published, by the publisher's clock; 1970 if unknown.
    pub at: DateTime<Utc>,
    /// Template and bucket of a claim, or the claim of a payment, as text.
    pub key: Vec<u8>,
    /// The decoded message, or the payload if unreadable: [`decode_claim`] or [`decode_payment`] returns the reason.
    pub body: Result<T, Vec<u8>>,
}

/// Messages of one partition of the topic `claims`.
pub type ClaimsBatch = LaneBatch<QueuedClaim>;

/// One message of the topic `claims`.
pub type ClaimMessage = LaneMessage<QueuedClaim>;

/// Reads queued claims.
pub type ClaimsReader = LaneReader<QueuedClaim>;

/// Reads payments, in a group of its own.
pub type PaymentsReader = LaneReader<PaymentMessage>;

/// A member of a landers' group. One task at a time requests batches; any task may report them done.
///
/// While a batch of a partition is out, that partition hands out no other one, unless it is passed. Offsets are
/// committed every second, in [`LaneReader::commit_now`] and when partitions are given up.
pub struct LaneReader<T> {
    consumer: Consumer,
    topic: String,
    decode: fn(&[u8]) -> Result<T, DecodeError>,
    prefetch: Mutex<Prefetch<T>>,
    /// Notified when a partition may give its next batch.
    freed: Notify,
}

impl LaneReader<QueuedClaim> {
    /// Joins the landers' group. A partition without a committed offset is read from its oldest message. Partitions
    /// arrive later. The reader ignores the `fetch_ahead` of `options`.
    ///
    /// # Errors
    ///
    /// Returns an error if no broker answers within 15 s, the topic is missing or the client cannot be created.
    pub async fn join(
        brokers: &str,
        names: &TopicNames,
        options: ConsumerOptions,
    ) -> Result<Self, TopicError> {
        let group = names.claim_lander_group();
        Self::join_for(brokers, &group, names.claims(), decode_claim, options).await
    }
}

impl LaneReader<PaymentMessage> {
    /// Like [`ClaimsReader::join`], for payments.
    ///
    /// # Errors
    ///
    /// See [`ClaimsReader::join`].
    pub async fn join(
        brokers: &str,
        names: &TopicNames,
        options: ConsumerOptions,
    ) -> Result<Self, TopicError> {
        let group = names.payments_group();
        Self::join_for(brokers, &group, names.payments(), decode_payment, options).await
    }
}

impl<T> LaneReader<T> {
    async fn join_for(
        brokers: &str,
        group: &str,
        topic: String,
        decode: fn(&[u8]) -> Result<T, DecodeError>,
        options: ConsumerOptions,
    ) -> Result<Self, TopicError> {
        let topics = [topic.clone()];
        let options = ConsumerOptions { fetch_ahead: FETCH_AHEAD, ..options };
        let consumer = Consumer::join(brokers, group, &topics, options).await?;
        Ok(Self { consumer, topic, decode, prefetch: Mutex::default(), freed: Notify::new() })
    }

    /// Name of the topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Waits for messages of a partition that has no batch out, or whose batch was passed, and takes up to `max` of
    /// them. Never waits for a batch to fill. Waits out broker outages. A batch of the topic that cannot be read holds up
    /// its partition alone ([`LaneReader::held_up`]). Cancel-safe.
    ///
    /// Rebalances happen inside this call. Waiting messages of a lost partition are dropped. Its batch that is out may
    /// still be landed, but no offset of it is stored.
    ///
    /// # Errors
    ///
    /// Returns errors that are not transient. They are final: drop the reader and join again; messages that were not
    /// done are delivered again.
    pub async fn next_batch(&self, max: usize) -> Result<LaneBatch<T>, TopicError> {
        let owned = self.consumer.rebalances();
        loop {
            // Created before the check, so that a partition freed in between wakes it.
            let freed = self.freed.notified();
            if let Some(batch) = self.take(max, &owned.borrow().of(&self.topic)) {
                return Ok(batch);
            }
            tokio::select! {
                () = freed => {}
                arrived = self.consumer.next_batch(max) => self.hold(arrived?),
            }
        }
    }

    /// Marks everything before `next_offset` in a partition as done. Once the whole batch is done, the partition hands
    /// out its next one. Does nothing for a partition that was lost meanwhile: its new owner repeats the batch.
    pub fn done(&self, partition: i32, next_offset: i64) {
        if self.lock().done(partition, next_offset) {
            self.consumer.store_before(&self.topic, partition, next_offset);
            self.freed.notify_waiters();
        }
    }

    /// Lets a partition hand out its next batch although the one that is out is not done. [`LaneReader::done`] must not
    /// go past the first message of either batch that is not done.
    pub fn pass(&self, partition: i32) {
        if self.lock().pass(partition) {
            self.freed.notify_waiters();
        }
    }

    /// Commits the offsets of done messages now.
    ///
    /// # Errors
    ///
    /// Returns an error if the broker does not accept the commit.
    pub async fn commit_now(&self) -> Result<(), TopicError> {
        self.consumer.commit().await
    }

    /// Returns a channel with the partitions owned.
    pub fn rebalances(&self) -> watch::Receiver<Assignment> {
        self.consumer.rebalances()
    }

    /// Returns a channel with the partitions that are held up by something that cannot be read.
    pub fn held_up(&self) -> watch::Receiver<Vec<HeldUp>> {
        self.consumer.held_up()
    }

    /// Gives up all partitions and leaves the group until [`LaneReader::rejoin`]. Batches that are out may still be
    /// landed, but no offset of them is stored.
    ///
    /// # Errors
    ///
    /// See [`LaneReader::next_batch`].
    pub async fn leave(&self) -> Result<(), TopicError> {
        self.consumer.leave().await?;
        // At once, not in `next_batch`: partitions may be assigned again before that call.
        self.lock().keep(&[]);
        Ok(())
    }

    /// Joins the group again. Partitions arrive later.
    ///
    /// # Errors
    ///
    /// Returns an error if the client rejects the subscription; the reader has not joined.
    pub fn rejoin(&self) -> Result<(), TopicError> {
        self.consumer.rejoin()
    }

    /// Commits the offsets of done messages and leaves the group, so that other members take over at once.
    ///
    /// # Errors
    ///
    /// Returns an error if the broker does not accept the commit; the reader leaves the group anyway.
    pub async fn close(self) -> Result<(), TopicError> {
        self.consumer.close().await
    }

    fn take(&self, max: usize, owned: &[i32]) -> Option<LaneBatch<T>> {
        let mut prefetch = self.lock();
        prefetch.keep(owned);
        let batch = prefetch.take(max);
        let fetching = prefetch.fetching(max.saturating_mul(PREFETCH_BATCHES));
        drop(prefetch);
        self.consumer.set_fetching(&self.topic, &fetching.stop, false);
        self.consumer.set_fetching(&self.topic, &fetching.go_on, true);
        batch
    }

    fn hold(&self, messages: Vec<Message>) {
        let mut prefetch = self.lock();
        for message in messages {
            let partition = message.partition;
            prefetch.push(partition, self.read(message));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Prefetch<T>> {
        self.prefetch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, message: Message) -> LaneMessage<T> {
        let at = message.timestamp_ms.and_then(DateTime::from_timestamp_millis);
        let payload = message.payload.unwrap_or_default();
        LaneMessage {
            offset: message.offset,
            at: at.unwrap_or_default(),
            key: message.key,
            body: (self.decode)(&payload).map_err(|_| payload),
        }
    }
}

//! A stream of messages and a watermark of those acknowledged, for the tailer.
//!
//! Messages are numbered from 0; all messages below [`OrderedProducer::acknowledged`] are acknowledged. Nothing waits
//! per message: enqueuing copies into the client's queue, and acknowledgements move the watermark from the client's own
//! thread. Messages never time out, the client is idempotent, and the first message of each partition goes alone
//! (`introduced.rs`), so each partition keeps the order of enqueuing, whatever fails.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdkafka::{
    ClientContext, Message as _,
    config::RDKafkaLogLevel,
    error::KafkaError,
    producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext},
    types::RDKafkaErrorCode,
};
use tokio::{sync::Notify, time::sleep};

use crate::{
    MessagePosition, ProducerOptions, TopicError,
    client::{self, lost_brokers::LostBrokers},
    produce::{introduced::Introduced, polled::Polled, producer::owned, watermark::Watermark},
};

/// After the queue was full, enqueuing is retried once `1 / ROOM_SHARE` of the outstanding messages is acknowledged.
const ROOM_SHARE: u64 = 8;

/// Pause before enqueuing is retried while nothing is outstanding.
const ROOM_PAUSE: Duration = Duration::from_millis(1);

/// The last acknowledged message of each partition, by topic.
pub type Acknowledged = BTreeMap<String, BTreeMap<i32, MessagePosition>>;

/// A message to enqueue.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    pub topic: &'a str,
    /// Determines the partition.
    pub key: &'a [u8],
    pub payload: &'a [u8],
    pub headers: &'a [(&'a str, &'a [u8])],
}

/// Result of [`OrderedProducer::try_enqueue`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enqueued {
    /// Enqueued with this number.
    As(u64),
    /// The queue is full, or the first message of its partition is on its way: wait for the watermark and try again.
    QueueFull,
}

/// Enqueues messages in order and tracks their acknowledgements. Owned by one task.
pub struct OrderedProducer {
    inner: Arc<Polled<Acks>>,
    acks: Arc<State>,
    introduced: Introduced,
    next: u64,
}

impl OrderedProducer {
    /// Connects to the brokers.
    ///
    /// # Errors
    ///
    /// Returns an error if no broker answers within 15 s, one of `topics` is missing or the client cannot be created.
    pub async fn connect(
        brokers: &str,
        topics: &[String],
        options: ProducerOptions,
    ) -> Result<Self, TopicError> {
        let acks = Arc::new(State::default());
        let options = ProducerOptions { give_up: None, idempotent: true, ..options };
        let mut config = options.config(brokers);
        let lost = LostBrokers::default();
        // Otherwise the messages behind one that is refused would still be sent, and come before it.
        config.set("enable.gapless.guarantee", "true");
        let context = Acks { state: Arc::clone(&acks), lost: lost.clone() };
        let inner = lost.client(&config, context, Polled::client).await?;
        let address = brokers.to_owned();
        let topics = topics.to_vec();
        let (inner, introduced) = client::blocking(move || {
            client::await_topics(inner.client(), &address, &topics)?;
            let counted = topics.into_iter().map(|topic| {
                let partitions = client::partitions_of(inner.client(), &topic)?;
                Ok((topic, partitions))
            });
            let introduced = Introduced::new(counted.collect::<Result<Vec<_>, TopicError>>()?);
            Ok((inner, introduced))
        })
        .await?;
        Ok(Self { inner, acks, introduced, next: 0 })
    }

    /// Enqueues without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if the client rejects the message for another reason than a full queue.
    pub fn try_enqueue(&mut self, record: &Record<'_>) -> Result<Enqueued, TopicError> {
        let number = self.next;
        let acks = &self.acks;
        let is_acknowledged = |number| acks.lock().watermark.has(number);
        if !self.introduced.takes(record.topic, record.key, number, is_acknowledged) {
            return Ok(Enqueued::QueueFull);
        }
        let mut message = BaseRecord::with_opaque_to(record.topic, Box::new(number))
            .key(record.key)
            .payload(record.payload);
        message.headers = (!record.headers.is_empty()).then(|| owned(record.headers));
        match self.inner.send(message) {
            Ok(()) => {
                self.next += 1;
                Ok(Enqueued::As(number))
            }
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                Ok(Enqueued::QueueFull)
            }
            Err((source, _)) => Err(TopicError::Produce { topic: record.topic.to_owned(), source }),
        }
    }

    /// Enqueues, waiting while the queue is full.
    ///
    /// # Errors
    ///
    /// Fails like [`OrderedProducer::try_enqueue`] and [`OrderedProducer::acknowledged`].
    pub async fn enqueue(&mut self, record: &Record<'_>) -> Result<u64, TopicError> {
        loop {
            // Read before the attempt: what is acknowledged behind it must wake the wait.
            let acknowledged = self.acknowledged()?;
            if let Enqueued::As(number) = self.try_enqueue(record)? {
                return Ok(number);
            }
            let outstanding = self.next.saturating_sub(acknowledged);
            if outstanding == 0 {
                // The client makes room a moment after its last acknowledgement.
                sleep(ROOM_PAUSE).await;
            } else {
                // Do not wake for each acknowledgement: most of them make no room yet.
                self.changed(acknowledged + outstanding / ROOM_SHARE).await?;
            }
        }
    }

    /// Returns the number of the next message.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Returns the watermark: all messages with lower numbers are acknowledged.
    ///
    /// # Errors
    ///
    /// Returns an error once a message was refused, or was acknowledged at an offset that was acknowledged before. It is
    /// final: no later message can be reported as safe.
    pub fn acknowledged(&self) -> Result<u64, TopicError> {
        let inner = self.acks.lock();
        match &inner.refused {
            None => Ok(inner.watermark.low()),
            Some(refused) => Err(refused.error()),
        }
    }

    /// Returns the watermark, also once a message was refused: those before it are acknowledged all the same.
    pub fn watermark(&self) -> u64 {
        self.acks.lock().watermark.low()
    }

    /// Sets the last acknowledged messages of earlier producers, which later ones must come after.
    pub fn follow(&self, acknowledged: Acknowledged) {
        self.acks.lock().positions = acknowledged;
    }

    /// Waits until the watermark is above `seen`.
    ///
    /// # Errors
    ///
    /// Fails like [`OrderedProducer::acknowledged`].
    pub async fn changed(&self, seen: u64) -> Result<(), TopicError> {
        loop {
            // Created before the check, so that an acknowledgement in between wakes it.
            let notified = self.acks.moved.notified();
            if self.acknowledged()? > seen {
                return Ok(());
            }
            notified.await;
        }
    }

    /// Waits until all enqueued messages are acknowledged.
    ///
    /// # Errors
    ///
    /// Fails like [`OrderedProducer::acknowledged`].
    pub async fn drained(&self) -> Result<(), TopicError> {
        match self.next {
            0 => Ok(()),
            next => self.changed(next - 1).await,
        }
    }

    /// Returns the position of the last acknowledged message of each partition, by this producer or an earlier one.
    pub fn positions(&self) -> Acknowledged {
        self.acks.lock().positions.clone()
    }

    /// Returns the last acknowledged offset of each partition, by topic.
    pub fn acknowledged_offsets(&self) -> BTreeMap<String, BTreeMap<i32, i64>> {
        let offset = |(partition, position): (i32, MessagePosition)| (partition, position.offset);
        let topics = self.positions().into_iter();
        topics.map(|(topic, all)| (topic, all.into_iter().map(offset).collect())).collect()
    }

    /// Returns the number of messages and requests that the client holds.
    pub fn in_flight(&self) -> usize {
        usize::try_from(self.inner.in_flight_count()).unwrap_or(0)
    }

    /// Waits up to `wait` for pending acknowledgements, then drops the rest.
    pub fn abandon(self, wait: Duration) {
        drop(self.inner.flush(wait));
    }
}

#[derive(Default)]
struct State {
    inner: Mutex<Inner>,
    moved: Notify,
}

#[derive(Default)]
struct Inner {
    watermark: Watermark,
    positions: Acknowledged,
    refused: Option<Refused>,
}

/// Why no later message can be reported as safe.
enum Refused {
    Produce { topic: String, source: KafkaError },
    Rewound { topic: String, partition: i32, offset: i64, before: i64 },
}

impl Refused {
    fn error(&self) -> TopicError {
        match self {
            Self::Produce { topic, source } => {
                TopicError::Produce { topic: topic.clone(), source: source.clone() }
            }
            Self::Rewound { topic, partition, offset, before } => TopicError::Rewound {
                topic: topic.clone(),
                partition: *partition,
                offset: *offset,
                before: *before,
            },
        }
    }
}

impl Inner {
    /// Records an acknowledgement. Returns whether the watermark moved, or there is an error now.
    fn acknowledge(
        &mut self,
        number: u64,
        topic: &str,
        partition: i32,
        at: MessagePosition,
    ) -> bool {
        // Of a message that was sent again, the broker may know only that it has it.
        if at.offset >= 0 {
            let partitions = match self.positions.get_mut(topic) {
                Some(partitions) => partitions,
                None => self.positions.entry(topic.to_owned()).or_default(),
            };
            if let Some(last) = partitions.get(&partition)
                && at.offset <= last.offset
            {
                // The earlier position stays: it shows what the topic has lost.
                let before = last.offset;
                let topic = topic.to_owned();
                self.refuse(Refused::Rewound { topic, partition, offset: at.offset, before });
                return true;
            }
            partitions.insert(partition, at);
        }
        self.watermark.acknowledge(number)
    }

    fn refuse(&mut self, refused: Refused) {
        self.refused.get_or_insert(refused);
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives delivery reports on the client's polling thread.
struct Acks {
    state: Arc<State>,
    lost: LostBrokers,
}

impl ClientContext for Acks {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        client::log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        client::log_error(&error, reason);
        self.lost.hear(&error);
    }
}

impl ProducerContext for Acks {
    type DeliveryOpaque = Box<u64>;

    fn delivery(&self, result: &DeliveryResult<'_>, number: Box<u64>) {
        let mut inner = self.state.lock();
        let moved = match result {
            Ok(message) => {
                let time_ms = message.timestamp().to_millis().unwrap_or_default();
                let at = MessagePosition { offset: message.offset(), time_ms };
                inner.acknowledge(*number, message.topic(), message.partition(), at)
            }
            Err((error, message)) => {
                let topic = message.topic().to_owned();
                inner.refuse(Refused::Produce { topic, source: error.clone() });
                true
            }
        };
        drop(inner);
        if moved {
            self.state.moved.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &str = "a.topic";

    fn at(offset: i64) -> MessagePosition {
        MessagePosition { offset, time_ms: 7 }
    }

    #[test]
    fn an_offset_that_was_acknowledged_before_proves_that_the_topic_is_another_one() {
        let mut inner = Inner::default();
        let earlier = BTreeMap::from([(0, at(41)), (1, at(3))]);
        inner.positions = Acknowledged::from([(TOPIC.to_owned(), earlier)]);
        assert!(inner.acknowledge(0, TOPIC, 0, at(42)));
        assert!(inner.acknowledge(1, TOPIC, 2, at(0)), "a partition without any is no proof");
        // The broker has it, and does not say where.
        assert!(inner.acknowledge(2, TOPIC, 0, at(-1_001)));
        assert!(inner.refused.is_none() && inner.watermark.low() == 3);
        assert!(inner.acknowledge(3, TOPIC, 1, at(0)));
        let error = inner.refused.as_ref().map(Refused::error);
        let rewound =
            matches!(error, Some(TopicError::Rewound { partition: 1, offset: 0, before: 3, .. }));
        assert!(rewound, "{error:?}");
        assert_eq!(inner.watermark.low(), 3, "it is not safe");
        assert_eq!(inner.positions[TOPIC], BTreeMap::from([(0, at(42)), (1, at(3)), (2, at(0))]));
    }
}

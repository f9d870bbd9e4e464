//! A stream of messages and a watermark of those acknowledged, for the tailer.
//!
//! Messages are numbered from 0; all messages below [`OrderedProducer::acknowledged`] are acknowledged. Nothing waits
//! per message: enqueuing copies into the client's queue, and acknowledgements move the watermark from the client's own
//! thread. Messages never time out and the client is idempotent, so each partition keeps the order of enqueuing,
//! whatever fails.

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
use tokio::sync::Notify;

use crate::{
    MessagePosition, ProducerOptions, TopicError,
    client::{self, lost_brokers::LostBrokers},
    produce::{polled::Polled, producer::owned, watermark::Watermark},
};

/// After the queue was full, enqueuing is retried once `1 / ROOM_SHARE` of the outstanding messages is acknowledged.
const ROOM_SHARE: u64 = 8;

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
    /// The queue is full: wait for the watermark and try again.
    QueueFull,
}

/// Enqueues messages in order and tracks their acknowledgements. Owned by one task.
pub struct OrderedProducer {
    inner: Arc<Polled<Acks>>,
    acks: Arc<State>,
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
        let (config, lost) = (options.config(brokers), LostBrokers::default());
        let context = Acks { state: Arc::clone(&acks), lost: lost.clone() };
        let inner = lost.client(&config, context, Polled::client).await?;
        let (address, topics) = (brokers.to_owned(), topics.to_vec());
        let inner = client::blocking(move || {
            client::await_topics(inner.client(), &address, &topics)?;
            Ok(inner)
        })
        .await?;
        Ok(Self { inner, acks, next: 0 })
    }

    /// Enqueues without waiting.
    ///
    /// # Errors
    ///
    /// Returns an error if the client rejects the message for another reason than a full queue.
    pub fn try_enqueue(&mut self, record: &Record<'_>) -> Result<Enqueued, TopicError> {
        let number = self.next;
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
            match self.try_enqueue(record)? {
                Enqueued::As(number) => return Ok(number),
                Enqueued::QueueFull => {
                    // Do not wake for each acknowledgement: most of them make no room yet.
                    let acknowledged = self.acknowledged()?;
                    let outstanding = self.next.saturating_sub(acknowledged);
                    self.changed(acknowledged + outstanding / ROOM_SHARE).await?;
                }
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
    /// Returns an error once a message was refused. It is final: no later message can be reported as safe.
    pub fn acknowledged(&self) -> Result<u64, TopicError> {
        let mut inner = self.acks.lock();
        match inner.refused.take() {
            None => Ok(inner.watermark.low()),
            Some((topic, source)) => {
                inner.refused = Some((topic.clone(), source.clone()));
                Err(TopicError::Produce { topic, source })
            }
        }
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

    /// Returns the position of the last acknowledged message of each partition.
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
    refused: Option<(String, KafkaError)>,
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
                let position = MessagePosition { offset: message.offset(), time_ms };
                match inner.positions.get_mut(message.topic()) {
                    Some(partitions) => {
                        partitions.insert(message.partition(), position);
                    }
                    None => {
                        let partitions = BTreeMap::from([(message.partition(), position)]);
                        inner.positions.insert(message.topic().to_owned(), partitions);
                    }
                }
                inner.watermark.acknowledge(*number)
            }
            Err((error, message)) => {
                if inner.refused.is_none() {
                    inner.refused = Some((message.topic().to_owned(), error.clone()));
                }
                true
            }
        };
        drop(inner);
        if moved {
            self.state.moved.notify_waiters();
        }
    }
}

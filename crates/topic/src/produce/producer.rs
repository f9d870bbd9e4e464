//! A producer that awaits the acknowledgement of each message.

use std::{
    sync::{Arc, PoisonError, RwLock},
    thread,
    time::Duration,
};

use rdkafka::{
    ClientConfig, ClientContext, Message as _,
    config::RDKafkaLogLevel,
    error::{KafkaError, KafkaResult},
    message::{Header, OwnedHeaders},
    producer::{BaseRecord, DeliveryResult, ProducerContext},
    types::RDKafkaErrorCode,
};
use tokio::sync::{Mutex, oneshot};
use tracing::warn;

use crate::{
    TopicError,
    client::{self, LongLived},
    produce::polled::Polled,
};

/// Pause before another try while the queue is full: it takes the broker longer to make room.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// Timeout of a request for the end of a partition.
const END_WAIT: Duration = Duration::from_secs(3);

/// Concurrent requests without idempotence. Later messages gather meanwhile, and share a request.
const IN_FLIGHT_MAX: &str = "5";

/// Concurrent requests with idempotence. With a second one on its way, the client takes the acknowledgement of the later
/// batch for that of the earlier one, and the broker accepts the later one alone if it knows nothing of the producer
/// in this partition yet: the earlier one is lost (docs/decisions/0099-one-request-is-on-its-way.md).
const IDEMPOTENT_IN_FLIGHT_MAX: &str = "1";

/// Delay and buffer size of a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerOptions {
    /// Time a message waits for others, to form a batch. Under load batches form even without it.
    pub linger: Duration,
    /// Time after which an unacknowledged message fails. `None`: never, so the order always holds.
    pub give_up: Option<Duration>,
    /// Whether a message that the client sends again is written only once. Such a client has one request on its way, and
    /// polls without a pause while five messages of a partition are in it and a sixth waits
    /// (docs/decisions/0087-claims-are-published-without-idempotence.md).
    pub idempotent: bool,
    /// Maximum bytes of messages waiting for the broker. When the queue is full, the sender waits.
    pub queue_bytes: usize,
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self {
            linger: Duration::ZERO,
            give_up: Some(Duration::from_secs(10)),
            idempotent: true,
            queue_bytes: 16 * 1024 * 1024,
        }
    }
}

impl ProducerOptions {
    /// Returns the client's configuration. Messages are always acknowledged by all in-sync replicas.
    pub(crate) fn config(&self, brokers: &str) -> ClientConfig {
        let mut config = client::base_config(brokers);
        let give_up = self.give_up.map_or(0, |after| after.as_millis());
        config
            .set("enable.idempotence", self.idempotent.to_string())
            .set("acks", "all")
            // The partitioner of the Java client, so that every client chooses the same partition for a key.
            .set("partitioner", "murmur2_random")
            // The broker's work grows with the bytes: with compression a backlog takes two thirds of the time
            // (bench/results/tailer.json). Every client can read it.
            .set("compression.type", "lz4")
            .set("linger.ms", self.linger.as_millis().to_string())
            .set("message.timeout.ms", give_up.to_string())
            .set("queue.buffering.max.kbytes", (self.queue_bytes / 1024).max(1).to_string())
            .set("max.in.flight.requests.per.connection", self.in_flight_max());
        config
    }

    fn in_flight_max(&self) -> &'static str {
        if self.idempotent { IDEMPOTENT_IN_FLIGHT_MAX } else { IN_FLIGHT_MAX }
    }
}

/// Position of a delivered message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    pub partition: i32,
    pub offset: i64,
}

/// Sends messages one by one and waits for each acknowledgement; many sends may be in flight at once. Clones share one
/// connection.
///
/// An idempotent client that finds its own messages gone from the broker fails for good. It is then replaced, and the
/// new client sends the next message.
#[derive(Clone)]
pub struct Producer {
    inner: Arc<Inner>,
}

struct Inner {
    brokers: String,
    options: ProducerOptions,
    client: RwLock<Arc<Polled<Answers>>>,
    /// Held while a task replaces the client.
    replacing: Mutex<()>,
}

impl Producer {
    /// Connects to the brokers.
    ///
    /// # Errors
    ///
    /// Returns an error if no broker answers within 15 s or the client cannot be created.
    pub async fn connect(brokers: &str, options: ProducerOptions) -> Result<Self, TopicError> {
        let producer = Self::open(brokers, options).await?;
        let polled = producer.client();
        let address = brokers.to_owned();
        client::blocking(move || client::await_broker(polled.client(), &address)).await?;
        Ok(producer)
    }

    /// Creates a producer without waiting for a broker.
    pub(crate) async fn open(brokers: &str, options: ProducerOptions) -> Result<Self, TopicError> {
        let client = RwLock::new(new_client(brokers, options).await?);
        let brokers = brokers.to_owned();
        let replacing = Mutex::default();
        Ok(Self { inner: Arc::new(Inner { brokers, options, client, replacing }) })
    }

    fn client(&self) -> Arc<Polled<Answers>> {
        Arc::clone(&self.inner.client.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces a client that failed for good, unless another task has done it.
    async fn replace(&self, failed: &Arc<Polled<Answers>>, error: &TopicError) {
        let _turn = self.inner.replacing.lock().await;
        if !Arc::ptr_eq(&self.client(), failed) {
            return;
        }
        warn!(error = %error, "a client of Kafka failed for good and is replaced");
        match new_client(&self.inner.brokers, self.inner.options).await {
            Ok(new) => {
                let mut client = self.inner.client.write().unwrap_or_else(PoisonError::into_inner);
                let failed = std::mem::replace(&mut *client, new);
                // Dropping it may block: it waits for its threads.
                thread::spawn(move || drop(failed));
            }
            Err(error) => warn!(error = %error, "no new client of Kafka yet"),
        }
    }

    /// Makes the client fail for good, as when a broker has lost acknowledged messages.
    #[cfg(feature = "verify")]
    pub fn fail_for_good(&self) {
        client::fail_for_good(self.client().client());
    }

    /// Sends a message and waits until all in-sync replicas have it. Without `partition` the key decides. Waits while
    /// the queue is full.
    ///
    /// # Errors
    ///
    /// Returns an error if the message is not acknowledged. If the error is retriable, the message may have been
    /// written.
    pub async fn send(
        &self,
        topic: &str,
        partition: Option<i32>,
        key: &[u8],
        payload: &[u8],
        headers: &[(&str, &[u8])],
    ) -> Result<Delivered, TopicError> {
        let client = self.client();
        let sent = send_by(&client, topic, partition, key, payload, headers).await;
        if let Err(error) = &sent
            && error.is_final_for_client()
        {
            self.replace(&client, error).await;
        }
        sent
    }

    /// Returns the number of partitions of `topic`, for senders that choose one themselves.
    ///
    /// # Errors
    ///
    /// Returns an error if the broker does not answer or the topic is missing.
    pub async fn partitions(&self, topic: &str) -> Result<i32, TopicError> {
        let polled = self.client();
        let topic = topic.to_owned();
        client::blocking(move || client::partitions_of(polled.client(), &topic)).await
    }

    /// Returns the offset that the next message of a partition will get.
    pub(crate) async fn end(&self, topic: &str, partition: i32) -> Result<i64, TopicError> {
        let polled = self.client();
        let topic = topic.to_owned();
        client::blocking(move || {
            let held = polled.client().fetch_watermarks(&topic, partition, END_WAIT);
            held.map(|(_, end)| end).map_err(|source| TopicError::Offsets { topic, source })
        })
        .await
    }
}

async fn new_client(
    brokers: &str,
    options: ProducerOptions,
) -> Result<Arc<Polled<Answers>>, TopicError> {
    let context = Answers(LongLived::default());
    let lost = context.0.lost.clone();
    lost.client(&options.config(brokers), context, Polled::client).await
}

async fn send_by(
    client: &Polled<Answers>,
    topic: &str,
    partition: Option<i32>,
    key: &[u8],
    payload: &[u8],
    headers: &[(&str, &[u8])],
) -> Result<Delivered, TopicError> {
    let failed = |source| TopicError::Produce { topic: topic.to_owned(), source };
    let (answer, answered) = oneshot::channel();
    let mut record = BaseRecord::with_opaque_to(topic, Box::new(answer)).key(key).payload(payload);
    record.partition = partition;
    record.headers = (!headers.is_empty()).then(|| owned(headers));
    loop {
        match client.send(record) {
            Ok(()) => break,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                tokio::time::sleep(FULL_PAUSE).await;
            }
            Err((source, _)) => return Err(failed(source)),
        }
    }
    // The client answers for each message, at the latest when it is dropped.
    answered.await.unwrap_or(Err(KafkaError::Canceled)).map_err(failed)
}

/// Delivers the answer of each message to its sender.
struct Answers(LongLived);

impl ClientContext for Answers {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.0.log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.error(error, reason);
    }
}

impl ProducerContext for Answers {
    type DeliveryOpaque = Box<oneshot::Sender<KafkaResult<Delivered>>>;

    fn delivery(&self, result: &DeliveryResult<'_>, answer: Self::DeliveryOpaque) {
        let delivered = match result {
            Ok(message) => {
                Ok(Delivered { partition: message.partition(), offset: message.offset() })
            }
            Err((error, _)) => Err(error.clone()),
        };
        // A sender that is gone needs no answer.
        drop(answer.send(delivered));
    }
}

pub(crate) fn owned(headers: &[(&str, &[u8])]) -> OwnedHeaders {
    headers.iter().fold(OwnedHeaders::new_with_capacity(headers.len()), |owned, (key, value)| {
        owned.insert(Header { key, value: Some(*value) })
    })
}

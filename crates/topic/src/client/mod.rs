//! Common settings of every client, and the bounded wait for a broker.

pub(crate) mod closing;
pub(crate) mod lost_brokers;
pub(crate) mod native;
pub(crate) mod probe;
mod seldom;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, ClientContext,
    client::Client,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::ConsumerContext,
    error::{KafkaError, KafkaResult},
    metadata::{Metadata, MetadataPartition},
    producer::{DeliveryResult, ProducerContext},
    types::RDKafkaErrorCode,
};
use tracing::{debug, info, warn};

#[cfg(feature = "verify")]
pub(crate) use crate::client::native::fail_for_good;
use crate::{TopicError, brokers, client::lost_brokers::LostBrokers};

/// Time a client waits for its first broker: enough for one that starts together with us (2–5 s), short enough to
/// report a mistyped address soon.
pub(crate) const CONNECT_WAIT: Duration = Duration::from_secs(15);

/// Timeout of one metadata request within [`CONNECT_WAIT`].
pub(crate) const METADATA_WAIT: Duration = Duration::from_secs(3);

/// Timeout of one request. It also bounds the commit at shutdown.
const SOCKET_TIMEOUT_MS: &str = "10000";

/// Maximum pause between reconnects: the client's default of 10 s would show up as lag after each outage.
const RECONNECT_MAX_MS: &str = "1000";

/// Kafka's own topic with the offsets that groups have committed. The first member of any group makes the brokers make
/// it.
pub(crate) const OFFSETS: &str = "__consumer_offsets";

/// Returns the settings that every client starts from.
pub(crate) fn base_config(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    brokers::set(&mut config, brokers);
    config
        .set("socket.nagle.disable", "true")
        .set("socket.keepalive.enable", "true")
        .set("socket.timeout.ms", SOCKET_TIMEOUT_MS)
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", RECONNECT_MAX_MS);
    config
}

/// Context of a client that is used once. It forwards librdkafka's log lines to our log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogOnly;

impl ClientContext for LogOnly {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }
}

/// Context of a client created by [`long_lived`].
#[derive(Debug, Clone, Default)]
pub(crate) struct LongLived {
    pub(crate) lost: LostBrokers,
}

impl ClientContext for LongLived {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
        self.lost.hear(&error);
    }
}

impl ConsumerContext for LongLived {}

impl ProducerContext for LongLived {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

/// Creates a long-lived client that recovers from the loss of all its brokers.
pub(crate) async fn long_lived<T, I>(
    config: &ClientConfig,
    inner: impl Fn(&T) -> &Client<I> + Send + 'static,
) -> Result<Arc<T>, TopicError>
where
    T: FromClientConfigAndContext<LongLived> + Send + Sync + 'static,
    I: ClientContext,
{
    let context = LongLived::default();
    let lost = context.lost.clone();
    lost.client(config, context, inner).await
}

pub(crate) fn log(level: RDKafkaLogLevel, facility: &str, line: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning
            if seldom::is_due(facility, line) =>
        {
            warn!(kafka.facility = facility, "kafka client: {line}");
        }
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            info!(kafka.facility = facility, "kafka client: {line}");
        }
        _ => debug!(kafka.facility = facility, "kafka client: {line}"),
    }
}

/// Logs at debug level: librdkafka's own log lines already report the error, and this callback repeats it for each
/// client.
pub(crate) fn log_error(error: &KafkaError, reason: &str) {
    debug!(error = %error, "kafka client: {reason}");
}

/// Returns whether the client's own log lines already report a transient error. They come once per connection, this
/// error once per broker and attempt.
pub(crate) fn is_in_client_log(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    lost_brokers::are_lost(error) || code == Some(RDKafkaErrorCode::BrokerTransportFailure)
}

/// Runs a blocking client call on a blocking thread.
pub(crate) async fn blocking<T, F>(call: F) -> Result<T, TopicError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, TopicError> + Send + 'static,
{
    tokio::task::spawn_blocking(call).await.map_err(TopicError::Interrupted)?
}

/// Waits until a broker answers, at most [`CONNECT_WAIT`]. It is asked for one topic, because an answer with all topics
/// grows with the cluster. A broker may create a topic that a producer asks for, so it is Kafka's own.
pub(crate) fn await_broker<C: ClientContext>(
    client: &Client<C>,
    brokers: &str,
) -> Result<(), TopicError> {
    await_answer(brokers, || client.fetch_metadata(Some(OFFSETS), METADATA_WAIT).map(|_| Ok(())))
}

/// Waits until a broker answers and every topic of `topics` has leaders, at most [`CONNECT_WAIT`].
pub(crate) fn await_topics<C: ClientContext>(
    client: &Client<C>,
    brokers: &str,
    topics: &[String],
) -> Result<(), TopicError> {
    await_answer(brokers, || all_led(client, topics))
}

fn await_answer(
    brokers: &str,
    ask: impl Fn() -> KafkaResult<Result<(), TopicError>>,
) -> Result<(), TopicError> {
    let deadline = Instant::now() + CONNECT_WAIT;
    loop {
        let failure = match ask() {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failure,
            Err(source) => TopicError::Unreachable {
                brokers: brokers.to_owned(),
                waited: CONNECT_WAIT,
                source,
            },
        };
        if Instant::now() >= deadline {
            return Err(failure);
        }
        // A new topic needs a moment to elect its leaders.
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The outer error: no broker answers. The inner one: a topic is missing, or a partition has no leader.
pub(crate) fn all_led<C: ClientContext>(
    client: &Client<C>,
    topics: &[String],
) -> KafkaResult<Result<(), TopicError>> {
    for topic in topics {
        let metadata = client.fetch_metadata(Some(topic), METADATA_WAIT)?;
        if let Err(failure) = led(&metadata, topic) {
            return Ok(Err(failure));
        }
    }
    Ok(Ok(()))
}

/// Returns an error if the topic is missing or one of its partitions has no leader.
pub(crate) fn led(metadata: &Metadata, topic: &str) -> Result<(), TopicError> {
    let partitions = partitions_in(metadata, topic);
    let partitions =
        partitions.ok_or_else(|| TopicError::MissingTopic { topic: topic.to_owned() })?;
    match partitions.iter().find(|partition| partition.leader() < 0) {
        None => Ok(()),
        Some(partition) => {
            Err(TopicError::NoLeader { topic: topic.to_owned(), partition: partition.id() })
        }
    }
}

fn partitions_in<'a>(metadata: &'a Metadata, topic: &str) -> Option<&'a [MetadataPartition]> {
    let topic = metadata.topics().iter().find(|found| found.name() == topic)?;
    let is_there = topic.error().is_none() && !topic.partitions().is_empty();
    is_there.then(|| topic.partitions())
}

/// Returns the number of partitions of a topic, with and without leaders.
pub(crate) fn partition_count(metadata: &Metadata, topic: &str) -> Option<i32> {
    let partitions = partitions_in(metadata, topic)?;
    Some(i32::try_from(partitions.len()).unwrap_or(i32::MAX))
}

/// Returns the partitions of an existing topic that have a leader.
pub(crate) fn led_partitions<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
) -> Result<Vec<i32>, TopicError> {
    let metadata = client
        .fetch_metadata(Some(topic), METADATA_WAIT)
        .map_err(|source| TopicError::Offsets { topic: topic.to_owned(), source })?;
    let partitions = partitions_in(&metadata, topic)
        .ok_or_else(|| TopicError::MissingTopic { topic: topic.to_owned() })?;
    let led = partitions.iter().filter(|partition| partition.leader() >= 0);
    Ok(led.map(MetadataPartition::id).collect())
}

/// Returns the number of partitions of an existing topic.
pub(crate) fn partitions_of<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
) -> Result<i32, TopicError> {
    let metadata = client
        .fetch_metadata(Some(topic), METADATA_WAIT)
        .map_err(|source| TopicError::Offsets { topic: topic.to_owned(), source })?;
    partition_count(&metadata, topic)
        .ok_or_else(|| TopicError::MissingTopic { topic: topic.to_owned() })
}

//! Settings common to every client, and the bounded wait for a broker.

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
    metadata::Metadata,
    producer::{DeliveryResult, ProducerContext},
    types::RDKafkaErrorCode,
};
use tracing::{debug, info, warn};

use crate::{
    TopicError, brokers,
    lost_brokers::{self, LostBrokers},
};

/// How long a client waits for its first broker: long enough for a broker that starts together with
/// us (2–5 s), short enough for somebody who mistyped the address.
pub(crate) const CONNECT_WAIT: Duration = Duration::from_secs(15);

/// One metadata request within that wait.
const METADATA_WAIT: Duration = Duration::from_secs(3);

/// How long one request may take; also bounds the commit at shutdown.
const SOCKET_TIMEOUT_MS: &str = "10000";

/// Longest pause between reconnects: the client's own 10 s would be seen as lag after each outage.
const RECONNECT_MAX_MS: &str = "1000";

/// The settings every client starts from.
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

/// The context of a client that is used once; librdkafka's own lines come out as ours.
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

/// The context of a client of [`long_lived`].
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

/// A client that lives on and hears nothing but its losses, which are mended. Only within a runtime.
pub(crate) fn long_lived<T, I>(
    config: &ClientConfig,
    inner: impl Fn(&T) -> &Client<I> + Send + 'static,
) -> Result<Arc<T>, TopicError>
where
    T: FromClientConfigAndContext<LongLived> + Send + Sync + 'static,
    I: ClientContext,
{
    let context = LongLived::default();
    let lost = context.lost.clone();
    lost.client(config, context, inner)
}

pub(crate) fn log(level: RDKafkaLogLevel, facility: &str, line: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning => warn!(kafka.facility = facility, "kafka client: {line}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            info!(kafka.facility = facility, "kafka client: {line}");
        }
        RDKafkaLogLevel::Debug => debug!(kafka.facility = facility, "kafka client: {line}"),
    }
}

/// What went wrong has its log line already; here it comes once more for each client.
pub(crate) fn log_error(error: &KafkaError, reason: &str) {
    debug!(error = %error, "kafka client: {reason}");
}

/// Whether an error that passes is told already by the client's own lines, which come once for each
/// connection; this one comes for each broker and attempt.
pub(crate) fn is_told(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    lost_brokers::are_lost(error) || code == Some(RDKafkaErrorCode::BrokerTransportFailure)
}

/// Runs a blocking client call off the async threads.
pub(crate) async fn blocking<T, F>(call: F) -> Result<T, TopicError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, TopicError> + Send + 'static,
{
    tokio::task::spawn_blocking(call).await.map_err(TopicError::Interrupted)?
}

/// Waits, bounded, until a broker answers and every topic of `topics` has leaders.
pub(crate) fn await_topics<C: ClientContext>(
    client: &Client<C>,
    brokers: &str,
    topics: &[String],
) -> Result<(), TopicError> {
    let deadline = Instant::now() + CONNECT_WAIT;
    loop {
        let outcome = if topics.is_empty() {
            client.fetch_metadata(None, METADATA_WAIT).map(|_| None)
        } else {
            first_missing(client, topics)
        };
        let failure = match outcome {
            Ok(None) => return Ok(()),
            Ok(Some(topic)) => TopicError::MissingTopic { topic },
            Err(source) => TopicError::Unreachable {
                brokers: brokers.to_owned(),
                waited: CONNECT_WAIT,
                source,
            },
        };
        if Instant::now() >= deadline {
            return Err(failure);
        }
        // A topic just created needs a moment to get its leaders.
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn first_missing<C: ClientContext>(
    client: &Client<C>,
    topics: &[String],
) -> KafkaResult<Option<String>> {
    for topic in topics {
        let metadata = client.fetch_metadata(Some(topic), METADATA_WAIT)?;
        if partition_count(&metadata, topic).is_none() {
            return Ok(Some(topic.clone()));
        }
    }
    Ok(None)
}

/// The number of partitions, once all of them have a leader.
pub(crate) fn partition_count(metadata: &Metadata, topic: &str) -> Option<i32> {
    let topic = metadata.topics().iter().find(|found| found.name() == topic)?;
    let partitions = topic.partitions();
    let settled = topic.error().is_none()
        && !partitions.is_empty()
        && partitions.iter().all(|partition| partition.leader() >= 0);
    settled.then(|| i32::try_from(partitions.len()).unwrap_or(i32::MAX))
}

/// The number of partitions of an existing topic.
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

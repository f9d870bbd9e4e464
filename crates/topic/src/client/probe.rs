//! Asks the brokers whether they answer, for the health of a process.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::{
    ClientContext,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
    error::KafkaError,
};
use tracing::debug;

use crate::{TopicError, client};

/// Asks the brokers whether each partition of some topics has a leader. Each topic is a request, so as long as all is well
/// a check asks for one topic, the next check for the next one. The first check, and each check after a failure, asks for
/// all of them, with a new client, which needs no recovery. Clones share the client.
#[derive(Clone)]
pub struct BrokerProbe {
    brokers: String,
    topics: Arc<[String]>,
    asking: Arc<Mutex<Option<Asking>>>,
}

/// The client, as long as no check has failed.
#[derive(Clone)]
struct Asking {
    client: Arc<BaseConsumer<Silent>>,
    /// Index of the topic that the next check asks for.
    next: usize,
}

/// Context of a client whose outages its caller reports.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Silent;

impl ClientContext for Silent {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        debug!(kafka.facility = facility, "kafka client: {line}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        client::log_error(&error, reason);
    }
}

impl ConsumerContext for Silent {}

impl BrokerProbe {
    /// Creates a probe of the topics that a process needs. The first check connects.
    pub fn new<const N: usize>(brokers: &str, topics: [String; N]) -> Self {
        Self { brokers: brokers.to_owned(), topics: topics.into(), asking: Arc::default() }
    }

    /// Checks once; takes at most about three seconds for each topic that it asks for.
    ///
    /// # Errors
    /// No broker answers, a topic is missing, or a partition has no leader. Of a topic this is known after as many checks
    /// as there are topics.
    pub async fn check(&self) -> Result<(), TopicError> {
        let probe = self.clone();
        client::blocking(move || probe.ask()).await
    }

    fn ask(&self) -> Result<(), TopicError> {
        let known = self.asking.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (client, next) = match known {
            Some(Asking { client, next }) => (client, Some(next)),
            None => (self.new_client()?, None),
        };
        let topics = match next {
            Some(next) => &self.topics[next..=next],
            None => &*self.topics,
        };
        let asked = client::all_led(client.client(), topics).unwrap_or_else(|source| {
            let brokers = self.brokers.clone();
            let waited = client::METADATA_WAIT;
            Err(TopicError::Unreachable { brokers, waited, source })
        });
        let next = next.map_or(0, |next| (next + 1) % self.topics.len());
        let asking = asked.is_ok().then_some(Asking { client, next });
        *self.asking.lock().unwrap_or_else(PoisonError::into_inner) = asking;
        asked
    }

    fn new_client(&self) -> Result<Arc<BaseConsumer<Silent>>, TopicError> {
        let config = client::base_config(&self.brokers);
        let new = BaseConsumer::from_config_and_context(&config, Silent);
        new.map(Arc::new).map_err(TopicError::Client)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use devstack::TestServers;

    use super::*;
    use crate::{TopicLayout, TopicNames, ensure_topics, verify};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_probe_tells_no_broker_from_no_topic() {
        let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let away = BrokerProbe::new(&nowhere, ["any".to_owned()]).check().await.unwrap_err();
        assert!(matches!(away, TopicError::Unreachable { .. }), "{away}");
        let there = TestServers::shared().scope("probe").endpoints.kafka_brokers;
        let missing = BrokerProbe::new(&there, ["there-is-no-such-topic".to_owned()]);
        let missing = missing.check().await.unwrap_err();
        assert!(matches!(missing, TopicError::MissingTopic { .. }), "{missing}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_topic_that_goes_is_missed_by_one_of_as_many_checks_as_there_are_topics() {
        let scope = TestServers::shared().scope("probe rotates");
        let brokers = &scope.endpoints.kafka_brokers;
        let names = TopicNames::new(&scope.topic_prefix);
        ensure_topics(brokers, &names, &TopicLayout { partitions: 1, replication: 1 })
            .await
            .unwrap();
        let probe = BrokerProbe::new(brokers, [names.claims(), names.expiry(), names.template()]);
        probe.check().await.unwrap();
        verify::remove(brokers, &names.expiry()).await.unwrap();
        let mut missed = 0;
        for _ in 0..3 {
            missed += i32::from(probe.check().await.is_err());
        }
        assert!(missed > 0, "it is asked for within three checks");
        // From then on every check asks for all.
        for _ in 0..3 {
            let missing = probe.check().await.unwrap_err();
            assert!(matches!(missing, TopicError::MissingTopic { .. }), "{missing}");
        }
    }
}

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

/// Asks the brokers whether each partition of some topics has a leader. The next check replaces a failed client: a new one
/// needs no recovery. Clones share the client.
#[derive(Clone)]
pub struct BrokerProbe {
    brokers: String,
    topics: Arc<[String]>,
    client: Arc<Mutex<Option<Arc<BaseConsumer<Silent>>>>>,
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
        Self { brokers: brokers.to_owned(), topics: topics.into(), client: Arc::default() }
    }

    /// Checks once; takes at most about three seconds for each topic.
    ///
    /// # Errors
    /// No broker answers, a topic is missing, or a partition has no leader.
    pub async fn check(&self) -> Result<(), TopicError> {
        let probe = self.clone();
        client::blocking(move || probe.ask()).await
    }

    fn ask(&self) -> Result<(), TopicError> {
        let client = self.client()?;
        let asked = client::all_led(client.client(), &self.topics).unwrap_or_else(|source| {
            let brokers = self.brokers.clone();
            let waited = client::METADATA_WAIT;
            Err(TopicError::Unreachable { brokers, waited, source })
        });
        if asked.is_err() {
            *self.client.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        asked
    }

    fn client(&self) -> Result<Arc<BaseConsumer<Silent>>, TopicError> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*client {
            return Ok(Arc::clone(client));
        }
        let config = client::base_config(&self.brokers);
        let new = BaseConsumer::from_config_and_context(&config, Silent);
        let new = Arc::new(new.map_err(TopicError::Client)?);
        *client = Some(Arc::clone(&new));
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use devstack::TestServers;

    use super::*;

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
}

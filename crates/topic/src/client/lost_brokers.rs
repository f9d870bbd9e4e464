//! Adds the configured brokers again to a client that lost all of them.
//!
//! librdkafka removes brokers that a metadata response does not name. A broker that rejoins after an outage names none
//! for a moment, not even itself. The client then has no broker left and starts again from its bootstrap list. One
//! thread schedules that restart, another cancels earlier schedules; in the wrong order the client stays without
//! brokers for ever (docs/decisions/0016). So after each loss the brokers are added again, which changes nothing for a
//! client that has recovered by itself.

use std::{
    ffi::CString,
    sync::{Arc, Weak},
    time::Duration,
};

use rdkafka::{
    ClientConfig, ClientContext, client::Client, config::FromClientConfigAndContext,
    error::KafkaError, types::RDKafkaErrorCode,
};
use tokio::{
    net::TcpStream,
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info};

use crate::{TopicError, client::native};

/// Pause after a loss, and between checks for a reachable broker. The client's own reconnect pauses are not longer, so
/// a client that recovers by itself does so first.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Maximum pause when losses follow each other. librdkafka keeps a copy of the broker list each time: at most some
/// thousands a day.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// Time a broker may take to accept a connection.
const ACCEPT_MAX: Duration = Duration::from_secs(3);

/// librdkafka's default port for a broker without one.
const DEFAULT_PORT: u16 = 9092;

/// Notified by a client's context when the client has lost all its brokers.
#[derive(Debug, Clone, Default)]
pub(crate) struct LostBrokers(watch::Sender<()>);

impl LostBrokers {
    /// Records an error that reports the loss of all brokers and ignores others.
    pub(crate) fn hear(&self, error: &KafkaError) {
        if are_lost(error) {
            self.0.send_replace(());
        }
    }

    /// Creates a client whose `context` reports losses to `self`, and adds the brokers again after each loss while the
    /// client lives. `inner` returns the underlying client.
    pub(crate) async fn client<T, C, I>(
        &self,
        config: &ClientConfig,
        context: C,
        inner: impl Fn(&T) -> &Client<I> + Send + 'static,
    ) -> Result<Arc<T>, TopicError>
    where
        T: FromClientConfigAndContext<C> + Send + Sync + 'static,
        C: ClientContext + 'static,
        I: ClientContext,
    {
        let settings = config.clone();
        let client = super::blocking(move || create(&settings, context)).await?;
        self.mend(&client, config, inner);
        Ok(client)
    }

    /// Like [`LostBrokers::client`], but blocks the thread while the client is created. Must be called within a Tokio
    /// runtime.
    pub(crate) fn client_now<T, C, I>(
        &self,
        config: &ClientConfig,
        context: C,
        inner: impl Fn(&T) -> &Client<I> + Send + 'static,
    ) -> Result<Arc<T>, TopicError>
    where
        T: FromClientConfigAndContext<C> + Send + Sync + 'static,
        C: ClientContext,
        I: ClientContext,
    {
        let client = create(config, context)?;
        self.mend(&client, config, inner);
        Ok(client)
    }

    fn mend<T, C>(
        &self,
        client: &Arc<T>,
        config: &ClientConfig,
        inner: impl Fn(&T) -> &Client<C> + Send + 'static,
    ) where
        T: Send + Sync + 'static,
        C: ClientContext,
    {
        let brokers = config.get("bootstrap.servers").unwrap_or_default().to_owned();
        // Cannot fail: the client has already accepted the same text as a C string.
        let Ok(names) = CString::new(brokers.as_str()) else { return };
        let client = Arc::downgrade(client);
        let mut losses = self.0.subscribe();
        tokio::spawn(async move {
            let mut given = None::<Instant>;
            let mut pause = LOOK_EVERY;
            while losses.changed().await.is_ok() {
                let again = given.is_some_and(|at| at.elapsed() < PAUSE_MAX);
                pause = if again { PAUSE_MAX.min(pause * 2) } else { LOOK_EVERY };
                sleep(pause).await;
                while client.strong_count() > 0 && !is_one_there(&brokers).await {
                    sleep(LOOK_EVERY).await;
                }
                losses.mark_unchanged();
                let Some(client) = Weak::upgrade(&client) else { return };
                native::add_brokers(inner(&client), &names);
                given = Some(Instant::now());
                info!(brokers, "all brokers were lost, and one is there again");
            }
        });
    }
}

/// Returns whether an error says that a client lost all its brokers.
pub(crate) fn are_lost(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown)
}

/// Creates a client. This waits for the client's threads: once for a minute, while the host's clock was moved.
fn create<T, C>(config: &ClientConfig, context: C) -> Result<Arc<T>, TopicError>
where
    T: FromClientConfigAndContext<C>,
    C: ClientContext,
{
    T::from_config_and_context(config, context).map(Arc::new).map_err(TopicError::Client)
}

/// Returns whether at least one broker accepts connections.
async fn is_one_there(brokers: &str) -> bool {
    for broker in brokers.split(',').map(host_and_port) {
        let connected = timeout(ACCEPT_MAX, TcpStream::connect(&broker)).await;
        match connected {
            Ok(Ok(_)) => return true,
            Ok(Err(error)) => debug!(broker, error = %error, "no connection"),
            Err(_) => debug!(broker, "no answer"),
        }
    }
    false
}

/// Returns host and port of a broker as librdkafka reads it: `[protocol://]host[:port]`.
fn host_and_port(broker: &str) -> String {
    let broker = broker.trim();
    let address = broker.split_once("://").map_or(broker, |(_, address)| address);
    match address.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => address.to_owned(),
        _ => format!("{address}:{DEFAULT_PORT}"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use devstack::TestServers;
    use rdkafka::producer::{FutureProducer, Producer as _};

    use super::*;
    use crate::client::{LongLived, base_config, blocking};

    /// Time after which the test fails.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn a_broker_is_where_the_client_looks_for_it() {
        let written = ["kafka", " kafka:9093 ", "PLAINTEXT://kafka:9094", "[::1]", "[::1]:9095"];
        let read = ["kafka:9092", "kafka:9093", "kafka:9094", "[::1]:9092", "[::1]:9095"];
        assert_eq!(written.map(host_and_port), read);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_client_that_has_no_broker_left_is_given_those_that_are_there() {
        let there = TestServers::shared().scope("lost brokers").endpoints.kafka_brokers;
        let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let context = LongLived::default();
        let lost = context.lost.clone();
        let client: FutureProducer<LongLived> =
            FutureProducer::from_config_and_context(&base_config(&nowhere), context).unwrap();
        let client = Arc::new(client);
        lost.mend(&client, &base_config(&there), |producer| producer.client());
        let found = blocking(move || {
            let cluster = client.client().fetch_metadata(None, PATIENCE);
            Ok(cluster.map(|cluster| cluster.brokers().len()))
        });
        assert_eq!(found.await.unwrap(), Ok(1));
    }
}

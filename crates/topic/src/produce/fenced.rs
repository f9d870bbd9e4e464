//! A single-writer producer: the broker fences the previous holder of the transactional id.

use std::{sync::Arc, time::Duration};

use rdkafka::{
    ClientConfig,
    error::KafkaError,
    producer::{BaseRecord, Producer as _},
    types::RDKafkaErrorCode,
};
use tokio::sync::Mutex;
use tracing::warn;

use crate::{
    TableReader, TopicError,
    client::{self, LongLived},
    error::is_fencing,
    produce::polled::Polled,
};

/// Timeout of one step of a transaction.
const STEP_WAIT: Duration = Duration::from_secs(10);

/// Time after which the broker aborts an open transaction: the most it allows by default. If the broker comes back
/// later than this, it treats us as fenced. A successor need not wait for this timeout, and only successors would be
/// blocked by the open transaction.
const TRANSACTION_TIMEOUT_MS: &str = "900000";

/// Messages read at a time when the last one is looked for.
const BATCH: usize = 1024;

/// Writes single messages, each in its own transaction, under a fixed transactional id.
///
/// A request that ends a transaction may be on its way long after its sender has given it up. The client speaks a
/// version of it that names no single transaction, so it could end a later one (KIP-890,
/// docs/decisions/0092). So after an end that is unknown the id is taken over anew, by a new client: the broker then
/// refuses what the earlier one has sent.
pub struct FencedWriter {
    id: String,
    // A transaction is several calls, and the client allows one at a time.
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    brokers: String,
    /// `None` after a transaction whose end is unknown.
    producer: Option<Arc<Polled<LongLived>>>,
    /// Whether an earlier attempt left a transaction open, which can only be aborted.
    is_open: bool,
    /// The last message that was written.
    written: Option<Written>,
    /// The message of the transaction that was begun last, if it may have been written.
    begun: Option<Written>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    topic: String,
    key: Vec<u8>,
    payload: Vec<u8>,
}

impl FencedWriter {
    /// Takes over the transactional id: from now on, writes of an earlier holder fail with [`TopicError::Fenced`].
    ///
    /// # Errors
    ///
    /// Returns an error if no broker answers within 15 s or the id cannot be taken over.
    pub async fn take_over(brokers: &str, id: &str) -> Result<Self, TopicError> {
        let producer = client::long_lived(&config(brokers, id), Polled::client).await?;
        let address = brokers.to_owned();
        let own_id = id.to_owned();
        let producer = client::blocking(move || {
            client::await_broker(producer.client(), &address)?;
            init(producer, &own_id, client::CONNECT_WAIT)
        })
        .await?;
        let inner = Inner {
            brokers: brokers.to_owned(),
            producer: Some(producer),
            is_open: false,
            written: None,
            begun: None,
        };
        Ok(Self { id: id.to_owned(), inner: Arc::new(Mutex::new(inner)) })
    }

    /// Writes one message.
    ///
    /// # Errors
    ///
    /// Returns [`TopicError::Fenced`] if another writer took over. After any other error that is retriable, the writer
    /// can be used again.
    pub async fn write(&self, topic: &str, key: &[u8], payload: &[u8]) -> Result<(), TopicError> {
        let mut inner = Arc::clone(&self.inner).lock_owned().await;
        let producer = inner.producer(&self.id).await?;
        let id = self.id.clone();
        let message =
            Written { topic: topic.to_owned(), key: key.to_vec(), payload: payload.to_vec() };
        client::blocking(move || {
            inner.write(&producer, message).map_err(|error| failed(&id, error))
        })
        .await
    }
}

impl Inner {
    /// Returns the producer. After a transaction whose end is unknown it takes the id over anew.
    async fn producer(&mut self, id: &str) -> Result<Arc<Polled<LongLived>>, TopicError> {
        if let Some(producer) = &self.producer {
            return Ok(Arc::clone(producer));
        }
        let producer = client::long_lived(&config(&self.brokers, id), Polled::client).await?;
        let own_id = id.to_owned();
        let producer = client::blocking(move || init(producer, &own_id, STEP_WAIT)).await?;
        self.check_that_nobody_wrote(id).await?;
        warn!(id, "the end of a transaction is unknown: its id was taken over anew");
        self.producer = Some(Arc::clone(&producer));
        Ok(producer)
    }

    /// Fails if the last message is not ours. Taking the id over would otherwise fence a writer that took it over from
    /// us in between, and go on with what that one has replaced.
    async fn check_that_nobody_wrote(&mut self, id: &str) -> Result<(), TopicError> {
        let Some(begun) = &self.begun else { return Ok(()) };
        let last = last_payload(&self.brokers, &begun.topic, &begun.key).await?;
        let is_of = |written: &Written| {
            let is_same_key = written.topic == begun.topic && written.key == begun.key;
            is_same_key && last.as_ref() == Some(&written.payload)
        };
        if is_of(begun) {
            self.written = self.begun.take();
            return Ok(());
        }
        if last.is_none() || self.written.as_ref().is_some_and(is_of) {
            self.begun = None;
            return Ok(());
        }
        // Before our first message the last one may also be of the writer before us. The caller begins anew.
        let source = KafkaError::Global(RDKafkaErrorCode::ProducerFenced);
        Err(TopicError::Fenced { id: id.to_owned(), source })
    }

    fn write(&mut self, producer: &Polled<LongLived>, message: Written) -> Result<(), KafkaError> {
        if self.is_open {
            self.ended(producer.abort_transaction(STEP_WAIT))?;
            self.begun = None;
        }
        producer.begin_transaction()?;
        self.is_open = true;
        let Written { topic, key, payload } = self.begun.insert(message);
        let record = BaseRecord::to(topic).key(key.as_slice()).payload(payload.as_slice());
        producer.send(record).map_err(|(error, _)| error)?;
        self.ended(producer.commit_transaction(STEP_WAIT))?;
        self.written = self.begun.take();
        Ok(())
    }

    /// Records the result of a request that ends the transaction.
    fn ended(&mut self, ended: Result<(), KafkaError>) -> Result<(), KafkaError> {
        match &ended {
            Ok(()) => self.is_open = false,
            // The commit was refused: the transaction is still open.
            Err(KafkaError::Transaction(error)) if error.txn_requires_abort() => {}
            Err(error) if is_fencing(error) => {}
            Err(_) => {
                self.producer = None;
                self.is_open = false;
            }
        }
        ended
    }
}

/// Returns the configuration of a client with this transactional id.
fn config(brokers: &str, id: &str) -> ClientConfig {
    let mut config = client::base_config(brokers);
    config
        .set("transactional.id", id)
        .set("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
        .set("message.timeout.ms", STEP_WAIT.as_millis().to_string())
        .set("linger.ms", "0");
    config
}

/// Takes the id over. An open transaction of an earlier holder, or of ours, has ended then.
fn init(
    producer: Arc<Polled<LongLived>>,
    id: &str,
    within: Duration,
) -> Result<Arc<Polled<LongLived>>, TopicError> {
    producer.init_transactions(within).map_err(|error| failed(id, error))?;
    Ok(producer)
}

/// Returns the payload of the last message with this key.
async fn last_payload(
    brokers: &str,
    topic: &str,
    key: &[u8],
) -> Result<Option<Vec<u8>>, TopicError> {
    let mut reader = TableReader::open_to_end(brokers, topic).await?;
    let mut last = None;
    while !reader.caught_up() {
        let batch = reader.next_batch(BATCH).await?;
        if let Some(message) = batch.into_iter().rev().find(|message| message.key == key) {
            last = message.payload;
        }
    }
    Ok(last)
}

fn failed(id: &str, source: KafkaError) -> TopicError {
    let id = id.to_owned();
    if is_fencing(&source) {
        TopicError::Fenced { id, source }
    } else {
        TopicError::Transaction { id, source }
    }
}

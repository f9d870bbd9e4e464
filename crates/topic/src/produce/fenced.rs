//! A single-writer producer: the broker fences the previous holder of the transactional id.

use std::{sync::Arc, time::Duration};

use rdkafka::{
    error::KafkaError,
    producer::{BaseRecord, Producer as _},
};
use tokio::sync::Mutex;

use crate::{
    TopicError,
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

/// Writes single messages, each in its own transaction, under a fixed transactional id.
pub struct FencedWriter {
    id: String,
    // A transaction is several calls, and the client allows one at a time.
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    producer: Arc<Polled<LongLived>>,
    left: Leftover,
}

/// State that an earlier attempt left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leftover {
    Nothing,
    /// An open transaction that can only be aborted.
    Open,
    /// A commit that timed out and continues in the client. Commit must be called again before any other call: an abort
    /// would be refused for ever.
    Committing,
}

impl FencedWriter {
    /// Takes over the transactional id: from now on, writes of an earlier holder fail with [`TopicError::Fenced`].
    ///
    /// # Errors
    ///
    /// Returns an error if no broker answers within 15 s or the id cannot be taken over.
    pub async fn take_over(brokers: &str, id: &str) -> Result<Self, TopicError> {
        let mut config = client::base_config(brokers);
        config
            .set("transactional.id", id)
            .set("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
            .set("message.timeout.ms", STEP_WAIT.as_millis().to_string())
            .set("linger.ms", "0");
        let producer = client::long_lived(&config, Polled::client).await?;
        let (brokers, id) = (brokers.to_owned(), id.to_owned());
        client::blocking(move || {
            client::await_topics(producer.client(), &brokers, &[])?;
            producer.init_transactions(client::CONNECT_WAIT).map_err(|error| failed(&id, error))?;
            Ok(Self {
                id,
                inner: Arc::new(Mutex::new(Inner { producer, left: Leftover::Nothing })),
            })
        })
        .await
    }

    /// Writes one message.
    ///
    /// # Errors
    ///
    /// Returns [`TopicError::Fenced`] if another writer took over. After any other error that is retriable, the writer
    /// can be used again.
    pub async fn write(&self, topic: &str, key: &[u8], payload: &[u8]) -> Result<(), TopicError> {
        let mut inner = Arc::clone(&self.inner).lock_owned().await;
        let (id, topic) = (self.id.clone(), topic.to_owned());
        let (key, payload) = (key.to_vec(), payload.to_vec());
        client::blocking(move || {
            inner.write(&topic, &key, &payload).map_err(|error| failed(&id, error))
        })
        .await
    }
}

impl Inner {
    fn write(&mut self, topic: &str, key: &[u8], payload: &[u8]) -> Result<(), KafkaError> {
        if self.left == Leftover::Committing {
            // The pending message is older than the new one: only the end of its transaction matters, not its outcome.
            let committed = self.commit();
            if self.left == Leftover::Committing {
                return committed;
            }
        }
        if self.left == Leftover::Open {
            self.producer.abort_transaction(STEP_WAIT)?;
            self.left = Leftover::Nothing;
        }
        self.producer.begin_transaction()?;
        self.left = Leftover::Open;
        let record = BaseRecord::to(topic).key(key).payload(payload);
        self.producer.send(record).map_err(|(error, _)| error)?;
        self.commit()
    }

    /// Commits the open transaction, or continues a commit that timed out.
    fn commit(&mut self) -> Result<(), KafkaError> {
        let committed = self.producer.commit_transaction(STEP_WAIT);
        self.left = match &committed {
            Ok(()) => Leftover::Nothing,
            Err(KafkaError::Transaction(error)) if error.txn_requires_abort() => Leftover::Open,
            Err(_) => Leftover::Committing,
        };
        committed
    }
}

fn failed(id: &str, source: KafkaError) -> TopicError {
    let id = id.to_owned();
    if is_fencing(&source) {
        TopicError::Fenced { id, source }
    } else {
        TopicError::Transaction { id, source }
    }
}

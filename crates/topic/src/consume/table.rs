//! Reads a whole topic from its beginning and follows it: a compacted topic as a table.

use std::{collections::BTreeSet, sync::Arc};

use futures::{
    FutureExt, StreamExt,
    future::{self, BoxFuture},
};
use rdkafka::{
    Offset,
    consumer::{Consumer as _, ConsumerContext, StreamConsumer},
    error::KafkaError,
    topic_partition_list::TopicPartitionList,
};

use crate::{
    Message, TopicError,
    client::{self, LongLived},
    consume::{made_anew, options::FETCH_AGAIN_MS, wait_out},
};

/// Longest time, in milliseconds, that the broker waits for new messages. A following reader sends a request at this
/// interval, and each request costs the broker work. A reader that starts may wait this long to learn that it is at the
/// end.
const FOLLOWED_FETCH_MAX_MS: &str = "500";

/// Longest wait for a reader that ends: at the end of the topic, it waits this long to learn that it is the end.
const ENDING_FETCH_MAX_MS: &str = "10";

/// Reads all partitions of one topic without a group: every reader gets every message. Skips messages of aborted and
/// open transactions.
pub struct TableReader {
    /// `Some` until it is dropped.
    inner: Option<Arc<StreamConsumer<LongLived>>>,
    topic: String,
    /// Partitions whose end has not been reached yet.
    behind: BTreeSet<i32>,
    /// Resolves once the topic is another one. Never, for a reader that ends.
    made_anew: BoxFuture<'static, TopicError>,
}

impl TableReader {
    /// Opens a reader at the beginning of the topic, to read it and follow it.
    ///
    /// # Errors
    ///
    /// Returns an error if no broker answers within 15 s, the topic is missing or the client cannot be created.
    pub async fn open(brokers: &str, topic: &str) -> Result<Self, TopicError> {
        let mut reader = Self::open_with(brokers, topic, FOLLOWED_FETCH_MAX_MS).await?;
        if let Some(inner) = &reader.inner {
            let client = Arc::downgrade(inner);
            let asked = Arc::clone(inner);
            let topics = [topic.to_owned()];
            let known = client::blocking(move || Ok(made_anew::ids(&asked, &topics))).await?;
            let topic = topic.to_owned();
            reader.made_anew = made_anew::until_made_anew(client, topic, known).boxed();
        }
        Ok(reader)
    }

    /// Like [`TableReader::open`], to read only what the topic holds now.
    ///
    /// # Errors
    ///
    /// See [`TableReader::open`].
    pub async fn open_to_end(brokers: &str, topic: &str) -> Result<Self, TopicError> {
        Self::open_with(brokers, topic, ENDING_FETCH_MAX_MS).await
    }

    async fn open_with(brokers: &str, topic: &str, fetch_max_ms: &str) -> Result<Self, TopicError> {
        let mut config = client::base_config(brokers);
        config
            // The client requires a group id; nothing is ever committed under it.
            .set("group.id", "table-reader")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest")
            .set("fetch.min.bytes", "1")
            .set("fetch.wait.max.ms", fetch_max_ms)
            .set("queued.max.messages.kbytes", "4096")
            .set("fetch.queue.backoff.ms", FETCH_AGAIN_MS);
        let inner = client::long_lived(&config, StreamConsumer::client).await?;
        let address = brokers.to_owned();
        let topic = topic.to_owned();
        client::blocking(move || {
            client::await_topics(inner.client(), &address, std::slice::from_ref(&topic))?;
            let behind = assign_all(&inner, &topic)?;
            Ok(Self { inner: Some(inner), topic, behind, made_anew: future::pending().boxed() })
        })
        .await
    }

    /// Returns whether everything present at the start has been returned.
    pub fn caught_up(&self) -> bool {
        self.behind.is_empty()
    }

    /// Waits for messages and takes up to `max` of them. Also returns, possibly with none, when
    /// [`TableReader::caught_up`] becomes true. Cancel-safe.
    ///
    /// # Errors
    ///
    /// Returns errors that are not transient. [`TopicError::Unreadable`]: what follows in that partition cannot be read
    /// by another reader either. [`TopicError::MadeAnew`]: another reader begins at the beginning of the new topic.
    pub async fn next_batch(&mut self, max: usize) -> Result<Vec<Message>, TopicError> {
        let was_behind = !self.caught_up();
        let Some(inner) = &self.inner else { return Ok(Vec::new()) };
        let mut stream = inner.stream();
        let mut batch = Vec::new();
        while batch.is_empty() && !(was_behind && self.behind.is_empty()) {
            let mut next = tokio::select! {
                biased;
                next = stream.next() => next,
                anew = &mut self.made_anew => {
                    self.made_anew = future::pending().boxed();
                    return Err(anew);
                }
            };
            while let Some(received) = next {
                match received {
                    Ok(message) => batch.push(Message::detach(&message)),
                    Err(KafkaError::PartitionEOF(partition)) => {
                        self.behind.remove(&partition);
                    }
                    Err(error) => {
                        inner.context().lost.hear(&error);
                        wait_out(error, &self.topic)?;
                    }
                }
                if batch.len() >= max {
                    break;
                }
                next = stream.next().now_or_never().flatten();
            }
        }
        Ok(batch)
    }

    /// Reads the current table: all messages up to the end of the topic.
    ///
    /// # Errors
    ///
    /// Returns errors that are not transient.
    pub async fn read_to_end(mut self) -> Result<Vec<Message>, TopicError> {
        /// Messages per batch.
        const BATCH: usize = 1024;
        let mut all = Vec::new();
        while !self.caught_up() {
            all.append(&mut self.next_batch(BATCH).await?);
        }
        Ok(all)
    }
}

impl Drop for TableReader {
    fn drop(&mut self) {
        client::closing::close_aside(self.inner.take());
    }
}

fn assign_all<C: ConsumerContext + 'static>(
    consumer: &StreamConsumer<C>,
    topic: &str,
) -> Result<BTreeSet<i32>, TopicError> {
    let partitions = client::partitions_of(consumer.client(), topic)?;
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .map_err(TopicError::Consume)?;
    }
    consumer.assign(&list).map_err(TopicError::Consume)?;
    Ok((0..partitions).collect())
}

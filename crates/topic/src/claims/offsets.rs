//! How far the topic `claims` reaches, and how far it has landed.

use std::sync::{Arc, Mutex, PoisonError};

use coupon::{QueueReach, TemplateId};
use rdkafka::{
    Offset,
    config::FromClientConfigAndContext as _,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, RDKafkaErrorCode},
    topic_partition_list::TopicPartitionList,
};
use tokio::sync::OnceCell;

use super::partition::{ONLY_BUCKET, claims_partition};
use crate::{
    TopicError, TopicNames,
    client::{self, probe::Silent},
    consume::offsets::REQUEST_WAIT,
};

type Client = BaseConsumer<Silent>;

/// Reads the end offsets and the landed offsets of the topic `claims`. The next request replaces a failed client: a new
/// one needs no recovery. Clones share the client.
#[derive(Clone)]
pub struct QueueOffsets {
    inner: Arc<Inner>,
}

struct Inner {
    brokers: String,
    topic: String,
    group: String,
    client: Mutex<Option<Arc<Client>>>,
    /// Number of partitions of the topic, which never changes.
    partitions: OnceCell<i32>,
}

impl QueueOffsets {
    /// Creates it. The first request connects.
    pub fn new(brokers: &str, names: &TopicNames) -> Self {
        let inner = Inner {
            brokers: brokers.to_owned(),
            topic: names.claims(),
            group: names.claim_lander_group(),
            client: Mutex::default(),
            partitions: OnceCell::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the offset that the next claim of a partition will get. Every claim that was acknowledged before the
    /// call is before it.
    ///
    /// # Errors
    ///
    /// Returns an error if the broker does not answer within some seconds.
    pub async fn end(&self, partition: i32) -> Result<i64, TopicError> {
        self.ask(move |inner, client| inner.end(client, partition)).await
    }

    /// Returns the offset before which every claim of a partition has ended. It is never before the oldest message:
    /// messages that retention or an operator has removed can no longer land. If the landers have committed nothing, it
    /// is the oldest message's offset, and 0 in a partition that never had a message.
    ///
    /// # Errors
    ///
    /// Returns an error if the broker does not answer within some seconds.
    pub async fn committed(&self, partition: i32) -> Result<i64, TopicError> {
        Ok(self.reach(partition).await?.committed)
    }

    /// Like [`QueueOffsets::committed`], with the end of the partition. The end may be below one returned earlier, if
    /// the topic was recreated or a broker has lost messages. A new leader that does not know yet how far its copies
    /// are returns an error, not an earlier end (KIP-207).
    ///
    /// # Errors
    ///
    /// See [`QueueOffsets::committed`].
    pub async fn reach(&self, partition: i32) -> Result<QueueReach, TopicError> {
        self.ask(move |inner, client| {
            let committed = inner.committed(client, partition)?;
            // Read second: messages appended in between only raise the end.
            let (start, end) = inner.span(client, partition)?;
            Ok(QueueReach { committed: ended(committed, start, end), end })
        })
        .await
    }

    /// Returns the partition of a template's claims.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of partitions is not known and no broker answers, or the topic is missing.
    pub async fn partition_of(&self, template: TemplateId) -> Result<i32, TopicError> {
        Ok(claims_partition(template, ONLY_BUCKET, self.partitions().await?))
    }

    /// Returns the number of partitions of the topic.
    ///
    /// # Errors
    ///
    /// Returns an error if the number is not known and no broker answers, or the topic is missing.
    pub async fn partitions(&self) -> Result<i32, TopicError> {
        let count =
            |inner: &Inner, client: &Client| client::partitions_of(client.client(), &inner.topic);
        self.inner.partitions.get_or_try_init(|| self.ask(count)).await.copied()
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Inner, &Client) -> Result<T, TopicError> + Send + 'static,
    ) -> Result<T, TopicError> {
        let inner = Arc::clone(&self.inner);
        client::blocking(move || {
            let client = inner.client()?;
            let answer = question(&inner, &client);
            if answer.is_err() {
                inner.forget(&client);
            }
            answer
        })
        .await
    }
}

/// Returns the offset before which everything has ended in a partition that holds the messages from `start` to `end`.
fn ended(committed: Option<i64>, start: i64, end: i64) -> i64 {
    match committed {
        Some(offset) if offset <= end => offset.max(start),
        // An offset beyond the end belongs to messages that the partition has lost, for example when the topic was
        // recreated. The landers begin again at its start.
        Some(_) | None => start,
    }
}

impl Inner {
    fn span(&self, client: &Client, partition: i32) -> Result<(i64, i64), TopicError> {
        let held = client.fetch_watermarks(&self.topic, partition, REQUEST_WAIT);
        held.map_err(|source| TopicError::Offsets { topic: self.topic.clone(), source })
    }

    /// The end alone, by one request where [`Inner::span`] sends two: landers ask once a second for each partition.
    fn end(&self, client: &Client, partition: i32) -> Result<i64, TopicError> {
        let failed = |source| TopicError::Offsets { topic: self.topic.clone(), source };
        let mut asked = TopicPartitionList::new();
        asked.add_partition_offset(&self.topic, partition, Offset::End).map_err(failed)?;
        let answer = client.offsets_for_times(asked, REQUEST_WAIT).map_err(failed)?;
        for element in answer.elements() {
            element.error().map_err(failed)?;
            if let Offset::Offset(end) = element.offset() {
                return Ok(end);
            }
        }
        Err(failed(KafkaError::Global(RDKafkaErrorCode::UnknownPartition)))
    }

    fn committed(&self, client: &Client, partition: i32) -> Result<Option<i64>, TopicError> {
        let failed = |source| TopicError::Offsets { topic: self.topic.clone(), source };
        let mut asked = TopicPartitionList::new();
        asked.add_partition(&self.topic, partition);
        let answer = client.committed_offsets(asked, REQUEST_WAIT).map_err(failed)?;
        for element in answer.elements() {
            element.error().map_err(failed)?;
            if let Offset::Offset(offset) = element.offset() {
                return Ok(Some(offset));
            }
        }
        Ok(None)
    }

    fn client(&self) -> Result<Arc<Client>, TopicError> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*client {
            return Ok(Arc::clone(client));
        }
        let mut config = client::base_config(&self.brokers);
        config.set("group.id", &self.group).set("enable.auto.commit", "false");
        let new = Client::from_config_and_context(&config, Silent);
        let new = Arc::new(new.map_err(TopicError::Client)?);
        *client = Some(Arc::clone(&new));
        Ok(new)
    }

    /// Drops a client that failed, unless it was replaced meanwhile.
    fn forget(&self, failed: &Arc<Client>) {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if client.as_ref().is_some_and(|client| Arc::ptr_eq(client, failed)) {
            *client = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_lost_messages_waits_for_none_of_them_and_passes_over_no_other() {
        assert_eq!(ended(None, 0, 0), 0);
        assert_eq!(ended(None, 0, 9), 0, "nothing is committed yet");
        assert_eq!(ended(Some(5), 0, 9), 5);
        assert_eq!(ended(Some(9), 0, 9), 9);
        assert_eq!(ended(Some(5), 9, 9), 9, "all are gone");
        assert_eq!(ended(Some(5), 7, 9), 7);
        assert_eq!(ended(Some(500), 0, 9), 0, "the topic was made anew");
    }
}

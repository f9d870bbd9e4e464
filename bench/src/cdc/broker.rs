//! The bench's access to the broker: topics for the peers, their sizes and messages.

use std::{fs, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
    message::OwnedMessage,
};
use tokio::task::spawn_blocking;

/// Partitions of a peer's topic: as many as the platform's own have.
pub const PARTITIONS: i32 = 8;

/// How long one request may take.
const REQUEST_MAX: Duration = Duration::from_secs(10);

/// How long to wait for a message.
const MESSAGE_MAX: Duration = Duration::from_secs(10);

/// A connection to the broker.
#[derive(Clone)]
pub struct Broker {
    address: String,
    reader: Arc<BaseConsumer>,
}

impl Broker {
    /// Creates the client.
    ///
    /// # Errors
    /// The client does not start.
    pub fn connect(address: &str) -> Result<Self> {
        let reader = Arc::new(consumer(address)?);
        Ok(Self { address: address.to_owned(), reader })
    }

    /// The broker's address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Creates a topic with [`PARTITIONS`] partitions.
    ///
    /// # Errors
    /// The broker refuses.
    pub async fn create(&self, topic: &str) -> Result<()> {
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", &self.address).create()?;
        let new = [NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1))];
        let options = AdminOptions::new().operation_timeout(Some(REQUEST_MAX));
        for created in admin.create_topics(&new, &options).await? {
            if let Err((topic, code)) = created {
                bail!("the topic {topic} cannot be made: {code}");
            }
        }
        Ok(())
    }

    /// Number of messages in a topic, over all partitions.
    pub async fn held(&self, topic: &str) -> Result<i64> {
        let reader = Arc::clone(&self.reader);
        let topic = topic.to_owned();
        spawn_blocking(move || Ok(ends(&reader, &topic)?.iter().map(|(_, end)| end).sum())).await?
    }

    /// Bytes of a topic's segments in the broker's data folder: messages with keys, headers and
    /// framing.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn bytes(data: &Path, topic: &str) -> Result<u64> {
        let mut bytes = 0;
        for partition in 0..PARTITIONS {
            let folder = data.join(format!("{topic}-{partition}"));
            let entries =
                fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
            for entry in entries {
                let path = entry?.path();
                if path.extension().is_some_and(|extension| extension == "log") {
                    bytes += path.metadata()?.len();
                }
            }
        }
        Ok(bytes)
    }

    /// Reads a topic from its current end on.
    pub fn follow(&self, topic: &str) -> Result<BaseConsumer> {
        self.read(topic, |end| end)
    }

    /// The first `count` messages of a topic.
    ///
    /// # Errors
    /// The broker does not answer, or the topic holds fewer.
    pub async fn first(&self, topic: &str, count: usize) -> Result<Vec<OwnedMessage>> {
        let consumer = self.read(topic, |_| 0)?;
        spawn_blocking(move || {
            let mut messages = Vec::with_capacity(count);
            while messages.len() < count {
                let message = consumer.poll(MESSAGE_MAX).context("no more messages")??;
                messages.push(message.detach());
            }
            Ok(messages)
        })
        .await?
    }

    fn read(&self, topic: &str, from: impl Fn(i64) -> i64) -> Result<BaseConsumer> {
        let consumer = consumer(&self.address)?;
        let mut list = TopicPartitionList::new();
        for (partition, end) in ends(&consumer, topic)? {
            list.add_partition_offset(topic, partition, Offset::Offset(from(end)))?;
        }
        consumer.assign(&list)?;
        Ok(consumer)
    }
}

fn consumer(address: &str) -> Result<BaseConsumer> {
    let consumer = ClientConfig::new()
        .set("bootstrap.servers", address)
        .set("group.id", "bench")
        .set("enable.auto.commit", "false")
        .set("socket.nagle.disable", "true")
        .create()?;
    Ok(consumer)
}

fn ends(reader: &BaseConsumer, topic: &str) -> Result<Vec<(i32, i64)>> {
    let ends = (0..PARTITIONS).map(|partition| {
        let (_, end) = reader
            .fetch_watermarks(topic, partition, REQUEST_MAX)
            .with_context(|| format!("cannot read the end of {topic}"))?;
        Ok((partition, end))
    });
    ends.collect()
}

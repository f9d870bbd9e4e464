//! Checks whether acknowledged messages are still in a topic, to detect a topic that was replaced.
//!
//! A topic that was deleted, recreated or truncated has the same name but other messages. Brokers give topics an id,
//! but the client library does not expose it. So a message is identified by its offset and the time it was produced.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rdkafka::{
    Message as _, Offset,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    topic_partition_list::TopicPartitionList,
    types::RDKafkaErrorCode,
};
use tracing::warn;

use crate::{
    Message, MessagePosition, TopicError, client,
    consume::{
        offsets::{self, PartitionOffsets},
        options::FETCH_AGAIN_MS,
        wait_out,
    },
    error::is_of_batch,
};

/// Timeout for reading the messages of one topic.
const READ_MAX: Duration = Duration::from_secs(15);

/// Longest wait for the other partitions once a batch cannot be read: which partition has it, the client does not say.
const UNREADABLE_MAX: Duration = Duration::from_secs(2);

/// Timeout of one poll.
const POLL_MAX: Duration = Duration::from_millis(100);

/// Bytes fetched of a partition from which one message is needed.
const FETCH_BYTES: &str = "65536";

/// Result of checking one position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PositionCheck {
    /// The message that was acknowledged.
    Same(Box<Message>),
    /// Deleted by retention or compaction; the partition continues beyond it.
    Passed,
    /// Another message is at the offset.
    Other,
    /// What stands there cannot be read.
    Unreadable,
    /// The partition ends before the offset, or does not exist.
    Nothing,
}

/// Checks each position of a topic. If a batch cannot be read, the answer is [`PositionCheck::Unreadable`] for every
/// partition that has not answered some seconds later.
///
/// # Errors
///
/// Returns an error if no broker answers within 15 s, the topic is missing or its messages cannot be read within
/// another 15 s.
pub async fn messages_at(
    brokers: &str,
    topic: &str,
    positions: &BTreeMap<i32, MessagePosition>,
) -> Result<BTreeMap<i32, PositionCheck>, TopicError> {
    let brokers = brokers.to_owned();
    let topic = topic.to_owned();
    let positions = positions.clone();
    client::blocking(move || {
        let consumer: BaseConsumer = client::base_config(&brokers)
            .set("group.id", "place-reader")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest")
            .set("fetch.wait.max.ms", "10")
            .set("max.partition.fetch.bytes", FETCH_BYTES)
            .set("queued.min.messages", "1")
            .set("fetch.queue.backoff.ms", FETCH_AGAIN_MS)
            .create()
            .map_err(TopicError::Client)?;
        let spans = offsets::watermarks(&consumer, &brokers, &topic)?;
        let mut found = BTreeMap::new();
        let mut wanted = BTreeMap::new();
        for (partition, position) in positions {
            match from_span(position, spans.iter().find(|span| span.partition == partition)) {
                Some(known) => drop(found.insert(partition, known)),
                None => drop(wanted.insert(partition, position)),
            }
        }
        read(&consumer, &topic, wanted, &mut found)?;
        Ok(found)
    })
    .await
}

/// Returns the result if the partition's start and end alone decide it; `None` if the message must be read.
fn from_span(position: MessagePosition, span: Option<&PartitionOffsets>) -> Option<PositionCheck> {
    match span {
        Some(span) if span.end > position.offset => {
            (span.start > position.offset).then_some(PositionCheck::Passed)
        }
        Some(_) | None => Some(PositionCheck::Nothing),
    }
}

fn read(
    consumer: &BaseConsumer,
    topic: &str,
    mut wanted: BTreeMap<i32, MessagePosition>,
    found: &mut BTreeMap<i32, PositionCheck>,
) -> Result<(), TopicError> {
    let mut list = TopicPartitionList::new();
    for (partition, position) in &wanted {
        list.add_partition_offset(topic, *partition, Offset::Offset(position.offset))
            .map_err(TopicError::Consume)?;
    }
    consumer.assign(&list).map_err(TopicError::Consume)?;
    let mut deadline = Instant::now() + READ_MAX;
    let mut is_unreadable = false;
    while !wanted.is_empty() {
        match consumer.poll(POLL_MAX) {
            Some(Ok(message)) => {
                let partition = message.partition();
                if let Some(position) = wanted.remove(&partition) {
                    found.insert(partition, compared(position, Message::detach(&message)));
                    // A broker exceeds FETCH_BYTES for the first partition of a response, and a batch may be larger:
                    // further messages of this partition would delay the others.
                    let mut done = TopicPartitionList::new();
                    done.add_partition(topic, partition);
                    consumer.pause(&done).map_err(TopicError::Consume)?;
                }
            }
            // Compaction removed everything from the position to the end.
            Some(Err(KafkaError::PartitionEOF(partition)))
                if wanted.remove(&partition).is_some() =>
            {
                found.insert(partition, PositionCheck::Passed);
            }
            Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(Err(error)) if is_of_batch(&error) => {
                warn!(topic, error = %error, "a batch of messages cannot be read");
                is_unreadable = true;
                deadline = deadline.min(Instant::now() + UNREADABLE_MAX);
            }
            Some(Err(error)) => wait_out(error, topic)?,
            None => {}
        }
        if Instant::now() >= deadline {
            if is_unreadable {
                found
                    .extend(wanted.keys().map(|partition| (*partition, PositionCheck::Unreadable)));
                return Ok(());
            }
            let source = KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut);
            return Err(TopicError::Offsets { topic: topic.to_owned(), source });
        }
    }
    Ok(())
}

fn compared(position: MessagePosition, message: Message) -> PositionCheck {
    if message.offset > position.offset {
        PositionCheck::Passed
    } else if message.timestamp_ms == Some(position.time_ms) {
        PositionCheck::Same(Box::new(message))
    } else {
        PositionCheck::Other
    }
}

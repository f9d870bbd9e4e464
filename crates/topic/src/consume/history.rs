//! Reads the messages of one partition since a moment, for reports, or searches them for one message, for support. Both
//! are bounded in time and in messages.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use rdkafka::{
    Message as _, Offset,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    message::BorrowedMessage,
    topic_partition_list::{TopicPartitionList, TopicPartitionListElem},
};

use crate::{
    Message, TopicError, client,
    consume::{options::FETCH_AGAIN_MS, wait_out},
};

/// Timeout of one poll.
const POLL_MAX: Duration = Duration::from_millis(100);

/// Minimum timeout of a request, even if less time is left.
const REQUEST_MIN: Duration = Duration::from_millis(1);

/// Which messages to read. Their times are those of their producers, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistorySpan {
    /// Reading begins at the first message of this time or later.
    pub from_ms: i64,
    /// Reading ends at the first message of this time or later, or at the end that the partition had at the start.
    pub until_ms: i64,
    /// Time limit of the whole call.
    pub within: Duration,
    /// Largest number of messages.
    pub messages_max: u64,
}

/// How far [`read_history`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// Everything in the span was read.
    End,
    /// A limit or `Break` ended the reading after a message of this time; `None`: before the first message.
    Limit(Option<i64>),
}

/// Reads the partition of `topic` that `partition_of` chooses by the number of partitions, and calls `take` with each
/// message's key and payload in order; `Break` ends the reading. Returns `state` as `take` left it.
///
/// # Errors
///
/// Returns an error if no broker answers in time, the topic is missing or its messages cannot be read.
pub async fn read_history<S: Send + 'static>(
    brokers: &str,
    topic: &str,
    partition_of: impl FnOnce(i32) -> i32 + Send + 'static,
    span: HistorySpan,
    mut state: S,
    mut take: impl FnMut(&mut S, &[u8], &[u8]) -> ControlFlow<()> + Send + 'static,
) -> Result<(S, Reached), TopicError> {
    let brokers = brokers.to_owned();
    let topic = topic.to_owned();
    client::blocking(move || {
        let reading = Reading { brokers, topic, span, deadline: Instant::now() + span.within };
        let (reached, _) = reading.run(partition_of, |message| {
            let key = message.key();
            let payload = message.payload();
            take(&mut state, key.unwrap_or_default(), payload.unwrap_or_default())
        })?;
        Ok((state, reached))
    })
    .await
}

/// What [`find_message`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Search {
    Found(Box<Message>),
    /// The whole span was read, and none of its messages fits.
    Nothing,
    /// No remaining message of the span fits, but the topic has deleted older ones, perhaps of the span.
    Forgotten,
    /// A limit ended the search.
    Limit,
}

/// Looks for the first message of the span that `fits`, by its key and payload, in the partition of `topic` that
/// `partition_of` chooses by the number of partitions.
///
/// # Errors
///
/// Returns an error if no broker answers in time, the topic is missing or its messages cannot be read.
pub async fn find_message(
    brokers: &str,
    topic: &str,
    partition_of: impl FnOnce(i32) -> i32 + Send + 'static,
    span: HistorySpan,
    mut fits: impl FnMut(&[u8], &[u8]) -> bool + Send + 'static,
) -> Result<Search, TopicError> {
    let brokers = brokers.to_owned();
    let topic = topic.to_owned();
    client::blocking(move || {
        let reading = Reading { brokers, topic, span, deadline: Instant::now() + span.within };
        let mut found = None;
        let (reached, is_cut) = reading.run(partition_of, |message| {
            let key = message.key();
            let payload = message.payload();
            if !fits(key.unwrap_or_default(), payload.unwrap_or_default()) {
                return ControlFlow::Continue(());
            }
            found = Some(Box::new(Message::detach(message)));
            ControlFlow::Break(())
        })?;
        Ok(match (found, reached) {
            (Some(message), _) => Search::Found(message),
            (None, Reached::Limit(_)) => Search::Limit,
            (None, Reached::End) if is_cut => Search::Forgotten,
            (None, Reached::End) => Search::Nothing,
        })
    })
    .await
}

struct Reading {
    brokers: String,
    topic: String,
    span: HistorySpan,
    deadline: Instant,
}

/// The offsets to read.
struct Offsets {
    /// Offset of the first remaining message of the span.
    start: i64,
    /// Offset after the partition's last message.
    end: i64,
    /// Whether deleted messages before `start` may have belonged to the span.
    is_cut: bool,
}

impl Reading {
    /// Reads the span, and returns how far it came and [`Offsets::is_cut`].
    fn run(
        &self,
        partition_of: impl FnOnce(i32) -> i32,
        take: impl FnMut(&BorrowedMessage<'_>) -> ControlFlow<()>,
    ) -> Result<(Reached, bool), TopicError> {
        let consumer: BaseConsumer = client::base_config(&self.brokers)
            // The client requires a group id; nothing is ever committed under it.
            .set("group.id", "history-reader")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest")
            .set("fetch.wait.max.ms", "10")
            .set("queued.max.messages.kbytes", "4096")
            .set("fetch.queue.backoff.ms", FETCH_AGAIN_MS)
            .create()
            .map_err(TopicError::Client)?;
        let metadata = consumer
            .client()
            .fetch_metadata(Some(&self.topic), self.left())
            .map_err(|source| self.unreachable(source))?;
        let partitions = client::partition_count(&metadata, &self.topic)
            .ok_or_else(|| TopicError::MissingTopic { topic: self.topic.clone() })?;
        let partition = partition_of(partitions);
        let Offsets { start, end, is_cut } = self.offsets(&consumer, partition)?;
        if start >= end {
            return Ok((Reached::End, is_cut));
        }
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, partition, Offset::Offset(start))
            .map_err(TopicError::Consume)?;
        consumer.assign(&list).map_err(TopicError::Consume)?;
        Ok((self.read(&consumer, end, take)?, is_cut))
    }

    fn offsets(&self, consumer: &BaseConsumer, partition: i32) -> Result<Offsets, TopicError> {
        let failed = |source| TopicError::Offsets { topic: self.topic.clone(), source };
        let (first, end) = consumer
            .fetch_watermarks(&self.topic, partition, self.left())
            .map_err(|source| self.unreachable(source))?;
        let mut times = TopicPartitionList::new();
        // Here the offset is a time.
        let from = Offset::Offset(self.span.from_ms.max(0));
        times.add_partition_offset(&self.topic, partition, from).map_err(failed)?;
        let found = consumer.offsets_for_times(times, self.left()).map_err(failed)?;
        let start = found.elements().first().map(TopicPartitionListElem::offset);
        let start = match start {
            Some(Offset::Offset(start)) => start.max(first),
            // No message of this time or later.
            _ => end,
        };
        Ok(Offsets { start, end, is_cut: first > 0 && start <= first })
    }

    fn read(
        &self,
        consumer: &BaseConsumer,
        end: i64,
        mut take: impl FnMut(&BorrowedMessage<'_>) -> ControlFlow<()>,
    ) -> Result<Reached, TopicError> {
        let mut last_ms = None;
        let mut count = 0;
        while Instant::now() < self.deadline && count < self.span.messages_max {
            match consumer.poll(POLL_MAX) {
                Some(Ok(message)) => {
                    let time_ms = message.timestamp().to_millis();
                    if message.offset() >= end || time_ms >= Some(self.span.until_ms) {
                        return Ok(Reached::End);
                    }
                    last_ms = time_ms.or(last_ms);
                    count += 1;
                    if take(&message).is_break() {
                        return Ok(Reached::Limit(last_ms));
                    }
                    if message.offset() + 1 >= end {
                        return Ok(Reached::End);
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(Reached::End),
                Some(Err(error)) => wait_out(error, &self.topic)?,
                None => {}
            }
        }
        Ok(Reached::Limit(last_ms))
    }

    /// Returns the time that is left for one request.
    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now()).max(REQUEST_MIN)
    }

    fn unreachable(&self, source: KafkaError) -> TopicError {
        let brokers = self.brokers.clone();
        let waited = self.span.within;
        TopicError::Unreachable { brokers, waited, source }
    }
}

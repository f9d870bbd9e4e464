//! Where dead letters are: their topic, the offset up to which they were put back, and all that are kept.

use serde_json::{Value, json};
use topic::{TableReader, TopicError, TopicNames, committed_offsets, topic_offsets};

use crate::{
    arguments::Settings,
    failure::{Failure, Kind, chain},
    letter::Letter,
    text,
};

/// Letters read at a time.
const BATCH: usize = 256;

/// Columns of the list.
const COLUMNS: [&str; 9] = [
    "offset",
    "at",
    "source_topic",
    "source_partition",
    "source_offset",
    "key",
    "done",
    "obstacle",
    "reason",
];

/// The brokers, and the names of the platform's topics.
pub(crate) struct Kafka {
    pub(crate) brokers: String,
    pub(crate) names: TopicNames,
}

impl Kafka {
    /// Those that the settings name.
    ///
    /// # Errors
    /// None are named.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Failure> {
        let brokers = settings.kafka_brokers.clone().filter(|brokers| !brokers.is_empty());
        let brokers = brokers.ok_or_else(|| {
            Failure::usage("KAFKA_BROKERS is not set.").advise(
                "Dead letters are read from their topic, not by way of the api: name the brokers, \
                 `host:port`, in the environment or by `--kafka-brokers`.",
            )
        })?;
        Ok(Self { brokers, names: TopicNames::new(&settings.topic_prefix) })
    }

    /// Remembers what was put back.
    pub(crate) fn group(&self) -> String {
        format!("{}.dead-letter-replay", self.names.prefix())
    }

    /// The offset of the first letter that was not put back yet, and that behind the last one.
    pub(crate) async fn next_and_end(&self) -> Result<(i64, i64), TopicError> {
        let topic = self.names.dead_letter();
        let span = topic_offsets(&self.brokers, &topic).await?;
        // One partition: the topic is read whole.
        let (start, end) = span.first().map_or((0, 0), |only| (only.start, only.end));
        let committed = committed_offsets(&self.brokers, &self.group(), &topic).await?;
        Ok((committed.get(&0).map_or(start, |next| *next.max(&start)), end))
    }

    /// Shows every letter that is kept to `see`, the oldest first. One may have a megabyte, so none is kept.
    pub(crate) async fn each(&self, mut see: impl FnMut(&Letter)) -> Result<(), TopicError> {
        let mut reader = TableReader::open(&self.brokers, &self.names.dead_letter()).await?;
        while !reader.caught_up() {
            for message in reader.next_batch(BATCH).await? {
                see(&Letter(message));
            }
        }
        Ok(())
    }
}

/// Every letter that is kept, the oldest first.
///
/// # Errors
/// No broker answers.
pub(crate) async fn list(kafka: &Kafka) -> Result<Value, Failure> {
    let listed = async {
        let (next, _) = kafka.next_and_end().await?;
        let mut data = Vec::new();
        let note = |letter: &Letter| data.push(letter.json(&kafka.names, letter.0.offset < next));
        kafka.each(note).await?;
        Ok(json!({ "data": data }))
    };
    listed.await.map_err(|error: TopicError| away(&error))
}

/// The list as text: done or not, and why it cannot be put back.
pub(crate) fn list_text(answer: &Value) -> String {
    text::page(answer, &COLUMNS)
}

/// Nothing was changed.
pub(crate) fn away(error: &TopicError) -> Failure {
    let sentence = chain(error);
    match error {
        // Nothing can be put back, or found: the prefix is another, or nothing runs there.
        TopicError::MissingTopic { .. } => Failure::usage(format!("{sentence} (TOPIC_PREFIX).")),
        _ => Failure::new(Kind::Unavailable, format!("{sentence}.")),
    }
}

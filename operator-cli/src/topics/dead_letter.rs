//! The topic of dead letters: the letters in it, and the offset up to which they were put back.

use serde_json::{Value, json};
use topic::{TableReader, TopicError, TopicNames, committed_offsets, topic_offsets};

use crate::{
    arguments::Settings,
    failure::{Failure, Kind, chain},
    text,
    topics::letter::Letter,
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
    /// Returns the brokers and topics that the settings name.
    ///
    /// # Errors
    /// No brokers are named.
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

    /// Consumer group whose offset says what was put back.
    pub(crate) fn group(&self) -> String {
        format!("{}.dead-letter-replay", self.names.prefix())
    }

    /// Returns the offset of the first letter that was not put back yet, and that after the last one.
    pub(crate) async fn next_and_end(&self) -> Result<(i64, i64), TopicError> {
        let topic = self.names.dead_letter();
        let span = topic_offsets(&self.brokers, &topic).await?;
        // The topic has one partition.
        let (start, end) = span.first().map_or((0, 0), |only| (only.start, only.end));
        let committed = committed_offsets(&self.brokers, &self.group(), &topic).await?;
        Ok((committed.get(&0).map_or(start, |next| *next.max(&start)), end))
    }

    /// Passes every letter in the topic to `see`, oldest first. A letter may have a megabyte, so none is kept in
    /// memory.
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

/// Returns every letter in the topic, oldest first.
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

pub(crate) fn list_text(answer: &Value) -> String {
    text::page(answer, &COLUMNS)
}

/// Returns the failure for an error before anything was changed.
pub(crate) fn away(error: &TopicError) -> Failure {
    let sentence = chain(error);
    match error {
        // The topic is missing: the prefix is wrong, or no platform runs there.
        TopicError::MissingTopic { .. } => Failure::usage(format!("{sentence} (TOPIC_PREFIX).")),
        _ => Failure::new(Kind::Unavailable, format!("{sentence}.")),
    }
}

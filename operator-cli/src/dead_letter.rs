//! The dead letters: listed, and put back where they came from.
//!
//! What was done is the committed offset of a consumer group of their topic, so a letter is put back
//! once. A replay that is killed between a message and its offset repeats that one message: readers
//! apply what is newer, as they do with every repetition.

use std::time::Duration;

use serde_json::{Value, json};
use topic::{
    Consumer, ConsumerOptions, Producer, ProducerOptions, TableReader, TopicError, TopicNames,
    committed_offsets, topic_offsets,
};

use crate::{
    arguments::Settings,
    failure::{Failure, Kind, chain},
    letter::Letter,
    text,
};

/// Letters read at a time.
const BATCH: usize = 256;

/// How long the group may take to hand the topic over, longer than the 6 s after which it forgets a
/// replay that was killed.
const TURN_MAX: Duration = Duration::from_secs(15);

/// Columns of the list.
const COLUMNS: [&str; 8] =
    ["offset", "at", "source_topic", "source_partition", "source_offset", "key", "done", "reason"];

/// The brokers, and the names of the platform's topics.
pub(crate) struct Kafka {
    brokers: String,
    names: TopicNames,
}

impl Kafka {
    /// Those that the settings name.
    ///
    /// # Errors
    /// None are named.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Failure> {
        let brokers = settings.kafka_brokers.clone().filter(|brokers| !brokers.is_empty());
        let brokers = brokers.ok_or_else(|| {
            Failure::usage("KAFKA_BROKERS is not set.")
                .advise("Dead letters are read from their topic, not by way of the api.")
        })?;
        Ok(Self { brokers, names: TopicNames::new(&settings.topic_prefix) })
    }

    /// Remembers what was put back.
    fn group(&self) -> String {
        format!("{}.dead-letter-replay", self.names.prefix())
    }

    /// The offset behind the last letter, and that of the first one that was not put back yet.
    async fn end_and_next(&self) -> Result<(i64, i64), TopicError> {
        let topic = self.names.dead_letter();
        let span = topic_offsets(&self.brokers, &topic).await?;
        // One partition: the topic is read whole.
        let (start, end) = span.first().map_or((0, 0), |only| (only.start, only.end));
        let committed = committed_offsets(&self.brokers, &self.group(), &topic).await?;
        Ok((end, committed.get(&0).map_or(start, |next| *next.max(&start))))
    }
}

/// Every letter that is kept, the oldest first.
///
/// # Errors
/// No broker answers.
pub(crate) async fn list(kafka: &Kafka) -> Result<Value, Failure> {
    let listed = async {
        let (_, next) = kafka.end_and_next().await?;
        let mut reader = TableReader::open(&kafka.brokers, &kafka.names.dead_letter()).await?;
        let mut data = Vec::new();
        while !reader.caught_up() {
            for message in reader.next_batch(BATCH).await? {
                let done = message.offset < next;
                data.push(Letter(message).json(&kafka.names, done));
            }
        }
        Ok(json!({ "data": data }))
    };
    listed.await.map_err(|error: TopicError| away(&error))
}

/// The list as text: done or not, and why it cannot be put back.
pub(crate) fn list_text(answer: &Value) -> String {
    text::page(answer, &COLUMNS)
}

/// Puts back what was not put back before, up to the last letter that is there now; of what cannot be put
/// back says why and passes on. A dry run only says what it would do.
///
/// # Errors
/// No broker answers, or another replay is at it.
pub(crate) async fn replay(kafka: &Kafka, dry_run: bool) -> Result<Value, Failure> {
    let (end, next) = kafka.end_and_next().await.map_err(|error| away(&error))?;
    let mut report = Report { dry_run, ..Report::default() };
    if dry_run {
        let read = async {
            let mut reader = TableReader::open(&kafka.brokers, &kafka.names.dead_letter()).await?;
            while !reader.caught_up() {
                for message in reader.next_batch(BATCH).await? {
                    if message.offset >= next {
                        report.add(kafka, &Letter(message));
                    }
                }
            }
            Ok(())
        };
        read.await.map_err(|error: TopicError| away(&error))?;
    } else if next < end {
        put_back(kafka, end, &mut report).await?;
    }
    Ok(report.json())
}

async fn put_back(kafka: &Kafka, end: i64, report: &mut Report) -> Result<(), Failure> {
    // From the first message on: the broker may have taken what it did not acknowledge.
    let failed = |error: TopicError| {
        Failure { kind: Kind::Unknown, ..away(&error) }
            .advise("What was put back is remembered: the same command goes on behind it.")
    };
    let options = ConsumerOptions::default();
    let topics = [kafka.names.dead_letter()];
    let joined = Consumer::join(&kafka.brokers, &kafka.group(), &topics, options).await;
    let consumer = joined.map_err(|error| away(&error))?;
    let connected = Producer::connect(&kafka.brokers, ProducerOptions::default()).await;
    let producer = connected.map_err(|error| away(&error))?;
    loop {
        let Ok(batch) = tokio::time::timeout(TURN_MAX, consumer.next_batch(1)).await else {
            if consumer.rebalances().borrow().all().is_empty() {
                let sentence = "Another replay is under way.";
                return Err(Failure::new(Kind::Unavailable, sentence));
            }
            // Nothing comes before the end: what was there has passed its retention meanwhile.
            break;
        };
        let mut at_end = false;
        for message in batch.map_err(failed)? {
            at_end = message.offset + 1 >= end;
            if message.offset >= end {
                break;
            }
            let letter = Letter(message);
            if report.add(kafka, &letter) {
                send(&producer, &letter).await.map_err(failed)?;
            }
            // At once: what is put back is remembered before the next one goes.
            consumer.store(&letter.0);
            consumer.commit().await.map_err(failed)?;
        }
        if at_end {
            break;
        }
    }
    consumer.close().await.map_err(failed)
}

async fn send(producer: &Producer, letter: &Letter) -> Result<(), TopicError> {
    let (topic, partition) = (letter.source_topic(), letter.source_partition());
    let headers = letter.kept_headers();
    producer.send(&topic, partition, &letter.0.key, letter.payload(), &headers).await.map(|_| ())
}

/// What a replay did, or would do.
#[derive(Default)]
struct Report {
    dry_run: bool,
    replayed: Vec<Value>,
    passed_over: Vec<Value>,
}

impl Report {
    /// Notes a letter; answers whether it is to be put back.
    fn add(&mut self, kafka: &Kafka, letter: &Letter) -> bool {
        let place = json!({
            "offset": letter.0.offset,
            "source_topic": letter.source_topic(),
            "source_partition": letter.source_partition(),
            "key": String::from_utf8_lossy(&letter.0.key),
        });
        let obstacle = letter.obstacle(&kafka.names);
        match obstacle {
            None => self.replayed.push(place),
            Some(why) => {
                let mut place = place;
                place["obstacle"] = why.into();
                self.passed_over.push(place);
            }
        }
        obstacle.is_none()
    }

    fn json(self) -> Value {
        let Self { dry_run, replayed, passed_over } = self;
        json!({ "dry_run": dry_run, "replayed": replayed, "passed_over": passed_over })
    }
}

/// A replay as text.
pub(crate) fn replay_text(answer: &Value) -> String {
    let rows = |name: &str| answer.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let (replayed, passed_over) = (rows("replayed"), rows("passed_over"));
    let dry_run = answer.get("dry_run").and_then(Value::as_bool) == Some(true);
    let verb = if dry_run { "would be put back" } else { "put back" };
    let mut text = format!("{} {verb}, {} passed over\n", replayed.len(), passed_over.len());
    if !replayed.is_empty() {
        let columns = ["offset", "source_topic", "source_partition", "key"];
        text.push_str(&format!("\n{}", text::table(&replayed, &columns)));
    }
    if !passed_over.is_empty() {
        let columns = ["offset", "source_topic", "key", "obstacle"];
        text.push_str(&format!("\n{}", text::table(&passed_over, &columns)));
    }
    text
}

fn away(error: &TopicError) -> Failure {
    let sentence = chain(error);
    match error {
        // Nothing can be put back, or found: the prefix is another, or nothing runs there.
        TopicError::MissingTopic { .. } => Failure::usage(format!("{sentence} (TOPIC_PREFIX).")),
        _ => Failure::new(Kind::Unavailable, format!("{sentence}.")),
    }
}

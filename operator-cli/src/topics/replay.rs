//! Puts dead letters back where they came from.
//!
//! The committed offset of a consumer group of their topic says what was done, so a letter is put back once. A replay
//! that is killed between sending a message and committing its offset repeats that one message: readers apply only what
//! is newer, as with every repetition.
//!
//! The brokers do not identify the operator, so the api does, and records the replay before the first letter is sent.
//! Otherwise none is sent ([`ReplayRecord`]).

use std::time::Duration;

use serde_json::{Value, json};
use topic::{Consumer, ConsumerOptions, HeldUp, Producer, ProducerOptions, TopicError};

use crate::{
    api::{Api, call::Call},
    failure::{Failure, Kind},
    output::Output,
    text,
    topics::{
        dead_letter::{Kafka, away},
        letter::Letter,
    },
};

/// Time limit for the group to hand the topic over: longer than the 6 s after which it drops a replay that was killed.
const TURN_MAX: Duration = Duration::from_secs(15);

/// Path of replays in the api's record.
const REPLAYS: &str = "/v1/dead-letter-replays";

/// Advice if it is unknown whether a replay is recorded. It begins only once that is known.
const NOT_BEGUN: &str =
    "No letter was put back; the record may have a line without an end. Send the command again.";

/// Advice if the end of a replay could not be recorded.
const END_NOT_RECORDED: &str = "The letters are put back, as printed, and the record has who did it: \
                                only how it ended is missing there.";

/// Returns what a replay would do.
pub(crate) async fn plan(kafka: &Kafka) -> Result<Value, Failure> {
    let planned = async {
        let (next, _) = kafka.next_and_end().await?;
        let mut report = Report { dry_run: true, ..Report::default() };
        let note = |letter: &Letter| {
            if letter.0.offset >= next {
                report.add(kafka, letter);
            }
        };
        kafka.each(note).await?;
        Ok(report.json())
    };
    planned.await.map_err(|error: TopicError| away(&error))
}

/// Puts back what was not put back before, up to the last letter that is there now, and prints what was done. Letters
/// that cannot be put back are passed over with a reason.
///
/// # Errors
/// No broker answers, another replay is under way, or the api does not record it.
pub(crate) async fn replay(kafka: &Kafka, api: &Api, output: &Output) -> Result<(), Failure> {
    let (next, end) = kafka.next_and_end().await.map_err(|error| away(&error))?;
    let mut report = Report::default();
    let line = if next < end { put_back(kafka, api, end, &mut report).await? } else { None };
    let counts = report.counts();
    output.answer(&report.json(), as_text)?;
    match line {
        Some(line) => line.end(api, counts).await,
        None => Ok(()),
    }
}

/// Puts letters back up to `end`. Returns the line that was begun before the first one.
async fn put_back(
    kafka: &Kafka,
    api: &Api,
    end: i64,
    report: &mut Report,
) -> Result<Option<ReplayRecord>, Failure> {
    // From the first message on the outcome is unknown: the broker may have taken what it did not acknowledge.
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
    let mut line = None;
    loop {
        let Ok(batch) = tokio::time::timeout(TURN_MAX, consumer.next_batch(1)).await else {
            if consumer.rebalances().borrow().all().is_empty() {
                let failure = Failure::new(Kind::Unavailable, "Another replay is under way.");
                return Err(failure.advise("Once it has ended, `--dry-run` says what is left."));
            }
            if let Some(why) = HeldUp::sentence(&consumer.held_up().borrow()) {
                let sentence = format!("A letter and those behind it cannot be read: {why}.");
                return Err(Failure::new(Kind::Unavailable, sentence).advise(
                    "What was put back is remembered: the same command goes on behind it.",
                ));
            }
            // No letter is left before `end`: retention has deleted them meanwhile.
            break;
        };
        let mut at_end = false;
        for message in batch.map_err(failed)? {
            at_end = message.offset + 1 >= end;
            if message.offset >= end {
                break;
            }
            // Only once the group has assigned the topic to us: a second replay begins no line.
            if line.is_none() {
                line = Some(ReplayRecord::begin(api, message.offset, end).await?);
            }
            let letter = Letter(message);
            if report.add(kafka, &letter) {
                send(&producer, &letter).await.map_err(failed)?;
            }
            // Committed at once, before the next letter is sent.
            consumer.store(&letter.0);
            consumer.commit().await.map_err(failed)?;
        }
        if at_end {
            break;
        }
    }
    consumer.close().await.map_err(failed)?;
    Ok(line)
}

async fn send(producer: &Producer, letter: &Letter) -> Result<(), TopicError> {
    let topic = letter.source_topic();
    let partition = letter.source_partition();
    let headers = letter.kept_headers();
    producer.send(&topic, partition, &letter.0.key, letter.payload(), &headers).await.map(|_| ())
}

/// A replay in the api's record of what operators do.
struct ReplayRecord {
    id: String,
}

impl ReplayRecord {
    /// Has the api record the beginning: the operator, and the range of letters.
    async fn begin(api: &Api, from: i64, to: i64) -> Result<Self, Failure> {
        let body = json!({ "from_offset": from, "to_offset": to });
        let begun = api.send(&Call::post(REPLAYS).with_body(body).once(NOT_BEGUN)).await?;
        let id = begun.get("id").and_then(Value::as_str).map(str::to_owned);
        let id = id.ok_or_else(|| {
            let sentence = "The api's answer to the beginning of a replay has no `id`.";
            Failure::new(Kind::Unavailable, sentence).advise(NOT_BEGUN)
        })?;
        Ok(Self { id })
    }

    /// Has the api record the end.
    async fn end(self, api: &Api, counts: Value) -> Result<(), Failure> {
        let call = Call::post(format!("{REPLAYS}/{}/end", self.id)).with_body(counts);
        // Whatever the error says, this command has already put letters back.
        let failed =
            |failure: Failure| Failure { kind: Kind::Unknown, ..failure }.advise(END_NOT_RECORDED);
        api.send(&call).await.map(|_| ()).map_err(failed)
    }
}

/// Result of a replay, or of a dry run.
#[derive(Default)]
struct Report {
    dry_run: bool,
    replayed: Vec<Value>,
    passed_over: Vec<Value>,
}

impl Report {
    /// Notes a letter. Returns whether it is to be put back.
    fn add(&mut self, kafka: &Kafka, letter: &Letter) -> bool {
        let line = json!({
            "offset": letter.0.offset,
            "source_topic": letter.source_topic(),
            "source_partition": letter.source_partition(),
            "key": String::from_utf8_lossy(&letter.0.key),
        });
        let obstacle = letter.obstacle(&kafka.names);
        match obstacle {
            None => self.replayed.push(line),
            Some(why) => {
                let mut line = line;
                line["obstacle"] = why.into();
                self.passed_over.push(line);
            }
        }
        obstacle.is_none()
    }

    /// Returns the counts for the record. The topic says which letters they were.
    fn counts(&self) -> Value {
        json!({ "replayed": self.replayed.len(), "passed_over": self.passed_over.len() })
    }

    fn json(self) -> Value {
        let Self { dry_run, replayed, passed_over } = self;
        json!({ "dry_run": dry_run, "replayed": replayed, "passed_over": passed_over })
    }
}

pub(crate) fn as_text(answer: &Value) -> String {
    let rows = |name: &str| answer.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let replayed = rows("replayed");
    let passed_over = rows("passed_over");
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

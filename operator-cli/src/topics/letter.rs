//! A dead letter: a message that could not be processed, and whether it can be put back.

use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};
use topic::{HEADER_POSITION, HEADER_SCHEMA, HEADER_TRACE_PARENT, Message, TopicNames};

/// Keys of at least this length were cut when the letter was written. Ours are ids.
const KEY_BYTES_CUT: usize = 1024;

/// Maximum characters shown of a payload: its beginning shows whose it is.
const SHOWN_CHARS: usize = 200;

/// Headers that a message is put back with, if its letter has them.
const KEPT_HEADERS: [&str; 3] = [HEADER_SCHEMA, HEADER_POSITION, HEADER_TRACE_PARENT];

/// A message of the dead letter topic.
pub(crate) struct Letter(pub(crate) Message);

impl Letter {
    /// Returns the topic that the message was on, or was for.
    pub(crate) fn source_topic(&self) -> String {
        self.word("source-topic").unwrap_or_default()
    }

    /// Returns the partition that the message was on, or `None` if it never got there or its letter names none: then
    /// its key decides.
    pub(crate) fn source_partition(&self) -> Option<i32> {
        self.word("source-partition")?.parse().ok().filter(|it: &i32| *it >= 0)
    }

    /// Returns the headers that it is put back with.
    pub(crate) fn kept_headers(&self) -> Vec<(&'static str, &[u8])> {
        let kept = KEPT_HEADERS.into_iter();
        kept.filter_map(|name| self.0.header(name).map(|value| (name, value))).collect()
    }

    pub(crate) fn payload(&self) -> &[u8] {
        self.0.payload.as_deref().unwrap_or_default()
    }

    /// Returns why it cannot be put back unchanged, if so.
    pub(crate) fn obstacle(&self, names: &TopicNames) -> Option<&'static str> {
        // At the end of a compacted topic an older row would replace the newer one. Readers of these two topics apply
        // only what is newer.
        if ![names.user_coupon(), names.stock_movement()].contains(&self.source_topic()) {
            return Some("it is of no topic that messages are put back on");
        }
        let whole = self.word("payload-bytes").and_then(|bytes| bytes.parse().ok());
        if whole != Some(self.payload().len()) || self.payload().is_empty() {
            return Some("its payload was not kept whole");
        }
        (self.0.key.len() >= KEY_BYTES_CUT).then_some("its key was not kept whole")
    }

    /// Returns the letter as `list` shows it.
    pub(crate) fn json(&self, names: &TopicNames, replayed: bool) -> Value {
        let payload = String::from_utf8_lossy(self.payload());
        json!({
            "offset": self.0.offset,
            "at": self.0.timestamp_ms.and_then(instant),
            "source_topic": self.source_topic(),
            "source_partition": self.source_partition(),
            "source_offset": self.word("source-offset").and_then(|text| text.parse::<i64>().ok()),
            "key": String::from_utf8_lossy(&self.0.key),
            "reason": self.word("reason"),
            "payload_bytes": self.word("payload-bytes").and_then(|text| text.parse::<u64>().ok()),
            "payload_start": payload.chars().take(SHOWN_CHARS).collect::<String>(),
            "obstacle": self.obstacle(names),
            "done": replayed,
        })
    }

    fn word(&self, header: &str) -> Option<String> {
        self.0.header(header).map(|value| String::from_utf8_lossy(value).into_owned())
    }
}

fn instant(ms: i64) -> Option<String> {
    let at = DateTime::from_timestamp_millis(ms)?;
    Some(at.to_rfc3339_opts(SecondsFormat::Millis, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(topic: &str, key: &[u8], payload: &str, bytes: usize) -> Letter {
        let header = |name: &str, value: String| (name.to_owned(), value.into_bytes());
        Letter(Message {
            topic: "p.dead_letter".to_owned(),
            partition: 0,
            offset: 3,
            key: key.to_vec(),
            payload: Some(payload.as_bytes().to_vec()),
            headers: vec![
                header("source-topic", topic.to_owned()),
                header("payload-bytes", bytes.to_string()),
            ],
            timestamp_ms: Some(0),
        })
    }

    #[test]
    fn only_a_whole_letter_of_a_versioned_topic_is_put_back() {
        let names = TopicNames::new("p");
        let obstacle = |letter: Letter| letter.obstacle(&names);
        assert_eq!(obstacle(letter("p.user_coupon", b"7", "{", 1)), None);
        assert_eq!(obstacle(letter("p.stock_movement", b"7", "{", 1)), None);
        for other in ["p.template", "q.user_coupon", "p.checkpoint", ""] {
            assert!(obstacle(letter(other, b"7", "{", 1)).is_some(), "{other}");
        }
        assert!(obstacle(letter("p.user_coupon", b"7", "", 2_000_000)).is_some());
        assert!(obstacle(letter("p.user_coupon", b"7", "", 0)).is_some());
        assert!(obstacle(letter("p.user_coupon", &[b'7'; 1024], "{", 1)).is_some());
    }

    #[test]
    fn a_letter_is_shown_with_the_time_and_place_it_came_from() {
        let json = letter("p.user_coupon", b"7", "{", 1).json(&TopicNames::new("p"), true);
        assert_eq!(json["at"], "1970-01-01T00:00:00.000Z");
        assert_eq!((&json["key"], &json["done"]), (&Value::from("7"), &Value::from(true)));
        assert!(json["source_partition"].is_null() && json["obstacle"].is_null());
    }
}

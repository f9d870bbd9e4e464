//! What an api remembers of the other processes, so that one that has died keeps its name, and shows since when.
//!
//! It is only what can no longer be asked: states and lags come from the answers alone.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};

use super::reading;

/// What is remembered of all processes.
#[derive(Default)]
pub(super) struct Memory {
    /// By admin address. Those that are not asked any more are forgotten.
    peers: BTreeMap<String, Remembered>,
    /// When a tailer was last seen to lead.
    led_at: Option<DateTime<Utc>>,
}

#[derive(Default)]
struct Remembered {
    /// The name that it last gave itself.
    process: Option<Value>,
    /// When it first did not answer, since its last answer.
    silent_since: Option<DateTime<Utc>>,
}

impl Memory {
    /// Learns from the answers, and completes those of processes that did not answer by name and time.
    pub(super) fn learn(&mut self, answers: &mut [Value], now: DateTime<Utc>) {
        let mut before = std::mem::take(&mut self.peers);
        for answer in answers.iter_mut() {
            if reading::leads(answer) {
                self.led_at = Some(now);
            }
            let Some(address) = answer["address"].as_str().map(str::to_owned) else { continue };
            let mut known = before.remove(&address).unwrap_or_default();
            if answer["error"].is_string() {
                let since = *known.silent_since.get_or_insert(now);
                answer["since"] = json!(since.to_rfc3339_opts(SecondsFormat::Millis, true));
                if let Some(process) = &known.process {
                    answer["process"] = process.clone();
                }
            } else {
                let process = Some(answer["process"].clone()).filter(Value::is_string);
                known = Remembered { process, silent_since: None };
            }
            self.peers.insert(address, known);
        }
    }

    pub(super) fn led_at(&self) -> Option<DateTime<Utc>> {
        self.led_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + second, 0).unwrap()
    }

    fn silent() -> Value {
        json!({ "process": null, "address": "a:1", "status": "no answer", "error": "refused" })
    }

    #[test]
    fn a_process_that_died_keeps_its_name_and_shows_since_when_it_is_silent() {
        let mut memory = Memory::default();
        let lives = json!({ "process": "cdc-tailer", "address": "a:1", "status": "ready",
            "details": { "binlog": { "role": "leader" } } });
        let mut look = |answer: Value, second| {
            let mut answers = [answer];
            memory.learn(&mut answers, at(second));
            let [answer] = answers;
            (answer["process"].clone(), answer["since"].clone(), memory.led_at())
        };
        assert_eq!(look(silent(), 0).0, Value::Null, "it has never answered");
        assert_eq!(look(lives.clone(), 1), (json!("cdc-tailer"), Value::Null, Some(at(1))));
        for second in [3, 5] {
            let (process, since, led_at) = look(silent(), second);
            assert_eq!((process, led_at), (json!("cdc-tailer"), Some(at(1))));
            assert_eq!(since, json!("2027-01-15T08:00:03.000Z"));
        }
        look(lives, 7);
        assert_eq!(look(silent(), 9).1, json!("2027-01-15T08:00:09.000Z"), "another silence");
    }

    #[test]
    fn addresses_that_are_not_asked_any_more_are_forgotten() {
        let mut memory = Memory::default();
        memory.learn(&mut [silent()], at(0));
        assert_eq!(memory.peers.len(), 1);
        memory.learn(&mut [], at(1));
        assert_eq!(memory.peers.len(), 0);
    }
}

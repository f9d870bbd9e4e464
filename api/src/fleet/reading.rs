//! Reads facts out of the answers of the processes. What is missing there, as in an older version's, is unknown.

use chrono::{DateTime, Utc};
use coupon::TemplateId;
use serde_json::Value;

use super::{
    Seen,
    facts::{ClosedGate, Facts, Part, Process, Silence},
    kind::Kind,
};

impl Seen {
    /// Returns what is known, with the gates that were not loaded at this api's last look. That look says nothing once
    /// this api cannot look any more.
    pub(crate) fn facts_with(&self, not_loaded: Option<Vec<(TemplateId, DateTime<Utc>)>>) -> Facts {
        let closed = |(template, opens_at): (TemplateId, _)| ClosedGate {
            template: template.to_string(),
            opens_at,
        };
        let gates = not_loaded.filter(|_| self.can_look_at_gates());
        self.facts(gates.map(|gates| gates.into_iter().map(closed).collect()))
    }

    /// Returns what is known: by the answers, and of the gates, whose state this api knows by its own keeper.
    pub(crate) fn facts(&self, gates_not_loaded: Option<Vec<ClosedGate>>) -> Facts {
        Facts {
            now: self.at,
            processes: self.processes.iter().map(process).collect(),
            led_at: self.led_at,
            publish_lag: self.publish_lag(),
            list_lag: self.list_lag(),
            gates_not_loaded,
        }
    }

    /// Whether this api reaches what a look at the gates needs.
    pub(crate) fn can_look_at_gates(&self) -> bool {
        let own = self.processes.first().map(process);
        own.is_some_and(|api| api.has("mysql") && api.has("gate"))
    }

    /// Returns the tailer that publishes.
    pub(crate) fn leader(&self) -> Option<&Value> {
        self.processes.iter().find(|process| leads(process))
    }

    /// Returns the age of what the leader has not checkpointed; unknown while its brokers do not answer.
    pub(crate) fn publish_lag(&self) -> Option<f64> {
        let leader = self.leader()?;
        let has_brokers = leader.pointer("/parts/kafka/up").is_some_and(|up| up == true);
        leader.pointer("/details/binlog/checkpoint/age_seconds")?.as_f64().filter(|_| has_brokers)
    }

    /// Returns the largest lag of the consumers; unknown if there is none, one does not know its own, or nobody
    /// publishes: a consumer that gets nothing believes that it lacks nothing.
    pub(crate) fn list_lag(&self) -> Option<f64> {
        self.publish_lag()?;
        self.leader().filter(|leader| process(leader).has("mysql"))?;
        let consumers =
            self.processes.iter().filter(|process| process["process"] == "sync-consumer");
        let lags: Option<Vec<f64>> = consumers
            .map(|consumer| consumer.pointer("/details/partitions/lag_seconds")?.as_f64())
            .collect();
        lags?.into_iter().reduce(f64::max)
    }
}

pub(super) fn leads(process: &Value) -> bool {
    process.pointer("/details/binlog/role").is_some_and(|role| role == "leader")
}

fn process(answer: &Value) -> Process {
    let detail = |pointer: &str| answer.pointer(pointer);
    let clock = detail("/details/mysql/clock_skew_seconds")
        .or_else(|| detail("/details/clock/clock_skew_seconds"));
    let silence = text(&answer["error"]);
    let parts = answer["parts"].as_object().into_iter().flatten();
    Process {
        kind: answer["process"].as_str().and_then(Kind::of_word),
        address: text(&answer["address"]),
        silence: silence.map(|why| Silence { why, since: time(&answer["since"]) }),
        parts: parts.map(|(name, said)| part(name, said)).collect(),
        leads: leads(answer),
        is_read_only: detail("/details/mysql/read_only").and_then(Value::as_bool),
        clock_ahead: clock.and_then(Value::as_f64),
        flips: detail("/details/clock/flips").and_then(Value::as_bool),
    }
}

fn part(name: &str, said: &Value) -> Part {
    Part {
        name: name.to_owned(),
        is_up: said["up"] == true,
        since: time(&said["since"]),
        why: text(&said["why"]),
        server: text(&said["address"]),
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn time(value: &Value) -> Option<DateTime<Utc>> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(processes: &[Value]) -> Seen {
        Seen { at: DateTime::UNIX_EPOCH, processes: processes.to_vec(), led_at: None }
    }

    fn consumer(lag: Value) -> Value {
        json!({ "process": "sync-consumer", "status": "ready", "details": { "partitions": { "lag_seconds": lag } } })
    }

    fn leader(has_brokers: bool) -> Value {
        json!({ "process": "cdc-tailer", "parts": { "kafka": { "up": has_brokers }, "mysql": { "up": true } },
            "details": { "binlog": { "role": "leader", "checkpoint": { "age_seconds": 3 } } } })
    }

    #[test]
    fn a_lag_that_one_process_does_not_know_is_unknown() {
        let list = |processes: &[Value]| seen(processes).list_lag();
        let whole = [leader(true), consumer(json!(0.0)), consumer(json!(2.5))];
        assert_eq!(list(&whole), Some(2.5));
        assert_eq!(list(&[leader(true), consumer(json!(0.0)), consumer(Value::Null)]), None);
        assert_eq!(list(&[leader(true)]), None);
        assert_eq!(list(&whole[1..]), None, "nobody publishes");
        assert_eq!(list(&[leader(false), consumer(json!(0.0))]), None, "nothing can be published");
        let publish = |processes: &[Value]| seen(processes).publish_lag();
        assert_eq!(publish(&[consumer(json!(0)), leader(true)]), Some(3.0));
        assert_eq!((publish(&[leader(false)]), publish(&[])), (None, None));
    }

    #[test]
    fn facts_are_what_the_answers_say_and_nothing_else() {
        let since = "2027-01-15T08:00:00.000Z";
        let api = json!({ "process": "api", "address": null, "status": "degraded",
            "parts": { "kafka": { "up": false, "since": since, "why": "no broker answers", "address": "k:9092" },
                "http": { "up": true, "since": since, "why": null, "address": null } },
            "details": { "mysql": { "clock_skew_seconds": 0.5, "read_only": true } } });
        let worker = json!({ "process": "expiry-worker", "address": "w:1", "parts": {},
            "details": { "clock": { "clock_skew_seconds": -3.0, "flips": false } } });
        let silent = json!({ "process": "cdc-tailer", "address": "t:1", "status": "no answer",
            "error": "refused", "since": since });
        let facts = seen(&[api, worker, silent]).facts(None);
        let [api, worker, silent] = &facts.processes[..] else { panic!("{facts:?}") };
        assert!(api.has("http") && !api.has("kafka") && api.lacks("kafka") && !api.has("mysql"));
        assert_eq!((api.clock_ahead, api.is_read_only), (Some(0.5), Some(true)));
        assert_eq!(api.part("kafka").unwrap().server.as_deref(), Some("k:9092"));
        assert_eq!((worker.clock_ahead, worker.flips), (Some(-3.0), Some(false)));
        assert_eq!(silent.kind, Some(Kind::CdcTailer));
        let silence = silent.silence.as_ref().unwrap();
        assert_eq!(silence.since, Some(since.parse().unwrap()));
        assert_eq!(silence.why, "refused");
    }
}

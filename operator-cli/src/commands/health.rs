//! `health`: what works for users and why the rest does not, then all processes and their servers.

use serde_json::{Value, json};

use crate::{
    api::{Api, call::Call},
    arguments::Settings,
    failure::{Failure, Kind},
    output::Output,
    text,
};

/// Columns of the processes.
const PROCESSES: [&str; 5] = ["process", "address", "status", "version", "commit"];

/// Columns of what is down.
const DOWN: [&str; 5] = ["process", "address", "part", "since", "why"];

/// Columns of gates that are not loaded.
const GATES: [&str; 2] = ["template_id", "opens_at"];

/// What to do if no api says how the platform is.
const ASK_OTHERS: &str =
    "Is API_URL right, and does the api run? Ask another api, or `/readyz` of each process.";

/// What is said if the answer has no first sentence.
const OLDER: &str = "The api does not say what works: it is of an older version.";

/// Asks once: that nobody answers is an answer too, and is to be read within seconds. Prints the platform's health, and
/// fails if it is not well.
///
/// # Errors
/// Health cannot be read, or the platform is not well ([`Kind::NotWell`]).
pub(crate) async fn run(settings: &Settings, output: &Output) -> Result<(), Failure> {
    let asked = Api::new(settings)?.send_once(&Call::get("/v1/health")).await;
    let answer = asked.map_err(unreadable)?;
    output.answer(&answer, as_text)?;
    not_well(&answer).map_or(Ok(()), Err)
}

fn unreadable(failure: Failure) -> Failure {
    let sentence = format!("Health cannot be read. {}", failure.sentence);
    let failure = Failure { sentence, ..failure };
    if failure.kind == Kind::Unavailable { failure.advise(ASK_OTHERS) } else { failure }
}

/// Returns what is wrong, in the form of a failure. `None`: all is well.
fn not_well(answer: &Value) -> Option<Failure> {
    let impact = &answer["impact"];
    if impact["state"] == "well" {
        return None;
    }
    let sentence = impact["sentence"].as_str().unwrap_or(OLDER);
    let failure = Failure::new(Kind::NotWell, sentence);
    Some(match impact["action"].as_str() {
        Some(action) => failure.advise(action),
        None => failure,
    })
}

/// Formats the answer: the first sentence, the platform as a whole, its processes, and what is down.
fn as_text(answer: &Value) -> String {
    let impact = &answer["impact"];
    let processes = items(&answer["processes"]);
    let down: Vec<Value> = processes.iter().flat_map(down_of).collect();
    let mut text = format!("{}\n", text::clean(impact["sentence"].as_str().unwrap_or(OLDER)));
    for also in items(&impact["also"]) {
        text.push_str(&format!("Also: {}.\n", text::cell(Some(also))));
    }
    text.push('\n');
    let gates = &answer["gates_not_loaded"];
    text.push_str(&text::object(&json!({
        "claims": known(&impact["claims"]),
        "queued_claims": known(&impact["queued_claims"]),
        "payments": known(&impact["payments"]),
        "lists": known(&impact["lists"]),
        "expiry": known(&impact["expiry"]),
        "status": answer["status"],
        "leader": answer["leader"],
        "publish_lag_seconds": known(&answer["publish_lag_seconds"]),
        "list_lag_seconds": known(&answer["list_lag_seconds"]),
        "gates_not_loaded": gates.as_array().map_or(json!("unknown"), |gates| json!(gates.len())),
    })));
    for (name, rows, columns) in [
        ("processes", processes, &PROCESSES[..]),
        ("down", down.as_slice(), &DOWN[..]),
        ("gates not loaded", items(gates), &GATES[..]),
    ] {
        if !rows.is_empty() {
            text.push_str(&format!("\n{name}\n{}", text::table(rows, columns)));
        }
    }
    text
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn known(lag: &Value) -> Value {
    if lag.is_null() { json!("unknown") } else { lag.clone() }
}

/// Returns the parts of a process that are down; of one that did not answer, the reason.
fn down_of(process: &Value) -> Vec<Value> {
    if let Some(error) = process["error"].as_str() {
        let address = &process["address"];
        return vec![json!({
            "process": process["process"],
            "address": address,
            "part": "admin",
            "since": process["since"],
            "why": error,
        })];
    }
    let parts = process["parts"].as_object().into_iter().flatten();
    let down = parts.filter(|(_, part)| part["up"] == false).map(|(name, part)| {
        json!({
            "process": process["process"],
            "address": part["address"],
            "part": name,
            "since": part["since"],
            "why": part["why"],
        })
    });
    down.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(up: bool) -> Value {
        json!({ "up": up, "since": "then", "why": "refused", "address": "k:1" })
    }

    fn answer() -> Value {
        json!({
            "impact": {
                "state": "degraded", "sentence": "Selling; lists late: no tailer leads. Start one.",
                "claims": "works", "queued_claims": "unknown", "payments": "works", "lists": "late",
                "expiry": "works", "cause": "no tailer leads", "action": "Start one.", "since": null,
                "also": ["a process at b:2 does not answer: timed out"],
            },
            "status": "not ready", "leader": null, "publish_lag_seconds": null, "list_lag_seconds": 0.5,
            "processes": [
                { "process": "cdc-tailer", "address": "a:1", "status": "not ready",
                    "parts": { "kafka": part(false), "mysql": part(true) } },
                { "process": "expiry-worker", "address": "b:2", "status": "no answer",
                    "error": "timed out", "since": "long ago" },
            ],
            "gates_not_loaded": [{ "template_id": "7", "opens_at": "soon" }],
        })
    }

    #[test]
    fn the_first_line_is_the_sentence_and_what_is_down_follows_with_since_when() {
        let shown = as_text(&answer());
        assert!(shown.starts_with("Selling; lists late: no tailer leads. Start one.\n"), "{shown}");
        for part in [
            "Also: a process at b:2 does not answer: timed out.",
            "publish_lag_seconds  unknown",
            "list_lag_seconds     0.5",
            "gates_not_loaded     1",
            "refused",
            "long ago",
            "soon",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(shown.matches("mysql").count(), 0, "{shown}");
        assert_eq!(shown.matches("expiry-worker").count(), 2, "it keeps its name: {shown}");
    }

    #[test]
    fn what_is_not_known_is_no_zero_and_what_is_not_well_is_a_failure() {
        let mut seen = answer();
        seen["gates_not_loaded"] = Value::Null;
        assert!(as_text(&seen).contains("gates_not_loaded     unknown"), "{}", as_text(&seen));
        let failure = not_well(&seen).unwrap();
        assert_eq!((failure.kind.exit_code(), failure.advice.as_deref()), (4, Some("Start one.")));
        seen["impact"]["state"] = json!("well");
        assert!(not_well(&seen).is_none());
        // An api of an older version.
        seen["impact"] = Value::Null;
        assert!(not_well(&seen).is_some() && as_text(&seen).starts_with(OLDER));
    }
}

//! `health`: all processes and their servers, as text.

use serde_json::{Value, json};

use crate::text;

/// Columns of the processes.
const PROCESSES: [&str; 5] = ["process", "address", "status", "version", "commit"];

/// Columns of what is down.
const DOWN: [&str; 5] = ["process", "address", "part", "since", "why"];

/// Columns of gates that are not loaded.
const GATES: [&str; 2] = ["template_id", "opens_at"];

/// Formats the answer: the platform as a whole, its processes, and what is down.
pub(crate) fn as_text(answer: &Value) -> String {
    let processes = items(&answer["processes"]);
    let down: Vec<Value> = processes.iter().flat_map(down_of).collect();
    let mut text = text::object(&json!({
        "status": answer["status"],
        "leader": answer["leader"],
        "publish_lag_seconds": known(&answer["publish_lag_seconds"]),
        "list_lag_seconds": known(&answer["list_lag_seconds"]),
    }));
    for (name, rows, columns) in [
        ("processes", processes, &PROCESSES[..]),
        ("down", down.as_slice(), &DOWN[..]),
        ("gates not loaded", items(&answer["gates_not_loaded"]), &GATES[..]),
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
        return vec![json!({ "process": null, "address": address, "part": "admin", "why": error })];
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

    #[test]
    fn what_is_down_is_shown_with_since_when_and_an_unknown_lag_is_no_zero() {
        let part =
            |up: bool| json!({ "up": up, "since": "then", "why": "refused", "address": "k:1" });
        let shown = as_text(&json!({
            "status": "not ready", "leader": null, "publish_lag_seconds": null, "list_lag_seconds": 0.5,
            "processes": [
                { "process": "cdc-tailer", "address": "a:1", "status": "not ready",
                    "parts": { "kafka": part(false), "mysql": part(true) } },
                { "process": null, "address": "b:2", "status": "no answer", "error": "timed out" },
            ],
            "gates_not_loaded": [{ "template_id": "7", "opens_at": "soon" }],
        }));
        for part in [
            "publish_lag_seconds  unknown",
            "list_lag_seconds     0.5",
            "refused",
            "timed out",
            "soon",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(shown.matches("mysql").count(), 0, "{shown}");
    }
}

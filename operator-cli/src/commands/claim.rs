//! A claim as calls of the api, and its story as a table.

use serde_json::{Value, json};

use crate::{
    api::call::Call,
    arguments::{ClaimCommand, OneClaim},
    commands::{AsText, hold},
    text,
};

/// Columns of a story.
const COLUMNS: [&str; 6] = ["hop", "state", "at", "took", "usual_p99", "found"];

/// Milliseconds from which a duration is shown in seconds.
const SECONDS_FROM_MS: i64 = 10_000;

pub(crate) fn call(command: &ClaimCommand) -> (Call, AsText) {
    let get = |claim: &OneClaim, sub: &str| {
        let call = Call::get(format!("/v1/claim-states/{}{sub}", claim.id));
        claim.template.iter().fold(call, |call, id| call.with_query("template", id))
    };
    match command {
        ClaimCommand::Show(claim) => (get(claim, ""), text::object),
        ClaimCommand::Story(claim) => (get(claim, "/story"), story),
        ClaimCommand::Confirm(asked) => hold::confirm(asked),
        ClaimCommand::Cancel(asked) => hold::cancel(asked),
    }
}

/// Formats a story: whose claim it is, a row for each hop, and which of them were late.
pub(crate) fn story(answer: &Value) -> String {
    let word = |name: &str| text::cell(answer.get(name));
    let hops = answer.get("hops").and_then(Value::as_array);
    let rows: Vec<Value> = hops.into_iter().flatten().map(row).collect();
    let late = answer.get("late").filter(|late| late.as_array().is_some_and(|of| !of.is_empty()));
    let end = match late {
        Some(late) => format!("late: {}", text::cell(Some(late))),
        None => "No hop is known to be late.".to_owned(),
    };
    format!(
        "claim {} of user {}, template {}: {}\n\n{}\n{end}\n",
        word("id"),
        word("user_id"),
        word("template_id"),
        word("status"),
        text::table(&rows, &COLUMNS)
    )
}

fn row(hop: &Value) -> Value {
    let is_late = hop.get("late").and_then(Value::as_bool) == Some(true);
    let state = text::cell(hop.get("state"));
    let duration = |name: &str| hop.get(name).and_then(Value::as_i64).map(duration);
    json!({
        "hop": hop.get("hop"),
        "state": if is_late { format!("{state}, LATE") } else { state },
        "at": hop.get("at"),
        "took": duration("took_ms"),
        "usual_p99": duration("usual_p99_ms"),
        "found": found(hop),
    })
}

/// Says what a hop left behind, and why nothing more is known of it.
fn found(hop: &Value) -> String {
    let word = |name: &str| hop.get(name).map(|value| text::cell(Some(value)));
    let both = |one: &str, other: &str| Some((word(one)?, word(other)?));
    let stock = both("stock_from", "stock_to").map(|(from, to)| format!("stock {from} → {to}"));
    let message = both("topic", "partition").and_then(|(topic, partition)| {
        Some(format!("{topic}[{partition}] at {}", word("offset")?))
    });
    let binlog = both("binlog_file", "binlog_position").map(|(file, at)| format!("{file}:{at}"));
    let named = |name: &str, label: &str| word(name).map(|value| format!("{label} {value}"));
    let parts = [
        stock,
        message,
        binlog,
        named("gtid", "GTID"),
        named("coupon_id", "coupon"),
        named("due", "deadline"),
        named("order_ref", "order"),
        word("code"),
        word("why").map(|why| format!("({why})")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("  ")
}

fn duration(ms: i64) -> String {
    if ms < SECONDS_FROM_MS { format!("{ms} ms") } else { format!("{} s", ms / 1_000) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_a_table_that_names_the_late_hop() {
        let answer = json!({
            "id": "7", "status": "landed", "template_id": "3", "user_id": "42", "late": ["landed"],
            "hops": [
                { "hop": "admitted", "state": "done", "at": "T1", "took_ms": 1, "usual_p99_ms": 119,
                  "late": false, "stock_from": 100, "stock_to": 98 },
                { "hop": "relayed", "state": "skipped", "at": null, "took_ms": null,
                  "usual_p99_ms": null, "late": null, "why": "it took the direct way" },
                { "hop": "landed", "state": "done", "at": "T2", "took_ms": 12_900,
                  "usual_p99_ms": 119, "late": true, "binlog_file": "b.2", "binlog_position": 815,
                  "gtid": "0-1-42" },
            ],
        });
        let wanted = "claim 7 of user 42, template 3: landed\n\n\
                      HOP       STATE       AT  TOOK  USUAL_P99  FOUND\n\
                      admitted  done        T1  1 ms  119 ms     stock 100 → 98\n\
                      relayed   skipped     -   -     -          (it took the direct way)\n\
                      landed    done, LATE  T2  12 s  119 ms     b.2:815  GTID 0-1-42\n\n\
                      late: landed\n";
        assert_eq!(story(&answer), wanted);
    }

    #[test]
    fn what_is_missing_is_left_out_and_a_message_is_named_by_its_place() {
        let hop =
            json!({ "hop": "relayed", "topic": "coupon.claims", "partition": 5, "offset": 12 });
        assert_eq!(found(&hop), "coupon.claims[5] at 12");
        let empty = story(&json!({}));
        assert!(empty.contains("No hop is known to be late."), "{empty}");
        assert_eq!((duration(9_999), duration(10_000)), ("9999 ms".to_owned(), "10 s".to_owned()));
    }
}

//! `audit`: the record of what operators did, as a call of the api and as text.

use serde_json::{Value, json};

use crate::{
    api::call::Call,
    arguments::AuditArguments,
    commands::{AsText, keys::of_merchant, paged},
    text,
};

/// Columns of the record. `--json` also shows `before`, `after` and the trace as they are.
const ENTRIES: [&str; 5] = ["at", "by", "action", "target", "change"];

/// Shown for an action without a key of its own.
const PLATFORM: &str = "platform";

/// Shown for a line that was written before its action began, and has no end.
const END_NOT_SEEN: &str = "begun; its end was not seen";

/// Shown for a new object.
const NEW: &str = "new";

/// Rises with each change of a template, so it is not shown.
const ALWAYS_CHANGED: &str = "version";

pub(crate) fn audit(arguments: AuditArguments) -> (Call, AsText) {
    let AuditArguments { target, key, from, to, of, page } = arguments;
    let call = of_merchant(paged("/v1/audit", page), &of);
    let filters = [("target", target), ("key_id", key), ("from", from), ("to", to)];
    let given = filters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    (given.fold(call, |call, (name, value)| call.with_query(name, value)), as_text)
}

pub(crate) fn as_text(answer: &Value) -> String {
    let entries = answer.get("data").and_then(Value::as_array);
    let rows: Vec<Value> = entries.into_iter().flatten().map(row).collect();
    text::page(&json!({ "data": rows, "next_cursor": answer["next_cursor"] }), &ENTRIES)
}

fn row(entry: &Value) -> Value {
    json!({
        "at": entry["at"],
        "by": by(entry),
        "action": entry["action"],
        "target": entry["target"],
        "change": change(entry),
    })
}

/// Returns the name of the key that did it, with its id: names are not unique.
fn by(entry: &Value) -> String {
    match (entry["key_name"].as_str(), entry["key_id"].as_str()) {
        (_, None) => PLATFORM.to_owned(),
        (None, Some(id)) => id.to_owned(),
        (Some(name), Some(id)) => format!("{name} ({id})"),
    }
}

/// Returns what has changed: each field with its values before and after.
fn change(entry: &Value) -> String {
    let before = &entry["before"];
    let after = &entry["after"];
    if after.is_null() {
        return END_NOT_SEEN.to_owned();
    }
    let is_new = |action: &str| action.ends_with(".create") || action.ends_with(".clone");
    if entry["action"].as_str().is_some_and(is_new) {
        return NEW.to_owned();
    }
    let fields = after.as_object().into_iter().flatten();
    let changed = fields.filter(|(name, _)| *name != ALWAYS_CHANGED).filter_map(|(name, value)| {
        let old = before.get(name);
        let to = text::cell(Some(value));
        match old {
            Some(old) if old == value => None,
            Some(old) => Some(format!("{name}: {} -> {to}", text::cell(Some(old)))),
            None => Some(format!("{name}: {to}")),
        }
    });
    changed.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(action: &str, before: Value, after: Value) -> String {
        change(&json!({ "action": action, "before": before, "after": after }))
    }

    #[test]
    fn a_line_says_what_is_different_since_and_what_was_never_finished() {
        let state = |state: &str, version: i32| json!({ "state": state, "version": version });
        let turned = changed("template.pause", state("published", 2), state("paused", 3));
        assert_eq!(turned, "state: published -> paused");
        let moved = json!({ "delta": 5, "reason": "more", "total": 15 });
        assert_eq!(
            changed("stock.move", json!({ "total": 10 }), moved),
            "delta: 5, reason: more, total: 10 -> 15"
        );
        assert_eq!(
            changed("view.rebuild", Value::Null, json!({ "rebuilt": true })),
            "rebuilt: true"
        );
        assert_eq!(changed("gate.rebuild", json!({ "epoch": 3 }), Value::Null), END_NOT_SEEN);
        assert_eq!(changed("key.create", Value::Null, json!({ "name": "till" })), NEW);
    }

    #[test]
    fn an_entry_without_a_key_is_the_platforms_and_the_page_names_the_next_cursor() {
        let entry = |key_id: Value| {
            json!({ "at": "now", "key_id": key_id, "action": "key.create", "target": "api-keys/1",
                "after": {} })
        };
        let page = json!({ "data": [entry(Value::Null), entry("7".into())], "next_cursor": "c" });
        let text = as_text(&page);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["AT", "BY", "ACTION", "TARGET", "CHANGE"]);
        assert_eq!(lines[1], ["now", "platform", "key.create", "api-keys/1", "new"]);
        assert_eq!((lines[2][1], text.contains("--cursor c")), ("7", true));
        assert_eq!(by(&json!({ "key_id": "7", "key_name": "Ann" })), "Ann (7)");
    }
}

//! `template readiness`: a checklist for the next sale of a template.

use serde_json::{Value, json};

use crate::{
    api::{Api, call::Call},
    arguments::Settings,
    failure::{Failure, Kind},
    output::Output,
    text,
};

/// Columns of the checklist.
const ITEMS: [&str; 3] = ["item", "ok", "what_is_so"];

/// What is said if the answer has no sentence.
const SAYS_NOTHING: &str = "The api does not say whether all is ready.";

/// Prints the checklist, and fails if something is not ready or not known.
///
/// # Errors
/// The checklist cannot be read, or not all is ready ([`Kind::NotWell`]).
pub(crate) async fn run(
    template: i64,
    settings: &Settings,
    output: &Output,
) -> Result<(), Failure> {
    let call = Call::get(format!("/v1/templates/{template}/readiness"));
    let answer = Api::new(settings)?.send(&call).await?;
    output.answer(&answer, as_text)?;
    not_ready(&answer).map_or(Ok(()), Err)
}

/// Returns what is not ready, in the form of a failure. `None`: all is ready.
fn not_ready(answer: &Value) -> Option<Failure> {
    if answer["ready"] == true {
        return None;
    }
    let sentence = answer["sentence"].as_str().unwrap_or(SAYS_NOTHING);
    let failure = Failure::new(Kind::NotWell, sentence);
    // The sentence is of the first such item.
    let first = items(answer).iter().find(|item| item["ok"] == answer["ready"]);
    Some(match first.and_then(|item| item["action"].as_str()) {
        Some(action) => failure.advise(action),
        None => failure,
    })
}

/// Formats the answer: its sentence, the checklist, and what to do.
fn as_text(answer: &Value) -> String {
    let sentence = answer["sentence"].as_str().unwrap_or(SAYS_NOTHING);
    let row = |item: &Value| {
        let ok = match item["ok"].as_bool() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "unknown",
        };
        json!({ "item": item["name"], "ok": ok, "what_is_so": item["sentence"] })
    };
    let rows: Vec<Value> = items(answer).iter().map(row).collect();
    let mut text = format!("{}\n\n{}", text::clean(sentence), text::table(&rows, &ITEMS));
    for item in items(answer).iter().filter(|item| item["action"].is_string()) {
        let name = text::cell(item.get("name"));
        text.push_str(&format!("\n{name}: {}\n", text::cell(item.get("action"))));
    }
    text
}

fn items(answer: &Value) -> &[Value] {
    answer["items"].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, ok: Option<bool>) -> Value {
        let action = (ok != Some(true)).then(|| format!("Mend {name}."));
        json!({ "name": name, "ok": ok, "sentence": format!("{name} is so."), "action": action })
    }

    fn answer(ready: Option<bool>, items: &[Value]) -> Value {
        json!({ "ready": ready, "sentence": "In short.", "items": items })
    }

    #[test]
    fn the_first_line_is_the_sentence_and_what_to_do_stands_below_the_checklist() {
        let seen = answer(Some(false), &[item("gate", None), item("stock", Some(false))]);
        let shown = as_text(&seen);
        assert!(shown.starts_with("In short.\n\nITEM"), "{shown}");
        for part in
            ["unknown", "NO", "stock is so.", "\ngate: Mend gate.\n", "\nstock: Mend stock.\n"]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let failure = not_ready(&seen).unwrap();
        let told = (failure.kind.exit_code(), failure.advice.as_deref());
        assert_eq!(told, (4, Some("Mend stock.")), "it is known to be wrong");
    }

    #[test]
    fn what_is_not_known_is_not_ready_and_a_whole_checklist_is() {
        let unknown = not_ready(&answer(None, &[item("lists", None)])).unwrap();
        assert_eq!(unknown.advice.as_deref(), Some("Mend lists."));
        let ready = answer(Some(true), &[item("stock", Some(true))]);
        assert!(not_ready(&ready).is_none() && as_text(&ready).contains("yes"));
        assert!(not_ready(&json!({})).is_some(), "an answer that says nothing");
    }
}

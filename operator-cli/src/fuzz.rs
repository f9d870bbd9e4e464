//! Parsers of what the operator's client reads: a command line, a file, an api's answer, a dead letter. For `fuzz/` and
//! the test that runs its corpus. Not for other callers.

use std::{ffi::OsString, time::Duration};

use clap::Parser as _;
use reqwest::StatusCode;
use serde_json::{Value, json};
use topic::{Message, TopicNames};

use crate::{
    api::{self, call::Call},
    arguments::{self, Arguments},
    asks_for_json,
    commands::{audit, claim, money, sale::report, template_file},
    failure::{Failure, Kind},
    text,
    topics::{dead_letter, letter::Letter, replay, watch::Look},
};

/// Maximum words of a command line, and header lines of a letter, that are read.
const LINES_MAX: usize = 100;

/// The operator's key in each command line. It must never be printed.
const KEY: &str = "correct-horse-battery-staple";

/// Column in which the bar of [`Look::bar_line`] ends.
const END_OF_BAR: usize = 17;

/// Reads a command line, a word on each line, after the operator's key. Errors are one line, and without the key. A
/// line that can be read asks for JSON exactly if `asks_for_json` says so.
pub fn command_line(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut words = vec![OsString::from("coupon"), format!("--operator-key={KEY}").into()];
    words.extend(text.split('\n').take(LINES_MAX).map(OsString::from));
    match Arguments::try_parse_from(&words) {
        Ok(read) => assert_eq!(read.settings.json, asks_for_json(&words), "{words:?}"),
        Err(error) => {
            assert!(!error.render().to_string().contains(KEY), "the key is shown: {words:?}");
            if error.use_stderr() {
                let failure = Failure::not_understood(&error);
                assert!(!failure.json().to_string().contains(KEY), "the key is shown: {words:?}");
                let is_line = !failure.sentence.is_empty() && !failure.sentence.contains('\n');
                assert!(is_line, "{words:?}: {:?}", failure.sentence);
            }
        }
    }
}

pub fn id(text: &str) -> Option<i64> {
    arguments::id(text).ok()
}

/// Reads a template's file. An accepted one is an object, and stays the same when it is sent as JSON and read again.
pub fn template_file(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(read) = template_file::parse(text) else { return };
    let sent = read.to_string();
    assert!(read.is_object(), "an edit sets its version there: {sent}");
    let is_json = text.trim_start().starts_with('{');
    assert!(is_json || !has(&read, Value::is_null), "TOML has no null: {sent}");
    // A fraction may come back with another last digit. No field of a template is a fraction.
    if !has(&read, Value::is_f64) {
        assert_eq!(template_file::parse(&sent), Ok(read), "{text:?} is not what it was");
    }
}

/// Reads an answer of an api, or of a proxy before it: an HTTP status, a space, a body. Any answer can be shown, and a
/// change counts as refused only if a refusal came.
pub fn api_answer(data: &[u8]) {
    let answer = String::from_utf8_lossy(data);
    let Some((status, body)) = answer.split_once(' ') else { return };
    let Ok(status) = status.parse::<StatusCode>() else { return };
    for call in [Call::get("/"), Call::post("/")] {
        match api::judged(&call, status, None, body) {
            Ok(answer) => shown(&answer),
            Err(miss) => {
                let kind = match (status.is_client_error(), call.reads()) {
                    (true, _) => Kind::Refused,
                    (false, true) => Kind::Unavailable,
                    (false, false) if miss.failure.kind == Kind::Made => Kind::Made,
                    (false, false) => Kind::Unknown,
                };
                assert_eq!(miss.failure.kind, kind, "{status} to {:?}", call.method);
                assert!(!steers(&miss.failure.to_string()), "a refusal steers the terminal");
                drop(miss.failure.json());
            }
        }
    }
}

/// Reads a dead letter: its key; header lines of a name, a colon and a value; an empty line; its payload. A letter that
/// is put back is complete, and goes to a possible partition. A letter that is shown stays in its line.
pub fn dead_letter(data: &[u8]) {
    let letter = Letter(message(data));
    let names = TopicNames::new("coupon");
    if letter.obstacle(&names).is_none() {
        let topic = letter.source_topic();
        let right = [names.user_coupon(), names.stock_movement()].contains(&topic);
        assert!(right, "put back on {topic:?}");
        let whole = letter.payload().len().to_string();
        let said = letter.0.header("payload-bytes").map(<[u8]>::to_vec).unwrap_or_default();
        let said = String::from_utf8(said).expect("a number was read from it");
        let said = said.trim_start_matches('+').trim_start_matches('0');
        assert_eq!(said, whole, "a part of a message is put back");
    }
    assert!(
        letter.source_partition().is_none_or(|partition| partition >= 0),
        "a partition below 0"
    );
    let kept = letter.kept_headers();
    assert!(kept.iter().all(|(name, value)| letter.0.header(name) == Some(*value)), "{kept:?}");
    let list = json!({ "data": [letter.json(&names, false)] });
    let list = dead_letter::list_text(&list);
    assert_eq!(list.lines().count(), 2, "a letter of several lines: {list:?}");
    assert!(!steers(&list), "a letter steers the terminal: {list:?}");
}

fn message(data: &[u8]) -> Message {
    let mut lines = data.splitn(LINES_MAX, |byte| *byte == b'\n');
    let key = lines.next().unwrap_or_default().to_vec();
    let mut headers = Vec::new();
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let name = String::from_utf8_lossy(&line[..colon]).into_owned();
        let value = line.get(colon + 1..).unwrap_or_default().trim_ascii();
        headers.push((name, value.to_vec()));
    }
    let payload: Vec<&[u8]> = lines.collect();
    Message {
        topic: "coupon.dead_letter".to_owned(),
        partition: 0,
        offset: 3,
        key,
        payload: Some(payload.join(&b'\n')),
        headers,
        timestamp_ms: Some(0),
    }
}

/// Formats an answer in every way that there is.
fn shown(answer: &Value) {
    let ways = [
        replay::as_text,
        audit::as_text,
        claim::story,
        dead_letter::list_text,
        money::object,
        report::report,
        report::timeseries,
    ];
    for as_text in ways {
        let text = as_text(answer);
        assert!(!steers(&text), "an answer steers the terminal: {text:?}");
    }
    let text = text::object(answer);
    assert!(!steers(&text), "an answer steers the terminal: {text:?}");
    let state = answer.get("state").and_then(Value::as_str).unwrap_or_default();
    let look = Look::of(answer, state.to_owned());
    let line = look.bar_line(0.0);
    assert_eq!(line.chars().nth(END_OF_BAR), Some(']'), "a bar of another length: {line:?}");
    drop((look.plain_line(Duration::ZERO, 0.0), look.json(Duration::ZERO, 0.0, look.end())));
}

/// Returns whether a text contains control characters other than line breaks.
fn steers(text: &str) -> bool {
    text.chars().any(|one| one.is_control() && one != '\n')
}

/// Returns whether a value is, or contains, one that fulfils `what`.
fn has(value: &Value, what: fn(&Value) -> bool) -> bool {
    let inside = match value {
        Value::Array(values) => values.iter().any(|value| has(value, what)),
        Value::Object(fields) => fields.values().any(|value| has(value, what)),
        _ => false,
    };
    inside || what(value)
}

//! A template's file: TOML or JSON, with the fields that the api takes.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use serde_json::{Number, Value};

use crate::failure::Failure;

pub(crate) const EXAMPLE: &str = include_str!("../../template.example.toml");

/// Largest file that is read, in bytes: the api takes no larger body.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Deepest nesting of values in a TOML file. Readers of JSON go no deeper than 127, and no field needs more than two.
const DEPTH_MAX: usize = 100;

/// Fields that answers show beside those of a new template.
const ONLY_SHOWN: [&str; 7] =
    ["id", "state", "version", "merchant_id", "stock", "discount_text", "warnings"];

/// Reads the file of a new template. The output of `template show --json` is one too: fields that only answers have
/// are dropped.
///
/// # Errors
/// As those of [`read`].
pub(crate) fn new(path: &Path) -> Result<Value, Failure> {
    read(path).map(as_new)
}

fn as_new(mut template: Value) -> Value {
    if let Some(fields) = template.as_object_mut() {
        fields.retain(|name, _| !ONLY_SHOWN.contains(&name.as_str()));
    }
    template
}

/// Reads a file; `-` is standard input.
///
/// # Errors
/// The file cannot be read, or is neither TOML nor JSON.
pub(crate) fn read(path: &Path) -> Result<Value, Failure> {
    let name = path.display();
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().take(FILE_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        let file = fs::File::open(path);
        file.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
    };
    let bytes = read.map_err(|error| Failure::usage(format!("{name} cannot be read: {error}.")))?;
    if bytes as u64 > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{name} is longer than {FILE_BYTES_MAX} bytes.")));
    }
    parse(&text).map_err(|why| {
        // The error about a value that JSON cannot express begins with the field's name.
        let line = why.split(' ').next().and_then(|field| line_of(&text, field));
        let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
        Failure::usage(format!("{name}: {line}{why}"))
            .advise("`coupon template create --example` prints a file to begin with.")
    })
}

/// Returns the place of a field: `FILE, line N, FIELD`. `None` for standard input, which was read already.
pub(crate) fn place(path: &Path, field: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(format!("{}, line {}, {field}", path.display(), line_of(&text, field)?))
}

/// Returns the line of a field, from 1. A field of a table is named with a dot; if no line has its whole name, the
/// first one with its last part counts.
fn line_of(text: &str, field: &str) -> Option<usize> {
    let last = field.rsplit('.').next().unwrap_or(field);
    let mut table = String::new();
    let mut by_last = None;
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = format!("{}.", name.trim());
            continue;
        }
        let Some((name, _)) = line.split_once(['=', ':']) else { continue };
        let name = name.trim_matches(|one: char| one.is_whitespace() || "\"{,".contains(one));
        if format!("{table}{name}") == field {
            return Some(number);
        }
        if name == last && by_last.is_none() {
            by_last = Some(number);
        }
    }
    by_last
}

/// Parses JSON if the text begins with `{`, otherwise TOML. Either way the result is an object.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    let table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
    json_of("", toml::Value::Table(table), 0)
}

fn json_of(name: &str, value: toml::Value, depth: usize) -> Result<Value, String> {
    if depth > DEPTH_MAX {
        return Err(format!("{name} lies deeper than {DEPTH_MAX} tables and arrays"));
    }
    Ok(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => match Number::from_f64(number) {
            Some(number) => Value::Number(number),
            None => return Err(format!("{name} = {number}: JSON has no such number")),
        },
        toml::Value::Boolean(truth) => truth.into(),
        toml::Value::Datetime(at) if at.date.is_some() && at.offset.is_some() => {
            at.to_string().into()
        }
        toml::Value::Datetime(at) => {
            return Err(format!("{name} = {at}: say of which zone, e.g. 2026-11-27T08:00:00Z"));
        }
        toml::Value::Array(values) => {
            let each = values.into_iter().map(|value| json_of(name, value, depth + 1));
            each.collect::<Result<_, _>>()?
        }
        toml::Value::Table(table) => {
            let pair = |(name, value): (String, _)| {
                let value = json_of(&name, value, depth + 1)?;
                Ok::<_, String>((name, value))
            };
            Value::Object(table.into_iter().map(pair).collect::<Result<_, _>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn toml_and_json_say_the_same() {
        let toml = "name = \"Sale\"\ntotal_stock = 1_000\nclaim_starts_at = 2026-11-27 08:00:00+01:00\n\
                    [discount]\nkind = \"amount_off\"\n";
        let json = r#" {"name": "Sale", "total_stock": 1000, "claim_starts_at": "2026-11-27T08:00:00+01:00",
            "discount": {"kind": "amount_off"}}"#;
        assert_eq!(parse(toml).unwrap(), parse(json).unwrap());
    }

    #[test]
    fn a_time_without_a_zone_and_text_of_neither_format_are_refused() {
        let error = parse("claim_ends_at = 2026-11-27T08:00:00").unwrap_err();
        assert!(
            error.starts_with("claim_ends_at = 2026-11-27T08:00:00: say of which zone"),
            "{error}"
        );
        assert!(parse("{").is_err() && parse("name: Sale").is_err());
    }

    #[test]
    fn a_value_that_json_cannot_express_is_refused_and_never_becomes_null() {
        for number in ["nan", "inf", "-inf"] {
            let error = parse(&format!("minimum_spend = {number}")).unwrap_err();
            assert!(error.starts_with("minimum_spend = "), "{error}");
        }
        let deep = format!("[a{}]\nb{} = 1\n", ".a".repeat(60), ".b".repeat(60));
        assert!(parse(&deep).unwrap_err().contains("deeper than 100"));
    }

    #[test]
    fn what_is_shown_of_a_template_makes_a_new_one() {
        let new = json!({"name": "Sale", "total_stock": 5, "discount": {"kind": "amount_off"}});
        let mut shown = new.clone();
        for name in ONLY_SHOWN {
            shown[name] = json!("x");
        }
        assert_eq!(as_new(shown), new);
        assert_eq!(as_new(new.clone()), new);
    }

    #[test]
    fn a_field_is_found_by_its_line_in_toml_and_in_json() {
        let toml = "name = \"Sale\"\nvalue = 1\n\n[discount]\nkind = \"amount_off\"\nvalue = 5\n";
        let lines = ["name", "value", "discount.value", "kind", "discount.kind", "missing"];
        let found = lines.map(|field| line_of(toml, field));
        assert_eq!(found, [Some(1), Some(2), Some(6), Some(5), Some(5), None]);
        let json = "{\n  \"name\": \"Sale\",\n  \"discount\": {\n    \"value\": 5 } }";
        assert_eq!(
            ["name", "discount.value"].map(|field| line_of(json, field)),
            [Some(2), Some(4)]
        );
    }

    #[test]
    fn the_example_is_read_with_every_required_field() {
        let example = parse(EXAMPLE).unwrap();
        assert_eq!(
            example["discount"],
            json!({"kind": "percent_off", "percent_off": 20, "cap_minor": 2_000, "currency": "EUR"})
        );
        assert!(example["valid_for_ms"].is_i64() && example["claim_ends_at"].is_string());
    }
}

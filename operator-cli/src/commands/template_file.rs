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
        Failure::usage(format!("{name}: {why}"))
            .advise("`coupon template create --example` prints a file to begin with.")
    })
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
    fn a_time_without_a_zone_and_what_is_neither_are_told() {
        let error = parse("claim_ends_at = 2026-11-27T08:00:00").unwrap_err();
        assert!(
            error.starts_with("claim_ends_at = 2026-11-27T08:00:00: say of which zone"),
            "{error}"
        );
        assert!(parse("{").is_err() && parse("name: Sale").is_err());
    }

    #[test]
    fn what_json_cannot_say_is_refused_and_never_becomes_null() {
        for number in ["nan", "inf", "-inf"] {
            let error = parse(&format!("minimum_spend = {number}")).unwrap_err();
            assert!(error.starts_with("minimum_spend = "), "{error}");
        }
        let deep = format!("[a{}]\nb{} = 1\n", ".a".repeat(60), ".b".repeat(60));
        assert!(parse(&deep).unwrap_err().contains("deeper than 100"));
    }

    #[test]
    fn the_example_is_read_with_every_required_field() {
        let example = parse(EXAMPLE).unwrap();
        assert_eq!(
            example["discount"],
            json!({"kind": "amount_off", "value": 500, "currency": "EUR"})
        );
        assert!(example["valid_for_ms"].is_i64() && example["claim_ends_at"].is_string());
    }
}

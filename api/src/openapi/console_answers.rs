//! Writes the types of the answers that the console reads, for editors, from the document that describes them.

use std::{collections::BTreeSet, env, fs};

use serde_json::Value;

use super::tests::{document, resolved};

/// The console's calls, a line each: `name: ['METHOD', 'path', 'fields']`.
const CALLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/console/calls/calls.js");

/// Their answers.
const ANSWERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/console/calls/answers.js");

/// Variable that has the file written.
const ACCEPT: &str = "ACCEPT_GOLDEN";

const HEAD: &str = "// The answers that the console reads, as the api describes them. A test writes this file: see README.md beside `calls`.\n\n";

/// Begin of a reference to a schema.
const SCHEMAS: &str = "#/components/schemas/";

/// A field of an answer.
struct Field<'a> {
    name: &'a str,
    schema: &'a Value,
    /// Whether it is never absent.
    is_always: bool,
}

/// Returns the names of the operations that the console calls.
fn called() -> BTreeSet<String> {
    let text = fs::read_to_string(CALLS).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(": ['"));
    lines.map(|(name, _)| name.to_owned()).collect()
}

/// Returns the schemas of their answers.
fn answered<'a>(document: &'a Value, called: &BTreeSet<String>) -> Vec<&'a Value> {
    let mut found = Vec::new();
    for item in document["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            if !called.contains(operation["operationId"].as_str().unwrap()) {
                continue;
            }
            let answers = operation["responses"].as_object().unwrap().iter();
            let successes = answers.filter(|(status, _)| status.starts_with('2'));
            for (_, answer) in successes {
                let media = answer["content"].as_object().into_iter().flatten();
                found.extend(media.map(|(_, media)| &media["schema"]));
            }
        }
    }
    found
}

/// Returns the names of all schemas that these consist of.
fn parts(document: &Value, of: Vec<&Value>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut open = of;
    while let Some(value) = open.pop() {
        let name = value["$ref"].as_str().and_then(|target| target.strip_prefix(SCHEMAS));
        if let Some(name) = name
            && names.insert(name.to_owned())
        {
            open.push(&document["components"]["schemas"][name]);
        }
        open.extend(value.as_object().into_iter().flat_map(|object| object.values()));
        open.extend(value.as_array().into_iter().flatten());
    }
    names
}

/// Returns the fields of an object, those of its parts first.
fn fields<'a>(document: &'a Value, schema: &'a Value) -> Vec<Field<'a>> {
    let schema = resolved(document, schema);
    let of_parts = schema["allOf"].as_array().into_iter().flatten();
    let mut found: Vec<Field<'_>> = of_parts.flat_map(|part| fields(document, part)).collect();
    let always = schema["required"].as_array().into_iter().flatten();
    let always: BTreeSet<&str> = always.filter_map(Value::as_str).collect();
    let own = schema["properties"].as_object().into_iter().flatten();
    found.extend(own.map(|(name, schema)| {
        let is_always = always.contains(name.as_str());
        Field { name, schema, is_always }
    }));
    found
}

/// Returns the type of a value.
fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|target| target.strip_prefix(SCHEMAS)) {
        return name.to_owned();
    }
    for (word, mark) in [("oneOf", "|"), ("anyOf", "|"), ("allOf", "&")] {
        if let Some(kinds) = schema[word].as_array() {
            return kinds.iter().map(type_of).collect::<Vec<_>>().join(mark);
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<_> = words.iter().map(|word| word.to_string().replace('"', "'")).collect();
        return words.join("|");
    }
    match &schema["type"] {
        Value::Array(kinds) => {
            kinds.iter().map(|kind| plain(kind, schema)).collect::<Vec<_>>().join("|")
        }
        kind => plain(kind, schema),
    }
}

/// Returns one of the types that a schema names.
fn plain(kind: &Value, schema: &Value) -> String {
    match kind.as_str() {
        Some("integer" | "number") => "number".to_owned(),
        Some("array") => {
            let item = type_of(&schema["items"]);
            if item.contains(['|', '&']) { format!("({item})[]") } else { format!("{item}[]") }
        }
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("Object<string, {}>", type_of(&schema["additionalProperties"]))
        }
        Some(word) => word.to_owned(),
        None => "*".to_owned(),
    }
}

/// Returns what a schema says of itself, in one line behind a space.
fn says(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default().replace("*/", "* /");
    text.split_whitespace().map(|word| format!(" {word}")).collect()
}

fn typedef(document: &Value, name: &str) -> String {
    let schema = &document["components"]["schemas"][name];
    let fields = fields(document, schema);
    if fields.is_empty() {
        return format!("/** @typedef {{{}}} {name}{} */\n", type_of(schema), says(schema));
    }
    let line = |Field { name, schema, is_always }: &Field<'_>| {
        let shown = if *is_always { (*name).to_owned() } else { format!("[{name}]") };
        format!(" * @property {{{}}} {shown}{}\n", type_of(schema), says(schema))
    };
    let lines: String = fields.iter().map(line).collect();
    format!("/**\n * @typedef {{object}} {name}{}\n{lines} */\n", says(schema))
}

#[test]
fn the_types_of_answers_are_those_of_the_document() {
    let document = document();
    let called = called();
    assert!(called.len() > 40, "{called:?}");
    let names = parts(&document, answered(&document, &called));
    let types: Vec<String> = names.iter().map(|name| typedef(&document, name)).collect();
    let text = format!("{HEAD}{}\nexport {{}};\n", types.join("\n"));
    if env::var_os(ACCEPT).is_some() {
        fs::write(ANSWERS, text).unwrap();
    } else {
        assert_eq!(fs::read_to_string(ANSWERS).unwrap(), text, "ACCEPT_GOLDEN=1 writes it");
    }
}

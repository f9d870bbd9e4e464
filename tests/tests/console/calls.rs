//! The console calls what the api has, and reads what that answers. `api/console/calls/calls.js` names each call, by a convention
//! that stands there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use devstack::project_root;
use pipeline_tests::World;
use reqwest::Method;
use serde_json::Value;

/// How modules name a call, and whether only one that reads.
const WAYS: [(&str, bool); 3] = [("pathOf('", true), ("callOf('", false), ("ask('", false)];

/// A line of the list.
struct ListedCall {
    name: String,
    method: String,
    path: String,
    /// What is read of the answer: names with dots.
    fields: Vec<String>,
}

fn console() -> PathBuf {
    project_root().join("api/console")
}

fn listed() -> Vec<ListedCall> {
    let text = fs::read_to_string(console().join("calls/calls.js")).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(": ['"));
    let call = |(name, rest): (&str, &str)| {
        let parts: Vec<&str> = rest.trim_end_matches("'],").split("', '").collect();
        let [method, path, fields] = parts[..] else { panic!("{name}: {rest}") };
        ListedCall {
            name: name.to_owned(),
            method: method.to_lowercase(),
            path: path.to_owned(),
            fields: fields.split_whitespace().map(str::to_owned).collect(),
        }
    };
    lines.map(call).collect()
}

/// The console's modules but those of the list and of others, by their names below its folder.
fn modules() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![console()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(console()).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && !["calls", "vendor"].contains(&name.as_str()) {
                folders.push(path);
            } else if name.ends_with(".js") {
                found.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

/// The objects that an answer may be: what a schema refers to, its alternatives and parts, and the items of a list.
fn objects<'a>(document: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let target = schema["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
    let schema = target.and_then(|pointer| document.pointer(pointer)).unwrap_or(schema);
    let mut found = vec![schema];
    for parts in ["oneOf", "anyOf", "allOf"] {
        let parts = schema[parts].as_array().into_iter().flatten();
        found.extend(parts.flat_map(|part| objects(document, part)));
    }
    if schema["items"].is_object() {
        found.extend(objects(document, &schema["items"]));
    }
    found
}

fn has(document: &Value, schema: &Value, field: &[&str]) -> bool {
    let Some((first, rest)) = field.split_first() else { return true };
    let properties = objects(document, schema).into_iter().map(|one| &one["properties"][*first]);
    properties.filter(|one| !one.is_null()).any(|one| has(document, one, rest))
}

/// The schemas of an operation's successes.
fn answers(operation: &Value) -> Vec<&Value> {
    let answers = operation["responses"].as_object().unwrap().iter();
    let successes = answers.filter(|(status, _)| status.starts_with('2'));
    let media =
        successes.flat_map(|(_, answer)| answer["content"].as_object().into_iter().flatten());
    media.map(|(_, media)| &media["schema"]).collect()
}

#[tokio::test]
async fn every_call_of_the_console_exists_and_answers_each_field_that_it_reads() {
    let world = World::start("console calls").await;
    let request = world.api().anonymous(Method::GET, "/openapi.json");
    let document: Value = world.api().send(request).await.unwrap().json().unwrap();
    let listed = listed();
    assert!(listed.len() > 40, "only {} calls are listed", listed.len());
    for ListedCall { name, method, path, fields } in &listed {
        let operation = &document["paths"][path][method];
        assert_eq!(operation["operationId"], *name, "{method} {path} is no call {name}");
        let answers = answers(operation);
        for field in fields {
            let parts: Vec<&str> = field.split('.').collect();
            let is_there = answers.iter().any(|schema| has(&document, schema, &parts));
            assert!(is_there, "the answer to {name} has no {field}");
        }
    }
    world.end().await;
}

#[test]
fn the_consoles_modules_make_only_calls_of_the_list_and_each_of_them() {
    let listed = listed();
    let mut unused: BTreeSet<&str> = listed.iter().map(|call| call.name.as_str()).collect();
    for (module, text) in &modules() {
        assert!(!text.contains("/v1/"), "{module} has a path of its own");
        for (way, only_reads) in WAYS {
            for rest in text.split(way).skip(1) {
                let name = rest.split('\'').next().unwrap();
                let call = listed.iter().find(|call| call.name == name);
                let call = call.unwrap_or_else(|| panic!("{module} calls {name}, not in the list"));
                assert!(!only_reads || call.method == "get", "{module} reads by {name}");
                unused.remove(name);
            }
        }
    }
    assert!(unused.is_empty(), "nobody calls {unused:?}");
}

//! Compares the document with the code that it describes.

use std::collections::{BTreeMap, BTreeSet};

use coupon::limit;
use serde_json::Value;

use super::complete;
use crate::{code::Code, router::operations};

/// Codes of requests that reach no operation.
const OF_NO_OPERATION: [&str; 1] = ["METHOD_NOT_ALLOWED"];

type Operations = BTreeMap<String, Value>;

fn operations_of(document: &Value) -> Operations {
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter().map(move |(method, operation)| (format!("{method} {path}"), operation.clone()))
    });
    operations.collect()
}

pub(super) fn document() -> Value {
    complete(operations().into_openapi())
}

#[test]
fn every_code_of_the_document_is_on_the_page_of_errors_and_the_other_way_round() {
    let described = serde_json::to_value(operations().into_openapi()).unwrap();
    let mut named = BTreeSet::new();
    for (name, operation) in operations_of(&described) {
        let own = operation["x-problems"].as_str().unwrap_or_default();
        for code in own.split_whitespace() {
            assert!(Code::from_word(code).is_some(), "{name} names {code}, which does not exist");
            named.insert(code.to_owned());
        }
    }
    for operation in operations_of(&document()).values() {
        let responses = operation["responses"].as_object().unwrap().values();
        for codes in responses
            .filter_map(|response| response.pointer("/content/application~1problem+json/examples"))
        {
            named.extend(codes.as_object().unwrap().keys().cloned());
        }
    }
    let problems = Code::ALL.iter().filter(|code| !code.is_of_success());
    let words = problems.map(|code| code.word());
    let unused: Vec<_> =
        words.filter(|word| !named.contains(*word) && !OF_NO_OPERATION.contains(word)).collect();
    assert!(unused.is_empty(), "no operation answers {unused:?}");
}

#[test]
fn each_reference_leads_to_a_part_of_the_document() {
    let document = document();
    let text = document.to_string();
    let references: BTreeSet<&str> = text
        .split("\"$ref\":\"#")
        .skip(1)
        .filter_map(|rest| rest.split_once('"').map(|(pointer, _)| pointer))
        .collect();
    assert!(references.len() > 10, "{references:?}");
    let lost: Vec<_> =
        references.into_iter().filter(|pointer| document.pointer(pointer).is_none()).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn every_operation_says_what_it_does_who_may_call_it_and_what_it_answers() {
    let operations = operations_of(&document());
    let mut ids = BTreeSet::new();
    for (name, operation) in &operations {
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{name}: {id} stands twice");
        for field in ["summary", "tags"] {
            assert!(!operation[field].is_null(), "{name} has no {field}");
        }
        let summary = operation["summary"].as_str().unwrap();
        assert!(!summary.contains('`'), "{name}: the summary is for people: {summary}");
        let open = name.contains("/v1/shop/");
        assert_eq!(operation["security"].is_null(), open, "{name}: who may call it?");
        for (location, parameter) in
            operation["parameters"].as_array().into_iter().flatten().enumerate()
        {
            assert!(!parameter["description"].is_null(), "{name}: parameter {location}");
            assert!(!parameter["schema"].is_null(), "{name}: parameter {location}");
        }
        let success = operation["responses"].as_object().unwrap().keys().next().unwrap();
        // One route always refuses, and names who does this instead.
        let refused = operation["x-always-refused"] == true;
        assert_eq!(success.starts_with('2'), !refused, "{name}");
    }
}

#[test]
fn every_reference_names_a_component_that_exists() {
    let document = document();
    let mut values = vec![&document];
    let mut references = 0;
    while let Some(value) = values.pop() {
        if let Some(target) = value["$ref"].as_str() {
            let pointer = target.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{target} is not there");
            references += 1;
        }
        values.extend(value.as_object().into_iter().flat_map(|object| object.values()));
        values.extend(value.as_array().into_iter().flatten());
    }
    assert!(references > 100, "{references}");
}

/// Returns a schema, or the one that it refers to.
pub(super) fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
    target.and_then(|pointer| document.pointer(pointer)).unwrap_or(schema)
}

/// Returns the fields of an object: all, and those that are never absent.
fn fields<'a>(document: &'a Value, schema: &'a Value) -> [BTreeSet<&'a str>; 2] {
    let schema = resolved(document, schema);
    let names = schema["properties"].as_object().into_iter().flatten();
    let required = schema["required"].as_array().into_iter().flatten();
    let mut all: BTreeSet<&str> = names.map(|(name, _)| name.as_str()).collect();
    let mut always: BTreeSet<&str> = required.filter_map(Value::as_str).collect();
    for part in schema["allOf"].as_array().into_iter().flatten() {
        let [more, more_always] = fields(document, part);
        all.extend(more);
        always.extend(more_always);
    }
    [all, always]
}

/// `ops/schemathesis/check_examples.py` checks the types of the fields.
#[test]
fn every_success_that_has_a_body_shows_one_with_the_fields_that_there_are() {
    let document = document();
    let mut shown = 0;
    for (name, operation) in operations_of(&document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let body = response["content"].as_object().filter(|_| status.starts_with('2'));
            // A table has no fields; its example is its first lines.
            let is_table = |kind: &str| kind == "text/csv";
            let media = body.into_iter().flatten().filter(|(kind, _)| !is_table(kind));
            for (_, media) in media {
                let schema = resolved(&document, &media["schema"]);
                let example = schema["examples"][0].as_object();
                let example = example.unwrap_or_else(|| panic!("{name} {status} shows nothing"));
                let has: BTreeSet<&str> = example.keys().map(String::as_str).collect();
                let [all, always] = fields(&document, schema);
                assert!(has.is_subset(&all), "{name} {status} has no {:?}", &has - &all);
                assert!(has.is_superset(&always), "{name} {status} has {:?} too", &always - &has);
                shown += 1;
            }
        }
    }
    assert!(shown >= 25, "{shown}");
}

/// The attributes of utoipa take only numbers, no constants.
#[test]
fn bounds_are_those_of_the_code() {
    let document = document();
    let bound = |schema: &str, field: &str, name: &str| {
        let pointer = format!("/components/schemas/{schema}/properties/{field}/{name}");
        let found = document.pointer(&pointer).unwrap_or_else(|| panic!("{pointer}"));
        found.as_f64().map(|bound| bound as i64)
    };
    let stock = limit::STOCK_MAX;
    assert_eq!(bound("NewTemplate", "total_stock", "maximum"), Some(stock));
    assert_eq!(bound("NewMovement", "delta", "maximum"), Some(stock));
    assert_eq!(bound("NewMovement", "delta", "minimum"), Some(-stock));
    assert_eq!(bound("NewTemplate", "valid_for_ms", "maximum"), Some(limit::VALID_FOR_MS_MAX));
    assert_eq!(bound("NewRedemption", "amount", "maximum"), Some(limit::AMOUNT_MAX));
    assert_eq!(bound("PlannedOrder", "amount", "maximum"), Some(limit::AMOUNT_MAX));
    assert_eq!(bound("NewLock", "for_ms", "maximum"), Some(limit::LOCK_MS_MAX));
    for (schema, field, name, is) in [
        ("NewTemplate", "name", "maxLength", limit::NAME_CHARS_MAX),
        ("NewTemplate", "per_user_limit", "maximum", limit::PER_USER_MAX as usize),
        ("NewTemplate", "max_per_claim", "maximum", limit::QUANTITY_MAX as usize),
        ("NewClaim", "quantity", "maximum", limit::QUANTITY_MAX as usize),
        ("Order", "order_ref", "maxLength", limit::ORDER_REF_CHARS_MAX),
        ("NewRedemption", "coupons", "maxItems", limit::ORDER_COUPONS_MAX),
        ("NewRollback", "reason", "maxLength", crate::routes::shop::rollback::REASON_CHARS_MAX),
        (
            "NewMovement",
            "reason",
            "maxLength",
            crate::routes::operators::stock_movements::REASON_CHARS_MAX,
        ),
    ] {
        assert_eq!(bound(schema, field, name), i64::try_from(is).ok(), "{schema}.{field}");
    }
}

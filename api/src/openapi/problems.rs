//! Error responses of operations: every code that a client can receive there.
//!
//! A handler names its own codes in `x-problems`; the codes of the extractors and of `request_checks.rs` follow from the
//! operation's form. Status and advice are the code's.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::code::Code;

/// Codes that any request may be answered.
const ANY: &[Code] = &[
    Code::HostInvalid,
    Code::MalformedQuery,
    Code::NotAcceptable,
    Code::UriMalformed,
    Code::UriTooLong,
    Code::HeadersTooLarge,
    Code::BodyTooLarge,
    Code::TooManyAtOnce,
    Code::StoreUnavailable,
    Code::Timeout,
];
/// Codes of operations that require authentication.
const WITH_AUTHENTICATION: &[Code] = &[Code::Unauthenticated];
/// Codes of operations that require an operator's key, which has scopes, or a session of the console in its place.
const WITH_KEY: &[Code] = &[Code::ScopeLacking, Code::CrossSite];
/// Codes of operations with an id in the path.
const WITH_ID: &[Code] = &[Code::NotFound];
/// Codes of operations with a body.
const WITH_BODY: &[Code] = &[
    Code::MalformedBody,
    Code::BodyUnreadable,
    Code::BodyIncomplete,
    Code::NotJson,
    Code::BodyEncoded,
    Code::Overloaded,
];

/// Adds to an operation what it may answer besides its success.
pub(super) fn answer(operation: &mut Value) {
    let own = own_codes(operation);
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for &code in own.union(&codes_of_form(operation)) {
        by_status.entry(code.status()).or_default().push(code);
    }
    for (status, mut codes) in by_status {
        codes.sort_by_key(|code| code.word());
        operation["responses"][status.to_string()] = response(status, &codes);
    }
    if own.contains(&Code::RateLimited) {
        add_rate_headers(operation, &own);
    }
}

/// Adds the rate limit headers to the handler's responses. A request that is refused earlier, for its form, is not
/// counted and has none.
fn add_rate_headers(operation: &mut Value, own: &BTreeSet<Code>) {
    let refusals: BTreeSet<String> = own.iter().map(|code| code.status().to_string()).collect();
    for (status, response) in operation["responses"].as_object_mut().into_iter().flatten() {
        if status.starts_with('2') || refusals.contains(status) {
            for header in ["RateLimit", "RateLimit-Policy"] {
                response["headers"][header] =
                    json!({ "$ref": format!("#/components/headers/{header}") });
            }
        }
    }
}

/// Removes `x-problems` and returns its codes.
fn own_codes(operation: &mut Value) -> BTreeSet<Code> {
    let own = operation.as_object_mut().and_then(|operation| operation.remove("x-problems"));
    known(own.as_ref().and_then(Value::as_str).unwrap_or_default()).collect()
}

/// Returns the codes that follow from an operation's form.
fn codes_of_form(operation: &Value) -> BTreeSet<Code> {
    let has_parameter = |location: &str| {
        let parameters = operation["parameters"].as_array();
        parameters.into_iter().flatten().any(|parameter| parameter["in"] == location)
    };
    let security = operation["security"].as_array();
    let by_key = security.into_iter().flatten().any(|one| one.get("operator_key").is_some());
    let by_form = [
        (true, ANY),
        (operation.get("security").is_some(), WITH_AUTHENTICATION),
        (by_key, WITH_KEY),
        (has_parameter("path"), WITH_ID),
        (operation.get("requestBody").is_some(), WITH_BODY),
    ];
    let by_form = by_form.into_iter().filter(|(is_so, _)| *is_so);
    by_form.flat_map(|(_, codes)| codes).copied().collect()
}

/// Returns the words that are codes. A test finds the others.
fn known(words: &str) -> impl Iterator<Item = Code> {
    words.split_whitespace().filter_map(Code::from_word)
}

fn response(status: u16, codes: &[Code]) -> Value {
    let words: Vec<&str> = codes.iter().map(|code| code.word()).collect();
    let lines: Vec<String> =
        codes.iter().map(|code| format!("`{}`: {}", code.word(), code.advice())).collect();
    let example = |word: &&str| {
        ((*word).to_owned(), json!({ "$ref": format!("#/components/examples/{word}") }))
    };
    let examples: Map<String, Value> = words.iter().map(example).collect();
    let mut response = json!({
        "description": lines.join("\n\n"),
        "content": {
            "application/problem+json": {
                "schema": {
                    "allOf": [
                        { "$ref": "#/components/schemas/Problem" },
                        { "properties": { "status": { "const": status }, "code": { "enum": words } } }
                    ]
                },
                "examples": examples
            }
        }
    });
    if codes.iter().any(|code| code.is_retryable()) {
        response["headers"]["Retry-After"] = json!({ "$ref": "#/components/headers/Retry-After" });
    }
    if status == 401 {
        response["headers"]["WWW-Authenticate"] =
            json!({ "schema": { "type": "string" }, "description": "`Bearer`." });
    }
    response
}

/// Adds the components that every response refers to.
pub(super) fn describe(components: &mut Value) {
    components["schemas"]["Problem"] = json!({
        "type": "object",
        "description": "What went wrong, and what to do (RFC 9457). Some codes bring more members, which their description names.",
        "required": ["type", "title", "status", "detail", "code", "retryable"],
        "properties": {
            "type": { "type": "string", "format": "uri", "pattern": "^urn:coupon:problem:[A-Z_]+$" },
            "title": { "type": "string", "description": "What kind of problem it is, for people." },
            "status": { "type": "integer", "minimum": 400, "maximum": 599 },
            "detail": { "type": "string", "description": "What is wrong with this request, for people." },
            "code": { "type": "string", "pattern": "^[A-Z_]+$", "description": "Stable: program against this." },
            "request_id": { "type": "string", "description": "The answer's `X-Request-Id`: name it when you ask about this." },
            "retryable": { "type": "boolean", "description": "Whether the same request may succeed later." }
        }
    });
    components["headers"] = json!({
        "Retry-After": {
            "description": "After how many seconds to send the same request again; jittered.",
            "schema": { "type": "integer", "minimum": 1 }
        },
        "RateLimit": {
            "description": "What the user has left of the tighter rate: `r` requests, and all of them again in `t` seconds (draft-ietf-httpapi-ratelimit-headers). Absent where the request was refused before it was counted, e.g. for its body, and where no rate is set.",
            "schema": { "type": "string", "examples": ["\"minute\";r=12;t=59"] }
        },
        "RateLimit-Policy": {
            "description": "The rates: `q` requests in `w` seconds.",
            "schema": { "type": "string", "examples": ["\"second\";q=50;w=1, \"minute\";q=600;w=60"] }
        }
    });
    let problems = Code::ALL.iter().filter(|code| !code.is_of_success());
    let examples = problems.map(|code| {
        let word = code.word();
        let value = json!({
            "type": format!("urn:coupon:problem:{word}"), "title": code.title(),
            "status": code.status(), "detail": sentence(code.advice()), "code": word,
            "retryable": code.is_retryable()
        });
        (word.to_owned(), json!({ "summary": word, "value": value }))
    });
    components["examples"] = Value::Object(examples.collect());
}

/// Begins a text with a capital.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_of_an_operation_are_its_own_and_those_of_its_form() {
        let mut operation = json!({
            "x-problems": "SOLD_OUT RATE_LIMITED", "security": [], "requestBody": {},
            "responses": { "201": { "description": "" } }
        });
        answer(&mut operation);
        assert!(operation.get("x-problems").is_none());
        let responses = &operation["responses"];
        let codes = |status: &str| {
            let content = &responses[status]["content"]["application/problem+json"];
            content["schema"]["allOf"][1]["properties"]["code"]["enum"].clone()
        };
        assert_eq!(codes("401"), json!(["UNAUTHENTICATED"]));
        assert_eq!(codes("409"), json!(["SOLD_OUT"]));
        assert_eq!(codes("415"), json!(["BODY_ENCODED", "NOT_JSON"]));
        assert_eq!(codes("404"), Value::Null, "it has no id");
        assert!(responses["429"]["headers"]["Retry-After"].is_object());
        assert!(responses["409"]["headers"]["Retry-After"].is_null());
        // The handler's answers have the headers; earlier refusals do not.
        for (status, has_headers) in
            [("201", true), ("409", true), ("429", true), ("401", false), ("415", false)]
        {
            for header in ["RateLimit", "RateLimit-Policy"] {
                assert_eq!(
                    responses[status]["headers"][header].is_object(),
                    has_headers,
                    "{status}"
                );
            }
        }
    }
}

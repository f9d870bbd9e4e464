//! Invalid requests for operators' look-ups and repairs.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{Case, NOTHING, Targets, case};

/// Invalid ids.
const NO_IDS: [&str; 7] =
    ["-1", "9223372036854775808", "1e3", "0x1", "%31%00", "1%20or%201=1", "..%2f..%2fhealth"];

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let ask = |method: Method, path: &str| targets.api.operator(method, path);
    let named = |what: &str, request: RequestBuilder, status, code| {
        case(&format!("{what} as a repair"), request, status, code)
    };
    let mut cases = Vec::new();
    for id in NO_IDS {
        for (method, path) in [
            (Method::GET, format!("/v1/users/{id}/coupons")),
            (Method::POST, format!("/v1/users/{id}/view-rebuild")),
            (Method::GET, format!("/v1/claim-states/{id}")),
            (Method::POST, format!("/v1/templates/{id}/gate-rebuild")),
            (Method::POST, format!("/v1/templates/{id}/drain-end")),
        ] {
            cases.push(named(&path, ask(method, &path), 404, "NOT_FOUND"));
        }
    }
    let draft = format!("/v1/templates/{}/gate-rebuild", targets.draft);
    cases.push(named("a draft", ask(Method::POST, &draft), 409, "NO_GATE"));
    let nothing = format!("/v1/templates/{NOTHING}/gate-rebuild");
    cases.push(named("nothing", ask(Method::POST, &nothing), 404, "TEMPLATE_NOT_FOUND"));
    cases.extend(drains(targets));
    for (query, status, code) in [
        ("limit=0", 422, "INVALID_LIMIT"),
        ("limit=101", 422, "INVALID_LIMIT"),
        ("limit=all", 400, "MALFORMED_QUERY"),
        ("cursor=%00", 400, "INVALID_CURSOR"),
        ("cursor=-5", 400, "INVALID_CURSOR"),
    ] {
        let path = format!("/v1/users/2/coupons?{query}");
        cases.push(named(query, ask(Method::GET, &path), status, code));
    }
    // Records of replays: incomplete or invalid bodies, and a replay that does not exist.
    let replays = "/v1/dead-letter-replays".to_owned();
    let offsets = |body: &Value| ask(Method::POST, &replays).json(body);
    for body in [
        json!({}),
        json!({ "from_offset": 1 }),
        json!({ "from_offset": -1, "to_offset": 2 }),
        json!({ "from_offset": 1, "to_offset": 2, "action": "template.end" }),
    ] {
        let what = body.to_string();
        cases.push(named(&what, offsets(&body), 400, "MALFORMED_BODY"));
    }
    let counts = json!({ "replayed": 1, "passed_over": 0 });
    let end = format!("{replays}/{NOTHING}/end");
    let nothing = ask(Method::POST, &end).json(&counts);
    cases.push(named("no replay", nothing, 404, "NOT_FOUND"));
    // Callers without permission.
    let anonymous = |method, path: &str| targets.api.anonymous(method, path);
    let user = |method, path: &str| targets.attacker.request(method, path);
    let gate = format!("/v1/templates/{}/gate-rebuild", targets.one);
    let drain = format!("/v1/templates/{}/drain-end", targets.one);
    for (method, path) in [
        (Method::GET, "/v1/users/2/coupons".to_owned()),
        (Method::POST, "/v1/users/2/view-rebuild".to_owned()),
        (Method::GET, format!("/v1/claim-states/{}", targets.claim)),
        (Method::POST, gate),
        (Method::POST, drain),
        (Method::POST, replays),
        (Method::POST, end),
    ] {
        let without = anonymous(method.clone(), &path);
        cases.push(named(&format!("{path} by nobody"), without, 401, "UNAUTHENTICATED"));
        let shopper = user(method, &path);
        cases.push(named(&format!("{path} by a shopper"), shopper, 401, "UNAUTHENTICATED"));
    }
    for path in ["/v1/users/2/view-rebuild", "/v1/claim-states/1", "/v1/users/2/coupons"] {
        cases.push(named(path, ask(Method::DELETE, path), 405, "METHOD_NOT_ALLOWED"));
    }
    cases.extend(states(targets));
    cases
}

/// Ends of a drain that are not confirmed, or where nothing waits.
fn drains(targets: &Targets) -> Vec<Case> {
    let of = |template: &dyn std::fmt::Display| {
        targets.api.operator(Method::POST, &format!("/v1/templates/{template}/drain-end"))
    };
    let one = || of(&targets.one);
    let any = ("if-match", "*");
    let case = |what: &str, request, status, code| {
        case(&format!("{what} as the end of a drain"), request, status, code)
    };
    vec![
        case("no word", one(), 428, "CONFIRMATION_REQUIRED"),
        case("another name", one().json(&json!({ "confirm": "?" })), 428, "CONFIRMATION_REQUIRED"),
        case("an unknown field", one().json(&json!({ "epoch": 1 })), 400, "MALFORMED_BODY"),
        case("no tag", one().header("if-match", "1"), 400, "IF_MATCH_INVALID"),
        case("another version", one().header("if-match", "\"999\""), 412, "PRECONDITION_FAILED"),
        case("an open gate", one().header(any.0, any.1), 409, "NO_DRAIN"),
        case("a draft", of(&targets.draft).header(any.0, any.1), 409, "NO_DRAIN"),
        case("nothing", of(&NOTHING).header(any.0, any.1), 404, "TEMPLATE_NOT_FOUND"),
    ]
}

/// Queries for a claim's state or story with an invalid template, or one that the claim does not belong to; stories of
/// invalid ids, and without a key.
fn states(targets: &Targets) -> Vec<Case> {
    let mut cases = Vec::new();
    for id in NO_IDS {
        let path = format!("/v1/claim-states/{id}/story");
        let request = targets.api.operator(Method::GET, &path);
        cases.push(case(&path, request, 404, "NOT_FOUND"));
    }
    let path = format!("/v1/claim-states/{}/story", targets.claim);
    let nobody = targets.api.anonymous(Method::GET, &path);
    cases.push(case(&path, nobody, 401, "UNAUTHENTICATED"));
    for (query, status, code) in [
        ("template=x", 400, "MALFORMED_QUERY"),
        ("template=-1", 400, "MALFORMED_QUERY"),
        ("template=9223372036854775808", 400, "MALFORMED_QUERY"),
        (&format!("template={NOTHING}"), 404, "TEMPLATE_NOT_FOUND"),
        (&format!("template={}", targets.one), 404, "CLAIM_NOT_FOUND"),
    ] {
        for sub in ["", "/story"] {
            let path = format!("/v1/claim-states/1{sub}?{query}");
            let request = targets.api.operator(Method::GET, &path);
            cases.push(case(&format!("{query} as a claim's state{sub}"), request, status, code));
        }
    }
    cases
}

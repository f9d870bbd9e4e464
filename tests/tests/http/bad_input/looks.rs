//! Invalid requests of what operators look at: checklists, previews, lists of jobs and bans, the search.

use reqwest::Method;
use serde_json::json;

use super::{Case, NOTHING, Targets, case};

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let ask = |path: &str| targets.api.operator(Method::GET, path);
    let one = targets.one;
    let mut cases = Vec::new();
    for (path, status, code) in [
        (format!("/v1/templates/{NOTHING}/readiness"), 404, "TEMPLATE_NOT_FOUND"),
        ("/v1/templates/-1/readiness".to_owned(), 404, "NOT_FOUND"),
        ("/v1/templates/%31%00/readiness".to_owned(), 404, "NOT_FOUND"),
        (format!("/v1/templates/{one}/readiness?all=1"), 400, "MALFORMED_QUERY"),
        (format!("/v1/templates/{NOTHING}/bans"), 404, "TEMPLATE_NOT_FOUND"),
        (format!("/v1/templates/{one}/bans?limit=0"), 422, "INVALID_LIMIT"),
        (format!("/v1/templates/{one}/bans?cursor=1.5"), 400, "INVALID_CURSOR"),
        ("/v1/jobs?state=".to_owned(), 422, "INVALID_STATUS"),
        ("/v1/jobs?state=RUNNING".to_owned(), 422, "INVALID_STATUS"),
        ("/v1/jobs?limit=-1".to_owned(), 400, "MALFORMED_QUERY"),
        ("/v1/jobs?cursor=%00".to_owned(), 400, "INVALID_CURSOR"),
        ("/v1/jobs?merchant_id=2".to_owned(), 400, "MALFORMED_QUERY"),
        ("/v1/search".to_owned(), 422, "INVALID_SEARCH"),
        ("/v1/search?q=%00".to_owned(), 422, "INVALID_SEARCH"),
        ("/v1/search?q=%E2%80%AE7".to_owned(), 422, "INVALID_SEARCH"),
        ("/v1/search?q=1&q=2".to_owned(), 400, "MALFORMED_QUERY"),
        (format!("/v1/search?q={}", "x".repeat(201)), 422, "INVALID_SEARCH"),
        ("/v1/search?query=1".to_owned(), 400, "MALFORMED_QUERY"),
    ] {
        cases.push(case(&path, ask(&path), status, code));
    }
    let preview = "/v1/templates/preview";
    for (what, body, status, code) in [
        ("nothing", json!({}), 400, "MALFORMED_BODY"),
        ("a list", json!([]), 400, "MALFORMED_BODY"),
        ("an unknown field", json!({ "id": "1" }), 400, "MALFORMED_BODY"),
    ] {
        let sent = targets.api.operator(Method::POST, preview).json(&body);
        cases.push(case(&format!("{what} as a preview"), sent, status, code));
    }
    for (method, path) in [
        (Method::GET, format!("/v1/templates/{one}/readiness")),
        (Method::GET, format!("/v1/templates/{one}/bans")),
        (Method::GET, "/v1/jobs".to_owned()),
        (Method::GET, format!("/v1/search?q={one}")),
        (Method::POST, preview.to_owned()),
    ] {
        let nobody = targets.api.anonymous(method.clone(), &path);
        cases.push(case(&format!("{path} by nobody"), nobody, 401, "UNAUTHENTICATED"));
        let shopper = targets.attacker.request(method, &path);
        cases.push(case(&format!("{path} by a shopper"), shopper, 401, "UNAUTHENTICATED"));
    }
    cases
}

//! Methods, paths and headers that are rejected before a handler sees them.

use reqwest::Method;

use super::{Case, NOTHING, Targets, case};

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let claims = format!("/v1/templates/{}/claims", targets.one);
    let claim = || targets.attacker.request(Method::POST, &claims);
    let mut cases = vec![
        case(
            "large headers",
            claim().header("x-large", "a".repeat(20_000)),
            431,
            "HEADERS_TOO_LARGE",
        ),
        case(
            "a large token",
            targets.api.anonymous(Method::POST, &claims).bearer_auth("a".repeat(20_000)),
            431,
            "HEADERS_TOO_LARGE",
        ),
        case(
            "many headers",
            (0..80).fold(claim(), |request, at| {
                request.header(format!("x-many-{at}"), "a".repeat(250))
            }),
            431,
            "HEADERS_TOO_LARGE",
        ),
        case("two hosts", claim().header("host", "a").header("host", "b"), 400, "HOST_INVALID"),
        case("a host that is none", claim().header("host", "a b"), 400, "HOST_INVALID"),
        case("a host with a user", claim().header("host", "u@a"), 400, "HOST_INVALID"),
        case(
            "a long path",
            targets.attacker.request(Method::GET, &format!("/v1/{}", "a".repeat(5_000))),
            414,
            "URI_TOO_LONG",
        ),
        case(
            "a long query",
            targets
                .attacker
                .request(Method::GET, &format!("/v1/me/coupons?a={}", "a".repeat(5_000))),
            414,
            "URI_TOO_LONG",
        ),
    ];
    cases.extend(paths(targets));
    cases
}

fn paths(targets: &Targets) -> Vec<Case> {
    let claims = format!("/v1/templates/{}/claims", targets.one);
    let mut cases = Vec::new();
    for accept in ["text/html", "application/json;q=0", "image/*", "application/xml, text/*", ""] {
        let request = targets.attacker.request(Method::POST, &claims).header("accept", accept);
        cases.push(case(&format!("accepting {accept:?}"), request, 406, "NOT_ACCEPTABLE"));
    }
    for method in ["PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "FROB", "post"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = targets.attacker.request(method.clone(), &claims);
        cases.push(case(&format!("{method} for POST"), request, 405, "METHOD_NOT_ALLOWED"));
    }
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/template",
        "/V1/me/coupons",
        "//v1/me/coupons",
        "/v1/me/coupons/",
        "/v1//me/coupons",
        "/v2/me/coupons",
        "/metrics",
        "/livez",
        "/.env",
        "/v1/me/coupons%2f1",
        "/v1/me/coupons;a=1",
        "/v1/shop/templates/first",
    ] {
        let request = targets.attacker.request(Method::GET, path);
        cases.push(case(&format!("path {path}"), request, 404, "NOT_FOUND"));
    }
    for id in [NOTHING.to_owned(), targets.draft.to_string()] {
        let request = targets.api.anonymous(Method::GET, &format!("/v1/shop/templates/{id}"));
        cases.push(case(&format!("the page of {id}"), request, 404, "TEMPLATE_NOT_FOUND"));
    }
    cases
}

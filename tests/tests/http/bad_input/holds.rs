//! Invalid payments, cancellations, lifts of bans, and looks at a ledger.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{Case, NOTHING, Targets, case};

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let mut cases = payments(targets);
    cases.extend(cancellations(targets));
    cases.extend(bans(targets));
    cases.extend(ledgers(targets));
    cases
}

/// Lists of coupons that no call takes, with the answer to each.
fn lists() -> Vec<(Value, u16)> {
    let many: Vec<String> = (0..101).map(|id: i32| id.to_string()).collect();
    vec![
        (json!([]), 422),
        (json!(["5", "5"]), 422),
        (json!(many), 422),
        (json!(["five"]), 400),
        (json!([5]), 400),
        (json!("5"), 400),
        (json!(["-5"]), 400),
        (json!(["9223372036854775808"]), 400),
    ]
}

fn payments(targets: &Targets) -> Vec<Case> {
    let path = format!("/v1/claims/{NOTHING}/confirm");
    let post = |path: &str, body: &Value| -> RequestBuilder {
        targets.api.operator(Method::POST, path).json(body)
    };
    let mut cases = Vec::new();
    for payment_ref in
        ["", " ", " p", "p ", "p\n", "p\u{200b}", "p\u{202e}q", "\0", &"p".repeat(65)]
    {
        let body = json!({ "payment_ref": payment_ref });
        cases.push(case(&format!("{payment_ref:?}"), post(&path, &body), 422, "INVALID_PAYMENT"));
    }
    for (coupons, status) in lists() {
        let code = if status == 422 { "INVALID_PAYMENT" } else { "MALFORMED_BODY" };
        let body = json!({ "payment_ref": "p", "coupons": coupons });
        cases.push(case(&format!("payment {coupons}"), post(&path, &body), status, code));
    }
    for body in [
        json!({}),
        json!({ "payment_ref": 5 }),
        json!({ "payment_ref": "p", "amount": 5 }),
        json!([]),
    ] {
        cases.push(case(&format!("payment {body}"), post(&path, &body), 400, "MALFORMED_BODY"));
    }
    let good = json!({ "payment_ref": "p" });
    let unknown = post(&format!("{path}?template={}", targets.one), &good);
    cases.push(case("a payment for nothing", unknown, 404, "CLAIM_NOT_FOUND"));
    let other = post(&format!("{path}?template={NOTHING}"), &good);
    cases.push(case("a payment of no template", other, 404, "TEMPLATE_NOT_FOUND"));
    let by_user = targets.attacker.request(Method::POST, &path).json(&good);
    cases.push(case("a payment by a user", by_user, 401, "UNAUTHENTICATED"));
    cases
}

fn cancellations(targets: &Targets) -> Vec<Case> {
    let path = format!("/v1/claims/{NOTHING}/cancel");
    let post = |body: &Value| targets.attacker.request(Method::POST, &path).json(body);
    let mut cases = Vec::new();
    for reason in ["", "\u{202e}", "a\nb", &"r".repeat(201)] {
        let body = json!({ "reason": reason });
        cases.push(case(&format!("{reason:?}"), post(&body), 422, "INVALID_CHANGE"));
    }
    for (coupons, status) in lists() {
        let code = if status == 422 { "INVALID_CHANGE" } else { "MALFORMED_BODY" };
        let body = json!({ "reason": "r", "coupons": coupons });
        cases.push(case(&format!("cancellation {coupons}"), post(&body), status, code));
    }
    for body in [json!({}), json!({ "reason": null }), json!({ "reason": "r", "user_id": "5" })] {
        cases.push(case(&format!("cancellation {body}"), post(&body), 400, "MALFORMED_BODY"));
    }
    cases
}

fn bans(targets: &Targets) -> Vec<Case> {
    let path = |template: &str, user: &str| format!("/v1/templates/{template}/users/{user}");
    let one = targets.one.to_string();
    let lift = |path: &str, body: &Value| {
        targets.api.operator(Method::POST, &format!("{path}/ban/lift")).json(body)
    };
    let good = json!({ "reason": "r" });
    let mut cases = vec![
        case("a lift of no template", lift(&path(NOTHING, "5"), &good), 404, "TEMPLATE_NOT_FOUND"),
        case("a lift without a reason", lift(&path(&one, "5"), &json!({})), 400, "MALFORMED_BODY"),
        case("a lift of no text", lift(&path(&one, "%FF"), &good), 404, "NOT_FOUND"),
        case(
            "a pause of no text",
            targets.api.operator(Method::POST, "/v1/templates/%FF/pause"),
            404,
            "NOT_FOUND",
        ),
    ];
    for reason in ["", "\u{202e}", &"r".repeat(201)] {
        let request = lift(&path(&one, "5"), &json!({ "reason": reason }));
        cases.push(case(&format!("lift {reason:?}"), request, 422, "INVALID_CHANGE"));
    }
    cases
}

fn ledgers(targets: &Targets) -> Vec<Case> {
    let path = format!("/v1/templates/{}/ledger", targets.one);
    let get = |query: &str| targets.api.operator(Method::GET, &format!("{path}?{query}"));
    [
        ("limit=0", 422, "INVALID_LIMIT"),
        ("limit=-1", 400, "MALFORMED_QUERY"),
        ("limit=1001", 422, "INVALID_LIMIT"),
        ("cursor=x", 400, "INVALID_CURSOR"),
        ("cursor=%00", 400, "INVALID_CURSOR"),
        ("kind=theft", 400, "MALFORMED_QUERY"),
        ("order=up", 400, "MALFORMED_QUERY"),
    ]
    .into_iter()
    .map(|(query, status, code)| case(&format!("ledger {query}"), get(query), status, code))
    .collect()
}

//! "My coupons": invalid pages, invalid orders, and other users' coupons.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Case, Ground, NOTHING, case};

/// Queries of the list, with the expected status and code.
const QUERIES: [(&str, u16, &str); 21] = [
    ("limit=0", 422, "INVALID_LIMIT"),
    ("limit=101", 422, "INVALID_LIMIT"),
    ("limit=4294967295", 422, "INVALID_LIMIT"),
    ("limit=4294967296", 400, "MALFORMED_QUERY"),
    ("limit=-1", 400, "MALFORMED_QUERY"),
    ("limit=ten", 400, "MALFORMED_QUERY"),
    ("limit=1e1", 400, "MALFORMED_QUERY"),
    ("limit=", 400, "MALFORMED_QUERY"),
    ("limit=1&limit=2", 400, "MALFORMED_QUERY"),
    ("status=lost", 422, "INVALID_STATUS"),
    ("status=UNUSED", 422, "INVALID_STATUS"),
    ("status=", 422, "INVALID_STATUS"),
    ("cursor=%00", 400, "INVALID_CURSOR"),
    ("status=used&cursor=-1", 400, "INVALID_CURSOR"),
    ("status=used&cursor=1%20or%201=1", 400, "INVALID_CURSOR"),
    ("status=used&cursor=2123985068924862464", 400, "INVALID_CURSOR"),
    ("status=expired&cursor=2123985068924862464", 400, "INVALID_CURSOR"),
    ("status=expired&cursor=1.01", 400, "INVALID_CURSOR"),
    ("status=expired&cursor=9223372036854775807.1", 400, "INVALID_CURSOR"),
    ("after=first", 400, "INVALID_AFTER"),
    ("after=9223372036854775808", 400, "INVALID_AFTER"),
];

pub(super) fn cases(ground: &Ground) -> Vec<Case> {
    let (coupon, claim) = (ground.coupon, &ground.claim);
    let get = |path: &str| ground.attacker.request(Method::GET, path);
    let post = |path: String, body: &Value| ground.attacker.request(Method::POST, &path).json(body);
    let (order, template) = (json!({ "order_ref": "the-attackers-order" }), ground.one);
    let unknown = "COUPON_NOT_FOUND";
    let mut cases: Vec<Case> = QUERIES
        .iter()
        .map(|(query, status, code)| {
            case(query, get(&format!("/v1/me/coupons?{query}")), *status, code)
        })
        .collect();
    for id in [coupon.to_string(), NOTHING.to_owned(), "0".to_owned()] {
        let path = |verb: &str| format!("/v1/me/coupons/{id}{verb}");
        cases.push(case(&format!("coupon {id}"), get(&path("")), 404, unknown));
        for verb in ["/use", "/unuse"] {
            let name = format!("{verb} of coupon {id}");
            cases.push(case(&name, post(path(verb), &order), 404, unknown));
        }
    }
    for id in ["mine", "-1", "9223372036854775808"] {
        let path = format!("/v1/me/coupons/{id}/use");
        cases.push(case(&format!("coupon {id}"), post(path, &order), 404, "NOT_FOUND"));
    }
    let poll = |query: &str| get(&format!("/v1/claims/{claim}{query}"));
    let unknown = "CLAIM_NOT_FOUND";
    cases.extend([
        case("another's claim", poll(&format!("?template={template}")), 404, unknown),
        case("a claim of no template", poll(""), 404, unknown),
        case("a claim of what is no id", poll("?template=x"), 400, "MALFORMED_QUERY"),
        case("a claim of two templates", poll("?template=1&template=2"), 400, "MALFORMED_QUERY"),
        case("an unknown claim", get(&format!("/v1/claims/{NOTHING}")), 404, unknown),
        case("a claim that is none", get("/v1/claims/first"), 404, "NOT_FOUND"),
    ]);
    let orders = [
        (json!({}), 400, "MALFORMED_BODY"),
        (json!({ "order_ref": null }), 400, "MALFORMED_BODY"),
        (json!({ "order_ref": 1 }), 400, "MALFORMED_BODY"),
        (json!({ "order_ref": ["a"] }), 400, "MALFORMED_BODY"),
        (json!({ "order_ref": "a", "user_id": "2" }), 400, "MALFORMED_BODY"),
        (json!({ "order_ref": "" }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": " \u{a0}\u{3000}" }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": "o".repeat(65) }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": "🎟".repeat(65) }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": "a\0b" }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": "a\nb" }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": "a\u{9b}b" }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": "a\u{200b}b" }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": "a\u{feff}" }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": "a\u{ad}b" }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": "a\u{a0}b" }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": "a\u{202e}b" }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": "a\u{fe0f}" }), 422, "INVALID_ORDER_REF"),
        (json!({ "order_ref": "\u{3164}" }), 422, "INVALID_ORDER_REF"),
    ];
    for (body, status, code) in orders {
        for verb in ["use", "unuse"] {
            let request = post(format!("/v1/me/coupons/{coupon}/{verb}"), &body);
            cases.push(case(&format!("{verb} {body}"), request, status, code));
        }
    }
    cases
}

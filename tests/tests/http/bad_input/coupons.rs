//! "My coupons": invalid pages, invalid orders, and other users' coupons.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Case, NOTHING, Targets, case};

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

/// Queries of a shop's list, which need no token.
const SHOP_QUERIES: [(&str, u16, &str); 9] = [
    ("limit=0", 422, "INVALID_LIMIT"),
    ("limit=101", 422, "INVALID_LIMIT"),
    ("limit=ten", 400, "MALFORMED_QUERY"),
    ("cursor=1", 400, "INVALID_CURSOR"),
    ("cursor=1.01", 400, "INVALID_CURSOR"),
    ("cursor=9223372036854775807.1", 400, "INVALID_CURSOR"),
    ("merchant_id=ours", 400, "MALFORMED_QUERY"),
    ("merchant_id=-1", 400, "MALFORMED_QUERY"),
    ("merchant_id=1&merchant_id=2", 400, "MALFORMED_QUERY"),
];

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let coupon = targets.coupon;
    let claim = &targets.claim;
    let get = |path: &str| targets.attacker.request(Method::GET, path);
    let post =
        |path: String, body: &Value| targets.attacker.request(Method::POST, &path).json(body);
    let order = json!({ "order_ref": "the-attackers-order" });
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
    cases.extend(of_templates(targets));
    let poll = |query: &str| get(&format!("/v1/claims/{claim}{query}"));
    let unknown = "CLAIM_NOT_FOUND";
    cases.extend([
        // Like an id that no claim has.
        case("another's claim of no template", poll(""), 422, "TEMPLATE_NEEDED"),
        case("a claim of nothing", poll(&format!("?template={NOTHING}")), 404, unknown),
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

/// Lists of shops, and what a user has had of a template.
fn of_templates(targets: &Targets) -> Vec<Case> {
    let mut cases = Vec::new();
    for (query, status, code) in SHOP_QUERIES {
        let path = format!("/v1/shop/templates?{query}");
        cases.push(case(query, targets.api.anonymous(Method::GET, &path), status, code));
    }
    let mine = |id: &str| format!("/v1/me/templates/{id}");
    for (id, code) in [
        (NOTHING, "TEMPLATE_NOT_FOUND"),
        (targets.draft.to_string().as_str(), "TEMPLATE_NOT_FOUND"),
        ("mine", "NOT_FOUND"),
        ("-1", "NOT_FOUND"),
        ("9223372036854775808", "NOT_FOUND"),
    ] {
        cases.push(case(
            &format!("my template {id}"),
            targets.attacker.request(Method::GET, &mine(id)),
            404,
            code,
        ));
    }
    let by_key = targets.api.operator(Method::GET, &mine(&targets.one.to_string()));
    cases.push(case("my template by a key", by_key, 401, "UNAUTHENTICATED"));
    cases
}

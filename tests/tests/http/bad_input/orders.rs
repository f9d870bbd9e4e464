//! Names that no order may have, wherever a shop names one.

use coupon::limit;
use reqwest::Method;
use serde_json::json;

use super::{Case, Targets, case};

/// Names that look like others or like nothing, or that a database may take for others.
const NAMES: [&str; 9] =
    ["", " ", " o", "o ", "o\u{3000}", "o\n", "o\u{200b}", "o\u{202e}p", "\u{9b}"];

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let coupon = targets.coupon;
    let long = "o".repeat(limit::ORDER_REF_CHARS_MAX + 1);
    let mut cases = Vec::new();
    for name in NAMES.into_iter().chain([long.as_str()]) {
        let refused = |method: Method, path: &str, body: Option<serde_json::Value>| {
            let said = format!("{method} {path} of the order {name:?}");
            let request = targets.api.operator(method, path);
            let request = if let Some(body) = body { request.json(&body) } else { request };
            case(&said, request, 422, "INVALID_ORDER_REF")
        };
        let of_coupon = |verb: &str| format!("/v1/coupons/{coupon}/{verb}");
        let use_body = json!({ "user_id": "2", "order_ref": name });
        let lock = json!({ "order_ref": name, "for_ms": 1_000 });
        let validation = json!({ "order_ref": name, "amount": 1, "currency": "EUR" });
        let redemption = json!({
            "order_ref": name, "amount": 1, "currency": "EUR", "coupons": [coupon.to_string()],
        });
        cases.extend([
            refused(Method::POST, &of_coupon("use"), Some(use_body.clone())),
            refused(Method::POST, &of_coupon("unuse"), Some(use_body)),
            refused(Method::POST, &of_coupon("lock"), Some(lock)),
            refused(Method::POST, &of_coupon("validate"), Some(validation)),
            refused(Method::POST, "/v1/redemptions", Some(redemption)),
        ]);
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        cases.push(refused(Method::GET, &format!("/v1/coupons?order_ref={encoded}"), None));
        // Without a name these are other paths.
        if !name.is_empty() {
            let order = format!("/v1/redemptions/{encoded}");
            cases.push(refused(Method::GET, &order, None));
            let reason = json!({ "reason": "r" });
            cases.push(refused(Method::POST, &format!("{order}/rollback"), Some(reason)));
        }
    }
    cases
}

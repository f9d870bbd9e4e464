//! Invalid idempotency keys.

use reqwest::{Method, header::HeaderValue};

use super::{Case, Targets, case};

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let path = format!("/v1/templates/{}/claims", targets.several);
    let claim = || targets.attacker.request(Method::POST, &path);
    let movements = format!("/v1/templates/{}/stock-movements", targets.one);
    let movement = || {
        let body = serde_json::json!({ "delta": 5, "reason": "more" });
        targets.api.operator(Method::POST, &movements).json(&body)
    };
    let long = "k".repeat(65);
    let mut cases = vec![
        case("no key", claim(), 400, "IDEMPOTENCY_KEY_MISSING"),
        case("no key of a movement", movement(), 400, "IDEMPOTENCY_KEY_MISSING"),
        case(
            "two keys",
            claim().header("idempotency-key", "a").header("idempotency-key", "b"),
            400,
            "IDEMPOTENCY_KEY_INVALID",
        ),
    ];
    let bytes: [&[u8]; 9] =
        [b"", b"*", b"~1", b"~", b"a b", b"a\tb", "clé".as_bytes(), b"\xff", long.as_bytes()];
    for key in bytes {
        let value = HeaderValue::from_bytes(key).unwrap();
        let name = format!("key {:?}", String::from_utf8_lossy(key));
        let claim = claim().header("idempotency-key", &value);
        cases.push(case(&name, claim, 400, "IDEMPOTENCY_KEY_INVALID"));
        let movement = movement().header("idempotency-key", &value);
        let name = format!("{name} of a movement");
        cases.push(case(&name, movement, 400, "IDEMPOTENCY_KEY_INVALID"));
    }
    cases
}

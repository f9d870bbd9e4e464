//! Other merchants' operators, keys that lack a scope, and invalid keys.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use shopper::Api;

use super::{Case, NOTHING, Targets, case};

/// Operators other than the owner of everything.
pub(super) struct Strangers {
    /// Has every scope at another merchant.
    pub(super) admin: Api,
    /// Belongs to the owner's merchant.
    reader: Api,
    operator: Api,
    /// Every key that was created, the revoked one last.
    pub(super) keys: Vec<String>,
    /// Ids of the other merchant, of its admin's key and of the owner's reader's key.
    merchant: String,
    admin_id: String,
    reader_id: String,
}

impl Strangers {
    pub(super) async fn prepare(api: &Api) -> Self {
        let make = async |path: &str, body: Value| -> Value {
            let answer = api.send(api.operator(Method::POST, path).json(&body)).await.unwrap();
            assert_eq!(answer.status, 201, "{answer:?}");
            answer.json().unwrap()
        };
        let merchant = make("/v1/merchants", json!({ "name": "A stranger" })).await;
        let mut keys = Vec::new();
        let mut ids = Vec::new();
        for body in [
            json!({ "name": "a", "scopes": ["admin"], "merchant_id": merchant["id"] }),
            json!({ "name": "b", "scopes": ["read"] }),
            json!({ "name": "c", "scopes": ["operate"] }),
            json!({ "name": "d", "scopes": ["admin"] }),
        ] {
            let made = make("/v1/api-keys", body).await;
            keys.push(made["key"].as_str().unwrap().to_owned());
            ids.push(made["id"].as_str().unwrap().to_owned());
        }
        let revoke = api.operator(Method::DELETE, &format!("/v1/api-keys/{}", ids[3]));
        assert_eq!(api.send(revoke).await.unwrap().status, 204);
        let [admin, reader, operator] = [0, 1, 2].map(|at: usize| api.with_operator_key(&keys[at]));
        let admin_id = ids[0].clone();
        let reader_id = ids[1].clone();
        let merchant = merchant["id"].as_str().unwrap().to_owned();
        Self { admin, reader, operator, keys, merchant, admin_id, reader_id }
    }
}

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let mut cases = strangers(targets);
    cases.extend(scopes(targets));
    cases.extend(forged(targets));
    cases.extend(requests(targets));
    cases
}

/// Another merchant's resources are reported as not found.
fn strangers(targets: &Targets) -> Vec<Case> {
    let admin = &targets.strangers.admin;
    let one = format!("/v1/templates/{}", targets.one);
    let not_found = |name: &str, request: RequestBuilder| {
        case(&format!("a stranger: {name}"), request, 404, "TEMPLATE_NOT_FOUND")
    };
    let mut cases = Vec::new();
    for sub in ["", "/stock", "/validity-move"] {
        cases.push(not_found(sub, admin.operator(Method::GET, &format!("{one}{sub}"))));
    }
    for sub in ["/publish", "/pause", "/resume", "/end", "/gate-rebuild", "/drain-end"] {
        cases.push(not_found(sub, admin.operator(Method::POST, &format!("{one}{sub}"))));
    }
    let edit = admin.operator(Method::PATCH, &one).header("if-match", "*");
    cases.push(not_found("edit", edit.json(&json!({ "name": "Mine" }))));
    let path = format!("{one}/stock-movements");
    let movement = admin.operator(Method::POST, &path).header("idempotency-key", "m");
    cases.push(not_found("move", movement.json(&json!({ "delta": -1, "reason": "a" }))));
    for sub in ["", "/story"] {
        let path = format!("/v1/claim-states/{}{sub}", targets.claim);
        let claim = admin.operator(Method::GET, &path);
        // Like an id that no claim has.
        cases.push(case(&format!("a stranger's claim{sub}"), claim, 422, "TEMPLATE_NEEDED"));
        let claim = admin.operator(Method::GET, &format!("{path}?template={}", targets.one));
        let what = format!("a claim{sub} at a stranger's template");
        cases.push(case(&what, claim, 404, "TEMPLATE_NOT_FOUND"));
    }
    let key = format!("/v1/api-keys/{}", targets.strangers.reader_id);
    let revoke = admin.operator(Method::DELETE, &key);
    cases.push(case("a stranger's key revoked", revoke, 404, "KEY_NOT_FOUND"));
    let rotate = admin.operator(Method::POST, &format!("{key}/rotate"));
    cases.push(case("a stranger's key replaced", rotate, 404, "KEY_NOT_FOUND"));
    let theirs = json!({ "name": "x", "scopes": ["admin"], "merchant_id": "1" });
    for (method, path) in [
        (Method::GET, "/v1/audit?merchant_id=1"),
        (Method::GET, "/v1/api-keys?merchant_id=1"),
        (Method::POST, "/v1/api-keys"),
        (Method::GET, "/v1/merchants"),
        (Method::GET, "/v1/expiry"),
    ] {
        let request = admin.operator(method.clone(), path);
        let request = if method == Method::POST { request.json(&theirs) } else { request };
        cases.push(case(&format!("a stranger: {path}"), request, 403, "PLATFORM_ONLY"));
    }
    let merchant = admin.operator(Method::POST, "/v1/merchants").json(&json!({ "name": "x" }));
    cases.push(case("a merchant by a stranger", merchant, 403, "PLATFORM_ONLY"));
    cases
}

fn scopes(targets: &Targets) -> Vec<Case> {
    let reader = &targets.strangers.reader;
    let operator = &targets.strangers.operator;
    let one = format!("/v1/templates/{}", targets.one);
    let key = format!("/v1/api-keys/{}", targets.strangers.reader_id);
    let mut cases = Vec::new();
    for (api, method, path) in [
        (reader, Method::POST, "/v1/templates".to_owned()),
        (reader, Method::POST, format!("{one}/pause")),
        (reader, Method::POST, format!("{one}/stock-movements")),
        (reader, Method::POST, format!("{one}/gate-rebuild")),
        (operator, Method::POST, format!("{one}/drain-end")),
        (reader, Method::PATCH, one.clone()),
        (reader, Method::POST, "/v1/api-keys".to_owned()),
        (reader, Method::GET, "/v1/api-keys".to_owned()),
        (reader, Method::DELETE, key.clone()),
        (operator, Method::POST, "/v1/api-keys".to_owned()),
        (operator, Method::GET, "/v1/api-keys".to_owned()),
        (operator, Method::DELETE, key.clone()),
        (operator, Method::POST, format!("{key}/rotate")),
    ] {
        let request = api.operator(method.clone(), &path);
        let body = json!({ "name": "x", "scopes": ["admin"] });
        let request = if path == "/v1/api-keys" && method == Method::POST {
            request.json(&body)
        } else {
            request
        };
        cases.push(case(
            &format!("{method} {path} without its scope"),
            request,
            403,
            "SCOPE_LACKING",
        ));
    }
    cases
}

/// Keys that are not accepted.
fn forged(targets: &Targets) -> Vec<Case> {
    let real = &targets.strangers.keys[0];
    // The secret may contain the underscore that precedes it.
    let (head, secret) = real.split_at("ck_".len() + targets.strangers.admin_id.len());
    let secret = &secret[1..];
    let other_end = if secret.ends_with('A') { "E" } else { "A" };
    let platform = &targets.world.platform.options.operator_key;
    let mut cases = Vec::new();
    for (name, key) in [
        ("of another id", format!("ck_{NOTHING}_{secret}")),
        ("of the key's id and another's secret", {
            let other = &targets.strangers.keys[1];
            format!("{head}_{}", &other[other.len() - secret.len()..])
        }),
        ("with its last character changed", format!("{}{other_end}", &real[..real.len() - 1])),
        ("cut short", real[..real.len() - 1].to_owned()),
        ("with more behind", format!("{real}A")),
        ("in capitals", real.to_uppercase()),
        ("without its secret", format!("{head}_")),
        ("that is an id", targets.strangers.admin_id.clone()),
        ("of an id that is none", format!("ck_-1_{secret}")),
        ("of an id too large", format!("ck_9223372036854775808_{secret}")),
        ("as a bearer", format!("Bearer {real}")),
        ("in quotes", format!("\"{real}\"")),
        ("that was revoked", targets.strangers.keys[3].clone()),
        ("of the platform, cut short", platform[..platform.len() - 1].to_owned()),
        ("that selects", "ck_1_' or '1'='1".to_owned()),
    ] {
        let request = targets.api.with_operator_key(&key).operator(Method::GET, "/v1/templates");
        cases.push(case(&format!("a key {name}"), request, 401, "UNAUTHENTICATED"));
    }
    let twice = targets.strangers.admin.operator(Method::GET, "/v1/templates");
    let twice = twice.header("x-api-key", platform.as_str());
    cases.push(case("two keys", twice, 401, "UNAUTHENTICATED"));
    cases
}

/// Invalid requests about keys and merchants.
fn requests(targets: &Targets) -> Vec<Case> {
    let post = |path: &str, body: &Value| targets.api.operator(Method::POST, path).json(body);
    let mut cases = Vec::new();
    for (body, status, code) in [
        (json!({ "name": "", "scopes": ["read"] }), 422, "INVALID_KEY"),
        (json!({ "name": "a\u{2067}b", "scopes": ["read"] }), 422, "INVALID_KEY"),
        (json!({ "name": "x", "scopes": [] }), 422, "INVALID_KEY"),
        (json!({ "name": "x", "scopes": ["read", "ROOT"] }), 422, "INVALID_KEY"),
        (json!({ "name": "x", "scopes": ["read"], "merchant_id": NOTHING }), 422, "INVALID_KEY"),
        (
            json!({ "name": "x", "scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z" }),
            422,
            "INVALID_KEY",
        ),
        (json!({ "name": "x", "scopes": "read" }), 400, "MALFORMED_BODY"),
        (json!({ "name": "x", "scopes": ["read"], "merchant_id": 2 }), 400, "MALFORMED_BODY"),
        (json!({ "name": "x", "scopes": ["read"], "merchant_id": "-2" }), 400, "MALFORMED_BODY"),
        (json!({ "name": "x", "scopes": ["read"], "key": "mine" }), 400, "MALFORMED_BODY"),
    ] {
        cases.push(case(&body.to_string(), post("/v1/api-keys", &body), status, code));
    }
    for (body, status, code) in [
        (json!({ "name": " " }), 422, "INVALID_MERCHANT"),
        (json!({ "name": "a\tb" }), 422, "INVALID_MERCHANT"),
        (json!({ "name": "m".repeat(101) }), 422, "INVALID_MERCHANT"),
        (json!({ "name": "m", "id": "2" }), 400, "MALFORMED_BODY"),
    ] {
        cases.push(case(&body.to_string(), post("/v1/merchants", &body), status, code));
    }
    let rotate = format!("/v1/api-keys/{}/rotate", targets.strangers.reader_id);
    let too_long = json!({ "overlap_seconds": 2_592_001 });
    cases.push(case("too long an overlap", post(&rotate, &too_long), 422, "INVALID_KEY"));
    let negative = json!({ "overlap_seconds": -1 });
    cases.push(case("an overlap below 0", post(&rotate, &negative), 400, "MALFORMED_BODY"));
    let gone = format!("/v1/api-keys/{NOTHING}");
    let revoke = targets.api.operator(Method::DELETE, &gone);
    cases.push(case("no key", revoke, 404, "KEY_NOT_FOUND"));
    let other = format!("/v1/audit?merchant_id={}&cursor=x", targets.strangers.merchant);
    let record = targets.api.operator(Method::GET, &other);
    cases.push(case("a cursor that is none", record, 400, "INVALID_CURSOR"));
    for query in ["limit=0", "limit=101"] {
        let record = targets.api.operator(Method::GET, &format!("/v1/audit?{query}"));
        cases.push(case(query, record, 422, "INVALID_LIMIT"));
    }
    cases
}

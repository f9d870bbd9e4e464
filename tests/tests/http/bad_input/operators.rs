//! Invalid templates, state changes and movements.

use chrono::TimeDelta;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use shopper::NewTemplate;

use super::{Case, NOTHING, Targets, case};

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let mut cases = templates(targets);
    cases.extend(changes(targets));
    cases.extend(movements(targets));
    cases
}

/// Drafts with one error each.
fn templates(targets: &Targets) -> Vec<Case> {
    let good = NewTemplate::simple("A sale", 10, targets.world.clock.now(), TimeDelta::hours(1));
    let good = serde_json::to_value(good).unwrap();
    let create = |change: &Value| -> RequestBuilder {
        let mut body = good.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        targets.api.operator(Method::POST, "/v1/templates").json(&body)
    };
    let one =
        |change: &Value, status, code| case(&change.to_string(), create(change), status, code);
    let invalid = numbers().into_iter().chain(times()).chain(discounts());
    let mut cases: Vec<Case> =
        invalid.map(|change| one(&change, 422, "INVALID_TEMPLATE")).collect();
    cases.extend(malformed().iter().map(|change| one(change, 400, "MALFORMED_BODY")));
    cases
}

fn numbers() -> Vec<Value> {
    vec![
        json!({ "name": "" }),
        json!({ "name": " \t" }),
        json!({ "name": "n".repeat(201) }),
        json!({ "name": "a\0b" }),
        json!({ "name": "10 % off\n[ERROR] all is lost" }),
        json!({ "name": "a\u{1b}[2Jb" }),
        json!({ "name": "safe \u{202e}gpj.exe" }),
        json!({ "name": "a\u{2066}b\u{2069}" }),
        json!({ "name": "a\u{2028}b" }),
        json!({ "total_stock": -1 }),
        json!({ "total_stock": 1_000_000_001 }),
        json!({ "total_stock": i64::MAX }),
        json!({ "per_user_limit": 101 }),
        json!({ "max_per_claim": 0 }),
        json!({ "max_per_claim": 2 }),
        json!({ "per_user_limit": 0, "max_per_claim": 101 }),
        json!({ "claim_mode": "fast" }),
        json!({ "claim_mode": "Queued" }),
        json!({ "claim_mode": "" }),
        json!({ "accept_after": "never" }),
    ]
}

fn times() -> Vec<Value> {
    let absolute = |from: &str, until: &str| json!({ "valid_for_ms": null, "valid_from": from, "valid_until": until });
    vec![
        json!({ "claim_ends_at": "2020-01-01T00:00:00Z" }),
        json!({ "valid_for_ms": null }),
        json!({ "valid_for_ms": 0 }),
        json!({ "valid_for_ms": -1 }),
        json!({ "valid_for_ms": i64::MAX }),
        json!({ "valid_from": "2026-01-01T00:00:00Z", "valid_until": "2027-01-01T00:00:00Z" }),
        json!({ "valid_for_ms": null, "valid_from": "2026-01-01T00:00:00Z" }),
        absolute("2027-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        absolute("2027-01-01T00:00:00Z", "2027-01-01T01:00:00+01:00"),
    ]
}

fn discounts() -> Vec<Value> {
    let discount = |kind: &str, fields: Value| {
        let mut discount = json!({ "kind": kind, "currency": "EUR" });
        discount.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({ "discount": discount })
    };
    let amount = |fields: Value| discount("amount_off", fields);
    let percent = |fields: Value| discount("percent_off", fields);
    vec![
        amount(json!({})),
        amount(json!({ "amount_off_minor": 0 })),
        amount(json!({ "amount_off_minor": -5 })),
        amount(json!({ "amount_off_minor": 5, "cap_minor": 5 })),
        amount(json!({ "amount_off_minor": 5, "minimum_spend_minor": -1 })),
        amount(json!({ "amount_off_minor": 5, "percent_off": 5 })),
        amount(json!({ "amount_off_minor": 5, "currency": "eur" })),
        amount(json!({ "amount_off_minor": 5, "currency": "EURO" })),
        amount(json!({ "amount_off_minor": 5, "currency": "€" })),
        // The fields of earlier versions.
        amount(json!({ "value": 5 })),
        percent(json!({ "percent_off": 5, "cap": 5 })),
        percent(json!({ "percent_off": 5, "minimum_spend": 5 })),
        percent(json!({})),
        percent(json!({ "percent_off": 0 })),
        percent(json!({ "percent_off": -5 })),
        percent(json!({ "percent_off": 100.01 })),
        percent(json!({ "percent_off": 12.345 })),
        percent(json!({ "percent_off": "12,5" })),
        percent(json!({ "percent_off": "20 %" })),
        percent(json!({ "percent_off": "" })),
        percent(json!({ "percent_off": 5, "cap_minor": 0 })),
        percent(json!({ "percent_off": 5, "amount_off_minor": 5 })),
        discount("free_shipping", json!({ "amount_off_minor": 5 })),
        discount("everything_off", json!({ "amount_off_minor": 5 })),
    ]
}

fn malformed() -> Vec<Value> {
    vec![
        json!({ "name": 1 }),
        json!({ "name": null }),
        json!({ "total_stock": "10" }),
        json!({ "total_stock": 1.5 }),
        json!({ "per_user_limit": -1 }),
        json!({ "per_user_limit": 4_294_967_296_i64 }),
        json!({ "claim_ends_at": "soon" }),
        json!({ "claim_ends_at": "2027-01-01" }),
        json!({ "claim_ends_at": "2027-01-01T00:00:00" }),
        json!({ "claim_ends_at": "2027-01-01T00:00:00+25:00" }),
        json!({ "claim_ends_at": "2027-02-30T00:00:00Z" }),
        json!({ "claim_ends_at": "2027-13-01T00:00:00Z" }),
        json!({ "claim_ends_at": "2027-01-01T24:00:01Z" }),
        json!({ "claim_ends_at": 1_800_000_000 }),
        json!({ "discount": "half" }),
        json!({ "discount": { "kind": "amount_off", "amount_off_minor": 5 } }),
        json!({ "discount": { "kind": "amount_off", "amount_off_minor": 5.5, "currency": "EUR" } }),
        json!({ "discount": { "kind": "percent_off", "percent_off": true, "currency": "EUR" } }),
        json!({ "claim_mode": 1 }),
        json!({ "accept_after": ["topic"] }),
        json!({ "id": "1" }),
        json!({ "merchant_id": "2" }),
        json!({ "state": "published" }),
    ]
}

/// Invalid changes of a template.
fn changes(targets: &Targets) -> Vec<Case> {
    let mut cases = turns(targets);
    cases.extend(edits(targets));
    cases
}

/// Invalid changes of state.
fn turns(targets: &Targets) -> Vec<Case> {
    let path = format!("/v1/templates/{}", targets.one);
    let [one, draft, paused, ended] =
        [targets.one, targets.draft, targets.paused, targets.ended].map(|id| id.to_string());
    let mut cases = Vec::new();
    for (id, verb, status, code) in [
        (NOTHING, "publish", 404, "TEMPLATE_NOT_FOUND"),
        ("first", "publish", 404, "TEMPLATE_NOT_FOUND"),
        (&one, "explode", 404, "NOT_FOUND"),
        (&one, "PAUSE", 404, "NOT_FOUND"),
        (&draft, "pause", 409, "INVALID_TRANSITION"),
        (&draft, "resume", 409, "INVALID_TRANSITION"),
        (&draft, "end", 409, "INVALID_TRANSITION"),
        (&paused, "publish", 409, "INVALID_TRANSITION"),
        (&ended, "publish", 409, "INVALID_TRANSITION"),
        (&ended, "pause", 409, "INVALID_TRANSITION"),
        (&ended, "resume", 409, "INVALID_TRANSITION"),
    ] {
        let request = targets.api.operator(Method::POST, &format!("/v1/templates/{id}/{verb}"));
        cases.push(case(&format!("{verb} {id}"), request, status, code));
    }
    for (verb, body, status, code) in [
        ("pause", json!({ "accepted": "burn" }), 422, "INVALID_TEMPLATE"),
        ("pause", json!({ "accepted": "" }), 422, "INVALID_TEMPLATE"),
        ("end", json!({ "accepted": "Land", "confirm": "A sale" }), 422, "INVALID_TEMPLATE"),
        ("resume", json!({ "accepted": "land" }), 422, "INVALID_TEMPLATE"),
        ("pause", json!({ "accepted": 1 }), 400, "MALFORMED_BODY"),
    ] {
        let request = targets.api.operator(Method::POST, &format!("{path}/{verb}")).json(&body);
        cases.push(case(&format!("{verb} {body}"), request, status, code));
    }
    cases
}

/// Invalid edits.
fn edits(targets: &Targets) -> Vec<Case> {
    let path = format!("/v1/templates/{}", targets.one);
    let mut cases = Vec::new();
    let from = "1900-01-01T00:00:00Z";
    let until = "2099-01-01T00:00:00Z";
    for (change, status, code) in [
        (json!({ "valid_for_ms": 5 }), 428, "PRECONDITION_REQUIRED"),
        (json!({ "version": 2 }), 422, "INVALID_TEMPLATE"),
        (json!({ "version": 2, "name": "" }), 422, "INVALID_TEMPLATE"),
        (json!({ "version": 2, "name": null }), 422, "INVALID_TEMPLATE"),
        (json!({ "version": 2, "name": 5 }), 400, "MALFORMED_BODY"),
        (json!({ "version": 2, "state": "ended" }), 400, "MALFORMED_BODY"),
        (json!({ "version": 2, "merchant_id": "2" }), 400, "MALFORMED_BODY"),
        (json!({ "version": 2, "per_user_limit": 0 }), 409, "FIELD_NOT_EDITABLE"),
        (json!({ "version": 2, "claim_mode": "slow" }), 422, "INVALID_TEMPLATE"),
        (json!({ "version": 2, "accept_after": "" }), 422, "INVALID_TEMPLATE"),
        (json!({ "version": 2, "total_stock": 1_000 }), 409, "FIELD_NOT_EDITABLE"),
        (json!({ "version": 2, "claim_starts_at": from }), 400, "MALFORMED_BODY"),
        (json!({ "version": 2, "claim_starts_at": until }), 409, "FIELD_NOT_EDITABLE"),
        (json!({ "version": 2, "claim_ends_at": "2020-01-01T00:00:00Z" }), 422, "INVALID_TEMPLATE"),
        (json!({ "version": 2, "issued_coupons": "follow" }), 422, "INVALID_TEMPLATE"),
        (json!({ "version": 1, "valid_for_ms": 5 }), 409, "CHANGED_MEANWHILE"),
        (json!({ "version": i64::MAX, "valid_for_ms": 5 }), 409, "CHANGED_MEANWHILE"),
        (json!({ "version": 2, "valid_from": from, "valid_until": until }), 400, "MALFORMED_BODY"),
        (
            json!({ "version": 2, "valid_for_ms": 5, "issued_coupons": "burn" }),
            400,
            "MALFORMED_BODY",
        ),
    ] {
        let request = targets.api.operator(Method::PATCH, &path).json(&change);
        cases.push(case(&change.to_string(), request, status, code));
    }
    for (tag, status, code) in [
        ("2", 400, "IF_MATCH_INVALID"),
        ("\"2", 400, "IF_MATCH_INVALID"),
        ("\"2\" \"3\"", 400, "IF_MATCH_INVALID"),
        ("", 400, "IF_MATCH_INVALID"),
        ("W/\"2\"", 412, "PRECONDITION_FAILED"),
        ("\"-2\"", 412, "PRECONDITION_FAILED"),
        ("\"99999999999999999999\"", 412, "PRECONDITION_FAILED"),
    ] {
        let request = targets.api.operator(Method::PATCH, &path).header("if-match", tag);
        cases.push(case(tag, request.json(&json!({ "name": "x" })), status, code));
    }
    let request = targets.api.operator(Method::GET, &format!("{path}/validity-move"));
    cases.push(case("a move that never was", request, 404, "MOVE_NOT_FOUND"));
    cases
}

fn movements(targets: &Targets) -> Vec<Case> {
    let path = |id: &str| format!("/v1/templates/{id}/stock-movements");
    let send = |id: &str, body: &Value| {
        let request = targets.api.operator(Method::POST, &path(id)).header("idempotency-key", "m");
        request.json(body)
    };
    let one = targets.one.to_string();
    let mut cases = vec![
        case(
            "a movement of nothing",
            send(NOTHING, &json!({ "delta": 1, "reason": "a" })),
            404,
            "TEMPLATE_NOT_FOUND",
        ),
        case(
            "a cut too deep",
            send(&one, &json!({ "delta": -10, "reason": "a" })),
            409,
            "INSUFFICIENT_STOCK",
        ),
        case(
            "too many",
            send(&one, &json!({ "delta": 1_000_000_000, "reason": "a" })),
            409,
            "TOTAL_TOO_LARGE",
        ),
    ];
    for (body, status, code) in [
        (json!({ "delta": 0, "reason": "a" }), 422, "INVALID_MOVEMENT"),
        (json!({ "delta": 1, "reason": "a\u{202e}b" }), 422, "INVALID_MOVEMENT"),
        (json!({ "delta": 1, "reason": "a\r\nb" }), 422, "INVALID_MOVEMENT"),
        (json!({ "delta": 1_000_000_001, "reason": "a" }), 422, "INVALID_MOVEMENT"),
        (json!({ "delta": i64::MIN, "reason": "a" }), 422, "INVALID_MOVEMENT"),
        (json!({ "delta": 1, "reason": " " }), 422, "INVALID_MOVEMENT"),
        (json!({ "delta": 1, "reason": "r".repeat(201) }), 422, "INVALID_MOVEMENT"),
        (json!({ "delta": 1.5, "reason": "a" }), 400, "MALFORMED_BODY"),
        (json!({ "delta": "1", "reason": "a" }), 400, "MALFORMED_BODY"),
        (json!({ "delta": 1 }), 400, "MALFORMED_BODY"),
        (json!({ "delta": 1, "reason": "a", "actor": "root" }), 400, "MALFORMED_BODY"),
    ] {
        cases.push(case(&body.to_string(), send(&one, &body), status, code));
    }
    cases
}

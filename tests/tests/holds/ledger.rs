//! The ledger shows everything that changed a stock, and its sums are the stock.

use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    desk::{get, post},
    holds::{claimed, held, stock},
};

/// Reads a ledger page by page, and returns its entries.
async fn all(world: &World, path: &str, limit: usize) -> Vec<Value> {
    let mut entries = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = get(world.api(), &format!("{path}limit={limit}{cursor}")).await;
        entries.extend(page["data"].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return entries,
        }
    }
}

fn kinds(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_ledger_of_a_template_shows_claims_and_movements_and_sums_up_to_its_stock() {
    let world = World::start("ledger").await;
    let api = world.api();
    let template = world.template(9, held).await;
    let other = world.template(9, |new| new).await;
    let (anna, first) = claimed(&world, template, 1, "a", 2).await;
    claimed(&world, other, 1, "a", 1).await;
    assert_eq!(anna.cancel(first.id, None).await.unwrap().status, 200);
    let (_, second) = claimed(&world, template, 2, "a", 1).await;
    let top_up = api.operator(Method::POST, &format!("/v1/templates/{template}/stock-movements"));
    let top_up = top_up.header("idempotency-key", "more");
    let top_up = top_up.json(&json!({ "delta": 5, "reason": "=more, \"please\"" }));
    assert_eq!(api.send(top_up).await.unwrap().status, 201);
    let given_back = api.cancel(second.id, "refunded", None).await.unwrap();
    assert_eq!(given_back.status, 200, "{}", given_back.body);

    let path = format!("/v1/templates/{template}/ledger?");
    let entries = all(&world, &path, 100).await;
    assert_eq!(kinds(&entries), ["return", "total", "claim", "return", "claim", "total"]);
    let quantities: Vec<i64> =
        entries.iter().map(|entry| entry["quantity"].as_i64().unwrap()).collect();
    assert_eq!(quantities, [1, 5, -1, 2, -2, 9]);
    assert_eq!(stock(&world, template).await, (14, quantities.iter().sum()));
    assert_eq!(entries[4]["claim_id"], json!(first.id));
    assert_eq!((&entries[3]["user_id"], &entries[3]["actor"]), (&json!("1"), &json!("user")));
    assert_eq!(all(&world, &path, 1).await, entries, "one by one");
    for (kind, count) in [("claim", 2), ("total", 2), ("return", 2), ("lift", 0)] {
        let of_kind = all(&world, &format!("{path}kind={kind}&"), 1).await;
        assert_eq!(of_kind.len(), count, "{kind}");
        assert!(kinds(&of_kind).iter().all(|other| *other == kind));
    }
    let totals = &get(api, &path).await["totals"];
    assert_eq!((&totals["claims"], &totals["stock"]), (&json!(-3), &json!(14)));
    let returns = json!({ "kind": "return", "movements": 2, "quantity": 3, "total_change": 0 });
    assert_eq!(totals["kinds"][1], returns);

    let csv = api.operator(Method::GET, &format!("{path}format=csv"));
    let csv = api.send(csv).await.unwrap();
    assert_eq!(csv.content_type, "text/csv; charset=utf-8; header=present");
    let accepted = api.operator(Method::GET, &path).header("accept", "text/csv");
    assert_eq!(api.send(accepted).await.unwrap().body, csv.body);
    let lines: Vec<&str> = csv.body.split("\r\n").collect();
    assert_eq!(lines.len(), 8, "{}", csv.body);
    assert!(lines[2].ends_with("\"'=more, \"\"please\"\"\""), "{}", lines[2]);
    for wrong in ["kind=gift", "format=xml"] {
        let answer = api.send(api.operator(Method::GET, &format!("{path}{wrong}"))).await.unwrap();
        assert_eq!(answer.code().as_deref(), Some("MALFORMED_QUERY"));
    }
    let shown = get(api, &format!("/v1/templates/{template}/stock")).await;
    assert_eq!((&shown["held"], &shown["confirmed"]), (&json!(0), &json!(0)));
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_stock_says_how_much_of_it_is_held_and_how_much_is_confirmed() {
    let world = World::start("held stock").await;
    let api = world.api();
    let template = world.template(9, held).await;
    let (_, claim) = claimed(&world, template, 1, "a", 2).await;
    let (_, paid) = claimed(&world, template, 2, "a", 1).await;
    assert_eq!(api.confirm(paid.id, "pay-1", None).await.unwrap().status, 200);
    let path = format!("/v1/templates/{template}/stock");
    let shown = get(api, &path).await;
    assert_eq!((&shown["held"], &shown["confirmed"]), (&json!(2), &json!(1)));
    assert_eq!((&shown["landed"], &shown["stock"]), (&json!(3), &json!(6)));
    // Nothing is lost on the way: each unit is at the gate, held, or confirmed.
    let parts = ["gate_stock", "in_flight", "held", "confirmed"].map(|part| shown[part].as_i64());
    assert_eq!(parts.into_iter().sum::<Option<i64>>(), shown["total"].as_i64(), "{shown}");
    let cancel = format!("/v1/claims/{}/cancel", claim.id);
    assert_eq!(post(api, &cancel, &json!({ "reason": "r" })).await.status, 200);
    let shown = get(api, &path).await;
    assert_eq!((&shown["held"], &shown["landed"]), (&json!(0), &json!(1)));
    world.assert_sound(None).await;
    world.end().await;
}

//! What operators look at before a sale: a checklist, and what shoppers will see.

use std::fs;

use chrono::TimeDelta;
use mysql_store::verify;
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::NewTemplate;

use crate::{
    desk::{another_merchant, get, post, refusal},
    operators::cli::Cli,
};

/// The names of the items that are wrong.
fn wrong(readiness: &Value) -> Vec<&str> {
    let items = readiness["items"].as_array().unwrap().iter();
    items.filter(|item| item["ok"] == false).map(|item| item["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_checklist_names_what_is_not_ready_and_all_is_ready_once_that_is_mended() {
    let world = World::start("readiness").await;
    let api = world.api();
    let cli = Cli::of(&world);
    let new = NewTemplate::simple("A sale", 0, world.clock.now(), TimeDelta::hours(1));
    let id = api.create(&new).await.unwrap().id;
    let path = format!("/v1/templates/{id}/readiness");
    let look = async || get(api, &path).await;
    let seen = look().await;
    assert_eq!((&seen["ready"], &seen["template_id"]), (&json!(false), &json!(id)));
    assert!(["published", "stock"].iter().all(|name| wrong(&seen).contains(name)), "{seen}");
    let shown = cli.run(&format!("template readiness {id}")).await;
    let said = "Not ready: The template is a draft";
    assert!(shown.code == 4 && shown.out.starts_with(said), "{shown:?}");
    let as_json = cli.run(&format!("template readiness {id} --json")).await;
    assert!(as_json.code == 4 && as_json.err.contains("coupon template publish"), "{as_json:?}");

    api.turn(id, "publish").await.unwrap();
    cli.json(&format!("stock add {id} 5 --reason more")).await;
    let ready = until(async || look().await, |seen| seen["ready"] == true).await;
    assert_eq!(wrong(&ready), Vec::<&str>::new());
    assert_eq!(ready["sentence"], "All is ready.");
    assert!(!ready.to_string().contains("127.0.0.1"), "no address of the platform: {ready}");
    assert_eq!(cli.json(&format!("template readiness {id}")).await["ready"], true);
    api.turn(id, "pause").await.unwrap();
    assert_eq!(wrong(&look().await), ["published"]);

    let foreign = another_merchant(api).await;
    let hidden = foreign.send(foreign.operator(Method::GET, &path)).await.unwrap();
    assert_eq!(refusal(&hidden), (404, "TEMPLATE_NOT_FOUND".to_owned()));
    world.end().await;
}

#[tokio::test]
async fn a_preview_shows_what_the_shops_page_will_refuses_what_a_creation_would_and_makes_nothing()
{
    let world = World::start("preview").await;
    let api = world.api();
    let new = NewTemplate::simple("A sale", 7, world.clock.now(), TimeDelta::hours(1));
    let preview = async |body: &Value| post(api, "/v1/templates/preview", body).await;
    let count = async || {
        let rows =
            "select (select count(*) from coupon_template) + (select count(*) from audit_entry)";
        verify::number(&mut world.mysql().await, rows).await.unwrap()
    };
    let before = count().await;
    let body = serde_json::to_value(&new).unwrap();
    let answer = preview(&body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let shown: Value = answer.json().unwrap();
    assert_eq!(shown["shop"]["discount_text"], "€5.00 off");
    for (change, field) in [
        (json!({ "name": "" }), "name"),
        (json!({ "total_stock": -1 }), "total_stock"),
        (json!({ "max_per_claim": 0 }), "max_per_claim"),
        (json!({ "hold_ms": 5 }), "hold_ms"),
        (json!({ "claim_mode": "fast" }), "claim_mode"),
    ] {
        let mut body = body.clone();
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let [refused, as_created] = [preview(&body).await, post(api, "/v1/templates", &body).await];
        assert_eq!(refusal(&refused), (422, "INVALID_TEMPLATE".to_owned()), "{change}");
        let told = |answer: &shopper::Answer| {
            let problem: Value = answer.json().unwrap();
            [problem["field"].clone(), problem["detail"].clone()]
        };
        assert_eq!(told(&refused), told(&as_created), "{change}");
        assert_eq!(told(&refused)[0], field);
    }
    let unknown = preview(&json!({ "title": "x" })).await;
    assert_eq!(refusal(&unknown), (400, "MALFORMED_BODY".to_owned()));
    let reader = json!({ "name": "reads", "scopes": ["read"] });
    let reader: Value = post(api, "/v1/api-keys", &reader).await.json().unwrap();
    let made_key = count().await;
    let reader = api.with_operator_key(reader["key"].as_str().unwrap());
    let lacking = post(&reader, "/v1/templates/preview", &body).await;
    assert_eq!(refusal(&lacking), (403, "SCOPE_LACKING".to_owned()));

    let file = world.platform.options.dir.join("sale.toml");
    let cli = Cli::of(&world);
    fs::write(&file, cli.run("template create --example").await.out).unwrap();
    let by_cli = cli.json(&format!("template preview {}", file.display())).await;
    assert_eq!(by_cli["shop"]["id"], "0", "{by_cli}");
    assert_eq!((before + 1, count().await), (made_key, made_key), "only the key was made");

    let id = api.publish_new(&new).await.unwrap().id;
    let page = async || -> Value { api.shop(id, None).await.unwrap().json().unwrap() };
    let is_loaded = |page: &Value| page["left"].is_i64() && page["total"].is_i64();
    let mut page = until(page, is_loaded).await;
    page["id"] = json!("0");
    assert_eq!(shown["shop"], page);
    world.end().await;
}

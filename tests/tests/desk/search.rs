//! One search for all: what a text names is found by its owner, and by nobody else.

use coupon::UserId;
use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Api, Claimed, NewTemplate};

use crate::{
    desk::{another_merchant, get, post, refusal},
    operators::cli::Cli,
};

/// An id that no answer of the test has by chance.
const ANNA: UserId = UserId(7_654_321_987_003);

const ORDER: &str = "order 1&2";
const ORDER_ENCODED: &str = "order%201%262";

async fn found(api: &Api, q: &str) -> Vec<Value> {
    let found = get(api, &format!("/v1/search?q={q}")).await;
    found["items"].as_array().unwrap().clone()
}

fn kinds(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["kind"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_a_text_names_is_found_by_its_owner_and_a_foreign_id_is_answered_like_an_unknown_one()
{
    let world = World::start("search").await;
    let owner = another_merchant(world.api()).await;
    let stranger = another_merchant(world.api()).await;
    let key = json!({ "name": "all", "scopes": ["admin", "redeem"] });
    let key: Value = post(&owner, "/v1/api-keys", &key).await.json().unwrap();
    let key = key["key"].as_str().unwrap();
    let owner = owner.with_operator_key(key);
    let hour = chrono::TimeDelta::hours(1);
    let new = NewTemplate::simple("Ein Wintermärchen", 9, world.clock.now(), hour);
    let template = owner.publish_new(&new).await.unwrap().id;
    let shopper = world.api().shopper(ANNA).unwrap();
    let claimed: Claimed = shopper.claim(template, None, 1).await.unwrap().json().unwrap();
    let coupon = claimed.coupons[0].id;
    let used = json!({ "user_id": ANNA.to_string(), "order_ref": ORDER });
    let used = post(&owner, &format!("/v1/coupons/{coupon}/use"), &used).await;
    assert_eq!(used.status, 200, "{}", used.body);

    for (q, kind, id) in [
        (template.to_string(), "template", template.to_string()),
        ("WINTERMARCHEN".to_owned(), "template", template.to_string()),
        (coupon.to_string(), "coupon", coupon.to_string()),
        (claimed.id.to_string(), "claim", claimed.id.to_string()),
        (ANNA.to_string(), "user", ANNA.to_string()),
        (format!("%20{ORDER_ENCODED}%20"), "order", ORDER.to_owned()),
    ] {
        let items = found(&owner, &q).await;
        assert_eq!(kinds(&items), [kind], "{q}: {items:?}");
        assert_eq!(items[0]["id"], id, "{q}");
        let path = items[0]["path"].as_str().unwrap();
        let shown = owner.send(owner.operator(Method::GET, path)).await.unwrap();
        assert_eq!(shown.status, 200, "{path}: {}", shown.body);
        assert_eq!(found(&stranger, &q).await, Vec::<Value>::new(), "{q}");
    }
    let items = found(&owner, &coupon.to_string()).await;
    let of = (&items[0]["user_id"], &items[0]["template_id"]);
    assert_eq!(of, (&json!(ANNA.to_string()), &json!(template.to_string())));
    for nothing in ["4611686018427387904", "order-of-nobody", "order%201%26", "1e9"] {
        assert_eq!(found(&owner, nothing).await, Vec::<Value>::new(), "{nothing}");
    }

    for wrong in ["", "?q=", "?q=%20%09", "?q=a%00b", &format!("?q={}", "x".repeat(201))] {
        let path = format!("/v1/search{wrong}");
        let answer = owner.send(owner.operator(Method::GET, &path)).await.unwrap();
        assert_eq!(refusal(&answer), (422, "INVALID_SEARCH".to_owned()), "{wrong}");
    }
    let cli = Cli::of(&world).with("OPERATOR_KEY", key);
    let shown = cli.run(&format!("find {ANNA}")).await;
    assert!(shown.code == 0 && shown.out.contains("/coupons"), "{shown:?}");
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn at_most_twenty_templates_are_found_by_name_and_it_says_that_there_are_more() {
    let world = World::start("search names").await;
    let api = world.api();
    let mut newest = String::new();
    for number in 0..21 {
        let name = format!("Sale {number}");
        let hour = chrono::TimeDelta::hours(1);
        let new = NewTemplate::simple(&name, 1, world.clock.now(), hour);
        newest = api.create(&new).await.unwrap().id.to_string();
    }
    let all = get(api, "/v1/search?q=sale").await;
    let items = all["items"].as_array().unwrap();
    assert_eq!((items.len(), &all["more"]), (20, &json!(true)));
    assert_eq!(items[0]["id"], newest, "the newest first");
    let fewer = get(api, "/v1/search?q=sale%201").await;
    assert_eq!((fewer["items"].as_array().unwrap().len(), &fewer["more"]), (11, &json!(false)));
    // Its id may stand in its own name.
    let named = json!({ "name": format!("Again {newest}"), "version": 1 });
    let path = format!("/v1/templates/{newest}");
    let edited = api.send(api.operator(Method::PATCH, &path).json(&named)).await.unwrap();
    assert_eq!(edited.status, 200, "{}", edited.body);
    assert_eq!(kinds(&found(api, &newest).await), ["template"], "once");
    world.end().await;
}

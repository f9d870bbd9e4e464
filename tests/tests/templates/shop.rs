//! The public shop page, which works whatever happens behind it.

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::{Flavor, OwnDatabase, OwnRedis, Process, TestServers};
use pipeline_tests::{STATE_MAX, World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Claimed, NewTemplate};

async fn page(world: &World, template: TemplateId) -> Answer {
    world.api().shop(template, None).await.unwrap()
}

/// Polls the page until it shows `left`; returns it.
pub(crate) async fn until_left(world: &World, template: TemplateId, left: Value) -> Value {
    let look = async || page(world, template).await.json::<Value>().unwrap();
    until(look, |page| page["left"] == left).await
}

/// Polls the page until it shows `total`; returns it. A process reads a total beside the request that asks for it.
async fn until_total(world: &World, template: TemplateId, total: i64) -> Value {
    let look = async || page(world, template).await.json::<Value>().unwrap();
    until(look, |page| page["total"] == json!(total)).await
}

/// Reads a list as a shop's pages do; `known` is an `ETag` that they have.
async fn list(world: &World, query: &str, known: Option<&str>) -> Answer {
    let request = world.api().anonymous(Method::GET, &format!("/v1/shop/templates{query}"));
    let request = known.into_iter().fold(request, |ask, tag| ask.header("if-none-match", tag));
    world.api().send(request).await.unwrap()
}

/// Returns the ids and states on a page of a list.
fn on(page: &Answer) -> Vec<(String, String)> {
    let page: Value = page.json().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let data = page["data"].as_array().into_iter().flatten();
    data.map(|shown| (text(&shown["id"]), text(&shown["state"]))).collect()
}

fn rows<const N: usize>(rows: [(TemplateId, &str); N]) -> Vec<(String, String)> {
    rows.map(|(id, state)| (id.to_string(), state.to_owned())).into()
}

/// A template whose window opens `days` days from now.
fn opening(world: &World, new: NewTemplate, days: i64) -> NewTemplate {
    let opens = world.clock.now() + TimeDelta::days(days);
    NewTemplate { claim_starts_at: opens, claim_ends_at: opens + TimeDelta::days(1), ..new }
}

#[tokio::test]
async fn a_list_shows_what_is_open_and_what_opens_next_page_by_page_and_nothing_else() {
    let world = World::start("shop list").await;
    let last = world.template(5, |new| opening(&world, new, 3)).await;
    let next = world.template(5, |new| opening(&world, new, 1)).await;
    let open = world.template(1, |new| new).await;
    let paused = world.template(5, |new| new).await;
    world.api().turn(paused, "pause").await.unwrap();
    let draft = NewTemplate::simple("A draft", 5, world.clock.now(), TimeDelta::hours(1));
    world.api().create(&draft).await.unwrap();
    until_left(&world, open, json!(1)).await;
    // Their totals are known from the second answer on.
    let look = async || list(&world, "", None).await.json::<Value>().unwrap();
    let is_known = |page: &Value| {
        page["data"].as_array().unwrap().iter().all(|shown| shown["total"].is_number())
    };
    until(look, is_known).await;

    let shown = rows([(open, "open"), (next, "upcoming"), (last, "upcoming")]);
    let first = list(&world, "", None).await;
    assert_eq!(on(&first), shown);
    let alone: Value = page(&world, open).await.json().unwrap();
    assert_eq!(first.json::<Value>().unwrap()["data"][0], alone, "as the page of it shows it");
    assert_eq!(first.header("cache-control"), Some("public, max-age=1"));
    let mut paged = Vec::new();
    let mut query = "?limit=1&merchant_id=1".to_owned();
    loop {
        let page = list(&world, &query, None).await;
        paged.extend(on(&page));
        let page: Value = page.json().unwrap();
        assert_eq!(page["has_more"], !page["next_cursor"].is_null());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        query = format!("?limit=1&cursor={cursor}");
    }
    assert_eq!(paged, shown);

    let tag = first.header("etag").unwrap().to_owned();
    let again = list(&world, "", Some(&tag)).await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(again.header("etag"), Some(tag.as_str()));
    let anna = world.api().shopper(UserId(1)).unwrap();
    assert_eq!(anna.claim(open, None, 1).await.unwrap().status, 201);
    let changed = async || list(&world, "", Some(&tag)).await;
    let changed = until(changed, |answer| answer.status == 200).await;
    assert_eq!(on(&changed)[0], (open.to_string(), "sold_out".to_owned()));

    world.api().turn(paused, "resume").await.unwrap();
    world.api().turn(open, "end").await.unwrap();
    let shown = rows([(paused, "open"), (next, "upcoming"), (last, "upcoming")]);
    assert_eq!(on(&list(&world, "", None).await), shown);
    // Another merchant's list is its own.
    let made = world.api().operator(Method::POST, "/v1/merchants").json(&json!({ "name": "B" }));
    let other: Value = world.api().send(made).await.unwrap().json().unwrap();
    let key = json!({ "name": "b", "scopes": ["operate"], "merchant_id": other["id"] });
    let made = world.api().operator(Method::POST, "/v1/api-keys").json(&key);
    let key: Value = world.api().send(made).await.unwrap().json().unwrap();
    let new = NewTemplate::simple("Theirs", 5, world.clock.now(), TimeDelta::hours(1));
    let operator = world.api().with_operator_key(key["key"].as_str().unwrap());
    let theirs = operator.publish_new(&new).await.unwrap().id;
    let query = format!("?merchant_id={}", other["id"].as_str().unwrap());
    assert_eq!(on(&list(&world, &query, None).await), rows([(theirs, "open")]));
    assert_eq!(on(&list(&world, "", None).await), shown);
    assert!(on(&list(&world, "?merchant_id=12345", None).await).is_empty());
    world.end().await;
}

#[tokio::test]
async fn a_page_shows_the_template_its_state_and_what_is_left() {
    let world = World::start("shop").await;
    let template = world.template(2, |new| NewTemplate { per_user_limit: 2, ..new }).await;
    let shown = until_left(&world, template, json!(2)).await;
    assert_eq!(shown["id"], template.to_string());
    assert_eq!((&shown["name"], &shown["state"]), (&json!("A sale"), &json!("open")));
    assert_eq!(shown["discount"]["amount_off_minor"], 500);
    assert_eq!((&shown["per_user_limit"], &shown["max_per_claim"]), (&json!(2), &json!(1)));
    assert_eq!((&shown["valid_for_ms"], &shown["opens_in_ms"]), (&json!(3_600_000), &json!(0)));

    let shopper = world.api().shopper(UserId(1)).unwrap();
    for (left, state) in [(1, "open"), (0, "sold_out")] {
        let key = format!("key-{left}");
        assert_eq!(shopper.claim(template, Some(&key), 1).await.unwrap().status, 201);
        assert_eq!(until_left(&world, template, json!(left)).await["state"], state);
    }
    for (verb, state) in [("pause", "paused"), ("resume", "sold_out"), ("end", "ended")] {
        world.api().turn(template, verb).await.unwrap();
        let look = async || page(&world, template).await.json::<Value>().unwrap();
        until(look, |shown| shown["state"] == state).await;
    }
    let over = page(&world, template).await;
    assert_eq!(over.json::<Value>().unwrap()["left"], Value::Null, "nobody can have any");
    assert_eq!(over.header("cache-control"), Some("public, max-age=60"));
    world.end().await;
}

#[tokio::test]
async fn a_page_shows_the_total_before_the_window_and_as_stock_movements_change_it() {
    let world = World::start("shop total").await;
    let api = world.api();
    let later = world.template(70, |new| opening(&world, new, 3)).await;
    until_total(&world, later, 70).await;
    let template = world.template(3, |new| new).await;
    until_total(&world, template, 3).await;
    let anna = api.shopper(UserId(1)).unwrap();
    assert_eq!(anna.claim(template, None, 1).await.unwrap().status, 201);
    let shown = until_left(&world, template, json!(2)).await;
    assert_eq!(shown["total"], 3, "a claim takes nothing from it");
    for (delta, total) in [(5, 8_i64), (-6, 2)] {
        let path = format!("/v1/templates/{template}/stock-movements");
        let moved = api.operator(Method::POST, &path).header("idempotency-key", total.to_string());
        let moved = moved.json(&json!({ "delta": delta, "reason": "test" }));
        let moved = moved.header("if-match", "*");
        let answer = api.send(moved).await.unwrap();
        assert!(answer.status < 300, "{answer:?}");
        let shown = until_total(&world, template, total).await;
        assert_eq!(shown["left"], json!(total - 1), "{shown}");
    }
    let mut mysql = world.mysql().await;
    let total = format!("select total from template_stock where template_id = {template}");
    assert_eq!(mysql_store::verify::number(&mut mysql, &total).await.unwrap(), 2);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_page_that_nothing_changed_on_is_not_sent_again() {
    let world = World::start("shop tags").await;
    let template = world.template(2, |new| new).await;
    until_left(&world, template, json!(2)).await;
    until_total(&world, template, 2).await;
    let first = page(&world, template).await;
    assert_eq!(first.header("cache-control"), Some("public, max-age=1"));
    let tag = first.header("etag").unwrap().to_owned();
    let again = world.api().shop(template, Some(&tag)).await.unwrap();
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(again.header("etag"), Some(tag.as_str()));
    assert_eq!(again.header("cache-control"), Some("public, max-age=1"));
    let shopper = world.api().shopper(UserId(1)).unwrap();
    assert_eq!(shopper.claim(template, None, 1).await.unwrap().status, 201);
    let changed = async || world.api().shop(template, Some(&tag)).await.unwrap();
    let changed = until(changed, |answer| answer.status == 200).await;
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
    world.end().await;
}

#[tokio::test]
async fn before_the_window_a_page_counts_down_and_a_draft_is_nobodys() {
    let world = World::start("shop opens").await;
    let soon = TimeDelta::milliseconds(1_500);
    let far = TimeDelta::days(3);
    for opens_in in [soon, far] {
        let opens = world.clock.now() + opens_in;
        let new = |new| NewTemplate {
            claim_starts_at: opens,
            claim_ends_at: opens + TimeDelta::days(1),
            ..new
        };
        let template = world.template(7, new).await;
        let asked = world.clock.now();
        let shown: Value = page(&world, template).await.json().unwrap();
        let answered = world.clock.now();
        let least = (opens - answered).num_milliseconds().max(0);
        let most = (opens - asked).num_milliseconds().max(0);
        let opens_in_ms = shown["opens_in_ms"].as_i64().unwrap();
        assert!((least..=most).contains(&opens_in_ms), "{least}..={most}: {shown}");
        if opens_in == far {
            assert_eq!((&shown["state"], &shown["left"]), (&json!("upcoming"), &Value::Null));
        } else {
            until_left(&world, template, json!(7)).await;
            let look = async || page(&world, template).await.json::<Value>().unwrap();
            let open = until(look, |shown| shown["state"] == "open").await;
            assert_eq!(open["opens_in_ms"], 0);
        }
    }
    let draft = NewTemplate::simple("A draft", 7, world.clock.now(), TimeDelta::hours(1));
    let draft = world.api().create(&draft).await.unwrap();
    let answer = page(&world, draft.id).await;
    assert_eq!(answer.code().as_deref(), Some("TEMPLATE_NOT_FOUND"), "{answer:?}");
    world.end().await;
}

/// An api that has just started, without the topic and without MySQL, shows a coupon of a template that is over.
async fn shows_coupons_of_a_template_that_it_does_not_know(
    mut world: World,
    database: &mut Process,
    open: TemplateId,
) {
    let ends = world.clock.now() + TimeDelta::seconds(3);
    let over = world.template(1, |new| NewTemplate { claim_ends_at: ends, ..new }).await;
    let anna = world.api().shopper(UserId(1)).unwrap();
    let claimed: Claimed = anna.claim(over, None, 1).await.unwrap().json().unwrap();
    let coupon = claimed.coupons[0].id;
    assert!(anna.until_visible(coupon, STATE_MAX).await.is_some());
    let look = async || page(&world, over).await.json::<Value>().unwrap();
    until(look, |shown| shown["state"] == "closed").await;
    let api = &mut world.platform.apis[0];
    api.stop().await.unwrap();
    api.set_env("KAFKA_BROKERS", "127.0.0.1:1");
    api.spawn().unwrap();
    // Lists are complete without the topic.
    let look = async || {
        let request = world.api().anonymous(Method::GET, "/v1/shop/templates");
        world.api().send(request).await.ok().filter(|listed| listed.status == 200)
    };
    let listed = until(look, Option::is_some).await.unwrap();
    assert_eq!(on(&listed), rows([(open, "open")]));

    database.pause().unwrap();
    let mine = async || {
        let answer = anna.send(anna.request(Method::GET, "/v1/me/coupons")).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        let page: Value = answer.json().unwrap();
        assert_eq!(page["data"][0]["id"], coupon.to_string());
        page["data"][0]["template"].clone()
    };
    assert_eq!(mine().await, Value::Null, "the list does not wait for MySQL");
    database.resume().unwrap();
    until(mine, |template| template["name"] == "A sale").await;
    world.end().await;
}

mod full {
    use super::*;
    use crate::claims::full::epochs::flush;

    #[tokio::test]
    async fn pages_and_lists_need_no_mysql_and_say_what_they_do_not_know() {
        let mut database = OwnDatabase::start("shop-alone", Flavor::Mariadb, &[]).await.unwrap();
        let gate = OwnRedis::gate("shop-alone-gate").await.unwrap();
        let shared = TestServers::shared().with_database(&database.url()).with_gate(&gate.url());
        let world = World::start_on(&shared, "shop alone", |options| options).await;
        let template = world.template(9, |new| new).await;
        until_left(&world, template, json!(9)).await;
        until_total(&world, template, 9).await;
        database.server.pause().unwrap();
        for _ in 0..200 {
            let shown = page(&world, template).await;
            let told: Value = shown.json().unwrap();
            assert_eq!((&told["left"], &told["total"]), (&json!(9), &json!(9)), "{shown:?}");
            let listed = list(&world, "", None).await;
            assert_eq!(listed.json::<Value>().unwrap()["data"][0]["left"], 9, "{listed:?}");
        }
        // The gate loses its data and cannot be reloaded: the page must not show "0 left".
        flush(&gate).await;
        let shown = until_left(&world, template, Value::Null).await;
        assert_eq!(shown["state"], "open");
        database.server.resume().unwrap();
        until_left(&world, template, json!(9)).await;
        shows_coupons_of_a_template_that_it_does_not_know(world, &mut database.server, template)
            .await;
    }
}

//! The public shop page, which works whatever happens behind it.

use std::{fs, io::Write as _, net::TcpStream};

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::{Options, Servers, TestServers, project_root};
use pipeline_tests::{World, until};
use serde_json::{Value, json};
use shopper::{Answer, NewTemplate};

use crate::support::proxy::server_of;

async fn page(world: &World, template: TemplateId) -> Answer {
    world.api().shop(template, None).await.unwrap()
}

/// Polls the page until it shows `left`; returns it.
async fn until_left(world: &World, template: TemplateId, left: Value) -> Value {
    let look = async || page(world, template).await.json::<Value>().unwrap();
    until(look, |page| page["left"] == left).await
}

#[tokio::test]
async fn a_page_shows_the_template_its_state_and_what_is_left() {
    let world = World::start("shop").await;
    let template = world.template(2, |new| NewTemplate { per_user_limit: 2, ..new }).await;
    let shown = until_left(&world, template, json!(2)).await;
    assert_eq!(shown["id"], template.to_string());
    assert_eq!((&shown["name"], &shown["state"]), (&json!("A sale"), &json!("open")));
    assert_eq!(shown["discount"]["value"], 500);
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
async fn a_page_that_nothing_changed_on_is_not_sent_again() {
    let world = World::start("shop tags").await;
    let template = world.template(2, |new| new).await;
    until_left(&world, template, json!(2)).await;
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
    let (soon, far) = (TimeDelta::milliseconds(1_500), TimeDelta::days(3));
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

#[tokio::test]
async fn a_page_needs_no_mysql_and_says_when_it_does_not_know_what_is_left() {
    let dir = project_root().join(".dev/test/shop-alone");
    drop(fs::remove_dir_all(&dir));
    let mut servers = Servers::start(&dir, &Options::default()).await.unwrap();
    let shared = TestServers::private(&servers);
    let world = World::start_on(&shared, "shop alone", |options| options).await;
    let template = world.template(9, |new| new).await;
    until_left(&world, template, json!(9)).await;
    servers.database.pause().unwrap();
    for _ in 0..200 {
        let shown = page(&world, template).await;
        assert_eq!(shown.json::<Value>().unwrap()["left"], 9, "{shown:?}");
    }
    // The gate loses its data and cannot be reloaded: the page must not show "0 left".
    let mut gate = TcpStream::connect(server_of(&servers.endpoints().gate_redis_url)).unwrap();
    gate.write_all(b"FLUSHALL\r\n").unwrap();
    let shown = until_left(&world, template, Value::Null).await;
    assert_eq!(shown["state"], "open");
    servers.database.resume().unwrap();
    until_left(&world, template, json!(9)).await;
    world.end().await;
    servers.stop().await.unwrap();
    fs::remove_dir_all(dir).unwrap();
}

//! The expiry report for operators.

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{NewTemplate, Wish};

const PATH: &str = "/v1/expiry";

async fn look(world: &World) -> Value {
    let api = world.api();
    let answer = api.send(api.operator(Method::GET, PATH)).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json().unwrap()
}

async fn claim(world: &World, template: TemplateId, users: std::ops::RangeInclusive<i64>) {
    let wishes = users.map(|user| Wish::one(template, UserId(user))).collect();
    assert_eq!(world.crowd().run(wishes).await.unwrap().given_up, 0);
}

#[tokio::test]
async fn operators_see_what_is_overdue_how_late_flips_were_and_what_ends_when() {
    let mut world = World::start("expiry report").await;
    let answer = world.api().send(world.api().anonymous(Method::GET, PATH)).await.unwrap();
    assert_eq!(answer.status, 401, "operators only");
    let nothing = look(&world).await;
    assert_eq!(nothing["overdue"], json!({ "coupons": 0, "more": false, "oldest_age_ms": null }));
    let none = json!({ "flips": 0, "p50_ms": null, "p99_ms": null, "max_ms": null });
    assert_eq!(nothing["lateness"], none);

    let valid_for = |valid: TimeDelta| {
        move |new: NewTemplate| NewTemplate { valid_for_ms: valid.num_milliseconds(), ..new }
    };
    let brief = world.template(10, valid_for(TimeDelta::seconds(1))).await;
    let until_tomorrow = world.template(10, valid_for(TimeDelta::minutes(150))).await;
    claim(&world, brief, 1..=6).await;
    claim(&world, until_tomorrow, 1..=4).await;
    world.until(brief, |counts| counts.expired == 6).await;
    let seen = look(&world).await;
    assert_eq!(seen["lateness"]["flips"], 6);
    assert!(seen["lateness"]["max_ms"].as_i64() >= seen["lateness"]["p50_ms"].as_i64());
    let hours: Vec<_> = seen["next_24_hours"].as_array().unwrap().iter().collect();
    let coupons: Vec<_> = hours.iter().map(|hour| hour["coupons"].as_u64().unwrap()).collect();
    assert_eq!((coupons.len(), coupons[2], coupons.iter().sum::<u64>()), (24, 4, 4));

    world.platform.expiry_worker.kill().unwrap();
    claim(&world, brief, 7..=9).await;
    let overdue = until(async || look(&world).await, |seen| seen["overdue"]["coupons"] == 3).await;
    assert!(overdue["overdue"]["oldest_age_ms"].as_i64() >= Some(0), "{overdue}");
    assert_eq!(overdue["lateness"]["flips"], 6);
    world.platform.expiry_worker.start().await.unwrap();
    until(async || look(&world).await, |seen| seen["overdue"]["coupons"] == 0).await;
    world.assert_sound(None).await;
    world.end().await;
}

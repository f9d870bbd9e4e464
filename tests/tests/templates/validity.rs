//! A template's validity changes during claims, and issued coupons follow if requested.

use std::time::Duration;

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use coupon::{CouponStatus, TemplateId, UserId};
use devstack::PlatformOptions;
use mysql_store::{user_coupon::UserCoupon, verify::topic_rows};
use pipeline_tests::{STATE_MAX, World, histories, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Claimed, CouponQuery, Crowd, NewTemplate, Wish};
use verifier::Record;

/// Coupons read at once.
const ROWS: u32 = 10_000;
/// How long a crowd's user retries.
const PATIENCE: Duration = Duration::from_secs(60);
/// Validity that is extended before it ends: many times longer than the move takes.
const OLD_LIFE: TimeDelta = TimeDelta::seconds(10);
/// Validity after the extension.
const NEW_LIFE: TimeDelta = TimeDelta::seconds(20);

async fn patch(world: &World, template: TemplateId, body: &Value) -> Answer {
    let request = world.api().operator(Method::PATCH, &format!("/v1/templates/{template}"));
    world.api().send(request.json(body)).await.unwrap()
}

/// Returns the status and code of a refused change.
async fn refusal(world: &World, template: TemplateId, body: &Value) -> (u16, String) {
    let answer = patch(world, template, body).await;
    (answer.status, answer.code().unwrap_or_default())
}

/// Changes the template's current version; returns the answer.
pub(crate) async fn change(world: &World, template: TemplateId, mut body: Value) -> Value {
    body["version"] = json!(world.api().template(template).await.unwrap().version);
    let answer = patch(world, template, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json().unwrap()
}

/// Path of the progress report on issued coupons.
fn move_path(template: TemplateId) -> String {
    format!("/v1/templates/{template}/validity-move")
}

async fn ask_progress(world: &World, template: TemplateId) -> Answer {
    let request = world.api().operator(Method::GET, &move_path(template));
    world.api().send(request).await.unwrap()
}

async fn progress(world: &World, template: TemplateId) -> Value {
    let answer = ask_progress(world, template).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json().unwrap()
}

async fn until_followed(world: &World, template: TemplateId) -> Value {
    until(async || progress(world, template).await, |now| now["state"] == "finished").await
}

/// Returns every coupon of a template from MySQL.
async fn coupons(world: &World, template: TemplateId) -> Vec<UserCoupon> {
    let mut connection = world.mysql().await;
    let page = topic_rows::coupons_from(&mut connection, 0, ROWS).await.unwrap();
    page.rows.into_iter().filter(|row| row.template_id == template).collect()
}

fn wave(template: TemplateId, users: std::ops::Range<i64>) -> Vec<Wish> {
    users.map(|user| Wish::one(template, UserId(user))).collect()
}

/// Returns the validity's end that a claim's answer promised.
fn promised(record: &Record) -> DateTime<Utc> {
    let body: Value = serde_json::from_str(record.body.as_ref().unwrap()).unwrap();
    body["valid_until"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn coupons_keep_their_end_unless_asked_to_follow_and_a_shortened_one_ends_once() {
    let world = World::start("validity ends").await;
    let draft = NewTemplate::simple("A sale", 100, world.clock.now(), TimeDelta::hours(1));
    let template = world.api().create(&draft).await.unwrap().id;
    let week = TimeDelta::days(7);
    let keep = change(&world, template, json!({ "valid_for_ms": week.num_milliseconds() })).await;
    assert_eq!(keep["issued_coupons"], json!({ "follow": false, "count": 0 }));
    assert_eq!(ask_progress(&world, template).await.status, 404);
    world.api().turn(template, "publish").await.unwrap();
    world.warm_views(1..31).await;
    world.crowd().run(wave(template, 1..21)).await.unwrap();
    let day = TimeDelta::days(1);
    let keep = change(&world, template, json!({ "valid_for_ms": day.num_milliseconds() })).await;
    assert_eq!(keep["issued_coupons"], json!({ "follow": false, "count": 20 }));
    world.crowd().run(wave(template, 21..31)).await.unwrap();
    for row in coupons(&world, template).await {
        let life = if row.user_id.0 <= 20 { week } else { day };
        assert_eq!((row.version, row.valid_until), (1, row.claimed_at + life));
    }
    let used = world.api().shopper(UserId(1)).unwrap();
    let id = used.all_coupons().await.unwrap()[0].id;
    assert_eq!(used.use_coupon(id, "order").await.unwrap().status, 200);

    // All other coupons now end in the past, and their owners no longer see them.
    let body = json!({ "valid_for_ms": 1, "issued_coupons": "follow" });
    assert_eq!(change(&world, template, body).await["issued_coupons"]["count"], 30);
    world.until(template, |counts| (counts.expired, counts.used) == (29, 1)).await;
    world.assert_sound(None).await;
    for row in coupons(&world, template).await {
        let expected =
            if row.user_id.0 == 1 { (CouponStatus::Used, 2) } else { (CouponStatus::Expired, 3) };
        assert_eq!((row.status, row.version), expected, "{row:?}");
    }
    let sleeper = world.api().shopper(UserId(2)).unwrap();
    assert_eq!(sleeper.all_coupons().await.unwrap(), []);
    let query = CouponQuery { status: Some("expired"), ..CouponQuery::default() };
    assert_eq!(sleeper.coupons(&query).await.unwrap().data.len(), 1);
    // Expired coupons stay expired, however far the end is extended.
    let body = json!({ "valid_for_ms": week.num_milliseconds(), "issued_coupons": "follow" });
    change(&world, template, body).await;
    let done = until_followed(&world, template).await;
    assert_eq!((&done["looked_at"], &done["moved"]), (&json!(30), &json!(0)));
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_change_that_cannot_be_is_refused_and_the_same_change_again_is_the_same_answer() {
    let mut world = World::start("validity refusals").await;
    let template = world.template(10, |new| new).await;
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let claimed = shopper.claim(template, Some("key"), 1).await.unwrap();
    let now = world.clock.now();
    for (body, status, expected) in [
        (json!({ "valid_for_ms": 5 }), 428, "PRECONDITION_REQUIRED"),
        (json!({ "version": 2, "valid_for_ms": 5, "name": "" }), 422, "INVALID_TEMPLATE"),
        (json!({ "version": 2, "valid_for_ms": 5, "issued_coupons": 1 }), 400, "MALFORMED_BODY"),
        (json!({ "version": 2 }), 422, "INVALID_TEMPLATE"),
        (json!({ "version": 2, "valid_for_ms": 0 }), 422, "INVALID_TEMPLATE"),
        (json!({ "version": 2, "valid_for_ms": 5, "valid_from": now }), 422, "INVALID_TEMPLATE"),
        (json!({ "version": 2, "valid_from": now, "valid_until": now }), 422, "INVALID_TEMPLATE"),
        (json!({ "version": 1, "valid_for_ms": 5 }), 409, "CHANGED_MEANWHILE"),
        (json!({ "version": i64::MAX, "valid_for_ms": 5 }), 409, "CHANGED_MEANWHILE"),
    ] {
        assert_eq!(refusal(&world, template, &body).await, (status, expected.to_owned()), "{body}");
    }
    let none = refusal(&world, TemplateId(1), &json!({ "version": 1, "valid_for_ms": 5 })).await;
    assert_eq!(none, (404, "TEMPLATE_NOT_FOUND".to_owned()));

    // While coupons are moved, the validity cannot be changed without them.
    world.platform.expiry_worker.stop().await.unwrap();
    let day = json!({ "version": 2, "valid_for_ms": 86_400_000, "issued_coupons": "follow" });
    let first = patch(&world, template, &day).await;
    let again = patch(&world, template, &day).await;
    assert_eq!((first.status, again.status, &first.body), (200, 200, &again.body));
    let keep = json!({ "version": 3, "valid_for_ms": 7_200_000 });
    let refused = refusal(&world, template, &keep).await;
    assert_eq!(refused, (409, "MOVE_UNDER_WAY".to_owned()));
    // Nor can a coupon be replaced: the move could pass over the new one.
    let id = claimed.json::<Claimed>().unwrap().coupons[0].id;
    for (verb, body) in [
        ("extend", json!({ "reason": "x", "valid_until": now + TimeDelta::days(2) })),
        ("replace", json!({ "reason": "x" })),
    ] {
        let request = world.api().operator(Method::POST, &format!("/v1/coupons/{id}/{verb}"));
        let answer = world.api().send(request.json(&body)).await.unwrap();
        assert_eq!((answer.status, answer.code().as_deref()), (409, Some("MOVE_UNDER_WAY")));
    }
    world.platform.expiry_worker.start().await.unwrap();
    until_followed(&world, template).await;
    assert_eq!(patch(&world, template, &keep).await.status, 200);
    assert_eq!(patch(&world, template, &keep).await.status, 200, "the same again");
    // The claim's answer stays as it was given.
    let replay = shopper.claim(template, Some("key"), 1).await.unwrap();
    assert_eq!((replay.replayed, &replay.body), (true, &claimed.body));
    let coupon = shopper.coupon(id).await.unwrap();
    let row = &coupons(&world, template).await[0];
    assert_eq!(coupon.valid_until, row.claimed_at + TimeDelta::days(1));
    world.api().turn(template, "end").await.unwrap();
    let ended = refusal(&world, template, &json!({ "version": 5, "valid_for_ms": 5 })).await;
    assert_eq!(ended, (409, "FIELD_NOT_EDITABLE".to_owned()));
    world.assert_sound(None).await;
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn claims_that_race_a_change_end_as_it_says_whichever_api_they_come_by() {
        let two = |options| PlatformOptions { apis: 2, ..options };
        let world = World::start_with("validity race", two).await;
        let template = world.template(3_000, |new| new).await;
        world.warm_views(1..20).await;
        let crowd = world.crowd();
        let wishes = wave(template, 1..2_001);
        let running = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
        world.until(template, |counts| counts.all() >= 100).await;
        let from = world.clock.now().trunc_subsecs(3) - TimeDelta::hours(1);
        let end = from + TimeDelta::hours(3);
        let body = json!({ "valid_from": from, "valid_until": end, "issued_coupons": "follow" });
        let changed = change(&world, template, body).await;
        let issued = &changed["issued_coupons"];
        let path = json!(move_path(template));
        assert_eq!((&issued["follow"], &issued["progress"]), (&json!(true), &path));
        let before = issued["count"].as_i64().unwrap();
        assert!(before >= 100, "{issued}");
        // The crowd claims at the api that may not know of the change yet.
        let crowd = Crowd::new(world.apis[1..].to_vec(), 64, PATIENCE);
        let after = crowd.run(wave(template, 2_001..2_201)).await.unwrap();
        let first = running.await.unwrap();
        let answered: Vec<_> =
            after.history.records.iter().filter(|one| one.status == Some(201)).collect();
        assert_eq!(answered.len(), 200);
        assert!(
            answered.iter().all(|record| promised(record) == end),
            "an answer had the old validity"
        );

        let done = until_followed(&world, template).await;
        assert_eq!((&done["total"], &done["moved"]), (&json!(before), &json!(before)), "{done}");
        let rows = coupons(&world, template).await;
        assert_eq!(rows.len(), 2_200);
        assert!(rows.iter().all(|row| (row.valid_from, row.valid_until) == (from, end)));
        let moved = rows.iter().filter(|row| row.version == 2).count();
        assert_eq!(moved, usize::try_from(before).unwrap());
        assert_eq!(rows.iter().filter(|row| row.version == 1).count(), 2_200 - moved);
        world.assert_sound(Some(&histories(vec![first, after]))).await;
        for user in 1..20 {
            let listed = world.api().shopper(UserId(user)).unwrap().all_coupons().await.unwrap();
            assert!(listed.iter().all(|coupon| coupon.valid_until == end) && listed.len() == 1);
        }
        world.end().await;
    }

    #[tokio::test]
    async fn coupons_whose_end_is_put_off_outlive_the_old_one_and_end_once_at_the_new_one() {
        let world = World::start("validity put off").await;
        let soon = |new| NewTemplate { valid_for_ms: OLD_LIFE.num_milliseconds(), ..new };
        let template = world.template(20, soon).await;
        world.warm_views(1..6).await;
        world.crowd().run(wave(template, 1..21)).await.unwrap();
        let body =
            json!({ "valid_for_ms": NEW_LIFE.num_milliseconds(), "issued_coupons": "follow" });
        change(&world, template, body).await;
        until_followed(&world, template).await;
        let rows = coupons(&world, template).await;
        let follows = |row: &UserCoupon| {
            (row.status, row.valid_until) == (CouponStatus::Unused, row.claimed_at + NEW_LIFE)
        };
        assert!(rows.len() == 20 && rows.iter().all(follows), "before the old end: {rows:?}");

        // The timers of the old end fire, and find nothing.
        let old_end = rows.iter().map(|row| row.claimed_at + OLD_LIFE).max().unwrap();
        until(async || world.clock.now(), |now| *now > old_end + TimeDelta::milliseconds(500))
            .await;
        let counts = world.count(template).await;
        assert_eq!((counts.unused, counts.due), (20, 0));
        for user in 1..6 {
            let listed = world.api().shopper(UserId(user)).unwrap().all_coupons().await.unwrap();
            assert_eq!(listed.len(), 1);
            assert!(listed[0].valid_until > old_end + TimeDelta::seconds(1), "{listed:?}");
        }
        world.until(template, |counts| counts.expired == 20).await;
        for row in coupons(&world, template).await {
            let ended = (row.status, row.version, row.valid_until);
            assert_eq!(ended, (CouponStatus::Expired, 3, row.claimed_at + NEW_LIFE), "{row:?}");
            assert!(row.changed_at >= row.valid_until, "{row:?}");
        }
        world.assert_sound(None).await;
        world.end().await;
    }

    #[tokio::test]
    async fn workers_killed_in_the_middle_of_a_chunk_leave_it_to_the_next_and_move_each_coupon_once()
     {
        let mut world = World::start("validity kills").await;
        let template = world.template(1_500, |new| new).await;
        world.crowd().run(wave(template, 1..1_501)).await.unwrap();
        for user in 1..=10 {
            let shopper = world.api().shopper(UserId(user)).unwrap();
            let id = shopper.all_coupons().await.unwrap()[0].id;
            assert_eq!(shopper.use_coupon(id, "order").await.unwrap().status, 200);
        }
        world.platform.expiry_worker.stop().await.unwrap();
        let week = TimeDelta::days(7);
        let body = json!({ "valid_for_ms": week.num_milliseconds(), "issued_coupons": "follow" });
        change(&world, template, body).await;
        // The first worker moves a chunk and dies in the second; the next one dies right after committing that one.
        for (point, looked_at) in [("before_commit=kill#2", 512), ("after_commit=kill", 1_024)] {
            let worker = &mut world.platform.expiry_worker;
            worker.set_env("FAIL_POINTS", &format!("validity_move.{point}"));
            worker.spawn().unwrap();
            worker.wait_exit(STATE_MAX).await.unwrap();
            let state = progress(&world, template).await;
            assert_eq!(
                (&state["looked_at"], &state["state"]),
                (&json!(looked_at), &json!("under_way"))
            );
            assert!(state["started_at"].is_string() && state["ended_at"].is_null(), "{state}");
            let moved = coupons(&world, template).await;
            let moved = moved.iter().filter(|row| row.valid_until == row.claimed_at + week).count();
            assert_eq!(moved, looked_at - 10);
        }
        world.platform.expiry_worker.set_env("FAIL_POINTS", "");
        world.platform.expiry_worker.start().await.unwrap();
        let done = until_followed(&world, template).await;
        assert_eq!((&done["looked_at"], &done["moved"]), (&json!(1_500), &json!(1_490)), "{done}");
        for row in coupons(&world, template).await {
            let end = if row.status == CouponStatus::Used { TimeDelta::hours(1) } else { week };
            assert_eq!((row.version, row.valid_until), (2, row.claimed_at + end), "{row:?}");
        }
        world.assert_sound(None).await;
        world.end().await;
    }
}

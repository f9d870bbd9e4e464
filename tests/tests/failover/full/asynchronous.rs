//! Without semi-synchronous replication, the new primary lacks the newest commits. Redis does not.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use coupon::{ClaimId, TemplateId, UserId};
use devstack::{Flavor, Replication};
use pipeline_tests::{World, failover::DatabasePair, until, until_within};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Claimed, NewTemplate};
use std::time::Duration;
use testkit::sql;

/// Idempotency key of every claim.
pub(crate) const KEY: &str = "the-key";

/// How long the search in the topic may take: it begins 15 s behind the promotion, and waits for the views' consumer.
const SEARCHED_WITHIN: Duration = Duration::from_secs(120);

/// How long a gate may stay closed behind a promotion.
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// Claims one coupon until there is a definite answer.
pub(crate) async fn claim(world: &World, template: TemplateId, user: i64) -> Answer {
    let shopper = world.api().shopper(UserId(user)).unwrap();
    let claim = async || shopper.claim(template, Some(KEY), 1).await;
    let is_heard =
        |answer: &Result<Answer, _>| matches!(answer, Ok(answer) if !answer.is_passing());
    until_within(OPEN_WITHIN, claim, is_heard).await.unwrap()
}

pub(crate) async fn won(
    world: &World,
    template: TemplateId,
    users: std::ops::Range<i64>,
) -> BTreeSet<ClaimId> {
    let mut ids = BTreeSet::new();
    for user in users {
        let answer = claim(world, template, user).await;
        assert_eq!(answer.status, 201, "user {user}: {answer:?}");
        ids.insert(answer.json::<Claimed>().unwrap().id);
    }
    ids
}

pub(crate) fn numbers(database_url: &str, query: &str) -> BTreeSet<ClaimId> {
    sql(database_url, query).lines().map(|line| ClaimId(line.trim().parse().unwrap())).collect()
}

/// Waits until the gate knows that these claims have landed.
async fn until_settled(world: &World, template: TemplateId) {
    let in_flight = async || {
        let gate = &world.sources.gate;
        let meta = gate.meta(template).await.unwrap().unwrap();
        gate.in_flight(template, meta.epoch, world.clock.now(), 0, 1)
            .await
            .unwrap()
            .admissions
            .len()
    };
    until(in_flight, |count| *count == 0).await;
}

testkit::on_each_flavor! {
    multi_thread named_and_sold_again:
    without_semi_sync_every_lost_201_is_named_and_its_unit_is_sold_again,
    without_semi_sync_of_mysql_every_lost_201_is_named_and_its_unit_is_sold_again,
}

async fn named_and_sold_again(flavor: Flavor) {
    let pair = DatabasePair::start("failover-async", flavor, Replication::Asynchronous).await;
    let Some(mut pair) = pair else { return };
    let world = pair.world("failover async", |_| ()).await;
    let url = world.scope.endpoints.database_url.clone();
    let template = world.template(30, |new| new).await;
    let kept = won(&world, template, 0..10).await;
    pair.until_replicated();
    pair.cut_replication();
    let lost = won(&world, template, 10..20).await;
    until_settled(&world, template).await;

    pair.fail_over();
    // A user whose coupon is lost gets one by the same key, under another id.
    let again = won(&world, template, 10..20).await;
    assert!(again.is_disjoint(&lost));
    let named = async || numbers(&url, "select claim_id from lost_claim");
    until(named, |named| *named == lost).await;
    let rows = numbers(&url, "select id from claim where state = 1");
    assert_eq!(rows, &kept | &again);
    // Their units are sold again, and no unit twice.
    let rest = won(&world, template, 20..30).await;
    assert_eq!(rest.len(), 10);
    let answer = claim(&world, template, 30).await;
    assert_eq!(answer.code().as_deref(), Some("SOLD_OUT"));
    assert_eq!(world.count(template).await.all(), 30);
    for user in 0..30 {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        assert_eq!(shopper.all_coupons().await.unwrap().len(), 1, "user {user}");
    }
    let told = async || {
        let api = &world.platform.apis[0];
        api.metric("coupon_lost_claims_total").await.unwrap_or(0.0)
    };
    assert!((told().await - 10.0).abs() < 0.5);
    world.end().await;
}

testkit::on_each_flavor! {
    multi_thread told_so:
    a_winner_whose_commit_was_lost_is_told_so,
    #[ignore = "of what a MySQL lost, lost claims and uses are tried; ./dev soak mysql"]
    a_winner_whose_commit_a_mysql_lost_is_told_so,
}

async fn told_so(flavor: Flavor) {
    let pair = DatabasePair::start("failover-told", flavor, Replication::Asynchronous).await;
    let Some(mut pair) = pair else { return };
    let world = pair.world("failover told", |_| ()).await;
    let template = world.template(30, |new| new).await;
    pair.until_replicated();
    pair.cut_replication();
    let lost = won(&world, template, 7..8).await;
    let lost = *lost.first().unwrap();
    until_settled(&world, template).await;
    pair.fail_over();
    let shopper = world.api().shopper(UserId(7)).unwrap();
    let poll = async || shopper.poll(lost, template).await;
    let is_definite = |answer: &Result<Answer, _>| matches!(answer, Ok(answer) if answer.status == 200 || answer.status == 404);
    let answer = until_within(OPEN_WITHIN, poll, is_definite).await.unwrap();
    let body: Value = answer.json().unwrap();
    let expected = json!({ "status": "rejected", "code": "ADMISSION_LOST", "retryable": true });
    assert_eq!((answer.status, body), (200, expected));
    let api = world.api();
    let look = api.operator(Method::GET, &format!("/v1/claim-states/{lost}?template={template}"));
    let state: Value = api.send(look).await.unwrap().json().unwrap();
    assert_eq!((&state["status"], &state["user_id"]), (&json!("lost"), &json!("7")), "{state}");
    assert!(shopper.all_coupons().await.unwrap().is_empty());
    // Others learn nothing of it.
    let other = api.shopper(UserId(8)).unwrap().poll(lost, template).await.unwrap();
    assert_eq!(other.status, 404, "{other:?}");
    assert_eq!(won(&world, template, 7..8).await.len(), 1);
    world.end().await;
}

testkit::on_each_flavor! {
    multi_thread epoch_lost:
    a_gate_whose_epoch_mysql_lost_opens_again,
    #[ignore = "of what a MySQL lost, lost claims and uses are tried; ./dev soak mysql"]
    a_gate_whose_epoch_a_mysql_server_lost_opens_again,
}

/// The gates are rebuilt in what is lost, several times, so they are ahead of the new primary.
async fn epoch_lost(flavor: Flavor) {
    const REBUILDS: i64 = 5;
    let pair = DatabasePair::start("failover-epoch", flavor, Replication::Asynchronous).await;
    let Some(mut pair) = pair else { return };
    let world = pair.world("failover epoch", |_| ()).await;
    let api = world.api();
    let direct = world.template(100, |new| new).await;
    let queued = world.template(100, |new| new.in_mode("queued", "topic")).await;
    won(&world, direct, 0..5).await;
    pair.until_replicated();
    pair.cut_replication();
    for template in [direct, queued] {
        for _ in 0..REBUILDS {
            let before = epoch_of_gate(&world, template).await;
            let path = format!("/v1/templates/{template}/gate-rebuild");
            let answer = api.send(api.operator(Method::POST, &path)).await.unwrap();
            assert_eq!(answer.status, 200, "{answer:?}");
            until(async || epoch_of_gate(&world, template).await, |now| *now > before).await;
        }
    }
    won(&world, direct, 5..10).await;
    pair.fail_over();
    won(&world, direct, 10..20).await;
    for user in 0..10 {
        let answer = claim(&world, queued, user).await;
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    // What was queued behind the promotion lands.
    world.until(queued, |coupons| coupons.all() == 10).await;
    assert_eq!(world.count(direct).await.all(), 15);
    world.end().await;
}

async fn epoch_of_gate(world: &World, template: TemplateId) -> i64 {
    world.sources.gate.meta(template).await.unwrap().map_or(0, |meta| meta.epoch.0)
}

testkit::on_each_flavor! {
    multi_thread changes_lost:
    what_operators_changed_and_mysql_lost_is_gone_from_the_gate_too,
    #[ignore = "of what a MySQL lost, lost claims and uses are tried; ./dev soak mysql"]
    what_operators_changed_and_a_mysql_server_lost_is_gone_from_the_gate_too,
}

async fn changes_lost(flavor: Flavor) {
    let pair = DatabasePair::start("failover-changes", flavor, Replication::Asynchronous).await;
    let Some(mut pair) = pair else { return };
    let world = pair.world("failover changes", |_| ()).await;
    let api = world.api();
    let paused = world.template(10, |new| new).await;
    let topped_up = world.template(3, |new| new).await;
    pair.until_replicated();
    pair.cut_replication();
    api.turn(paused, "pause").await.unwrap();
    let path = format!("/v1/templates/{topped_up}/stock-movements");
    let add = async |key: &str, delta: i64| {
        let add = api.operator(Method::POST, &path).header("idempotency-key", key);
        let add = add.header("if-match", "*").json(&json!({ "delta": delta, "reason": "a test" }));
        api.send(add).await.unwrap()
    };
    assert_eq!(add("lost", 1_000).await.status, 201);
    assert_eq!(claim(&world, paused, 1).await.code().as_deref(), Some("PAUSED"));
    pair.fail_over();
    let claims = async || claim(&world, paused, 1).await;
    until_within(OPEN_WITHIN, claims, |answer| answer.status == 201).await;
    // The lost movement's number is used again.
    let moved = async || add("kept", 2).await;
    until_within(OPEN_WITHIN, moved, |answer| matches!(answer.status, 200 | 201)).await;
    won(&world, topped_up, 0..5).await;
    let sold_out = claim(&world, topped_up, 5).await;
    assert_eq!(sold_out.code().as_deref(), Some("SOLD_OUT"), "{sold_out:?}");
    assert_eq!(world.count(topped_up).await.all(), 5);
    world.end().await;
}

testkit::on_each_flavor! {
    multi_thread use_lost:
    a_use_that_mysql_lost_is_counted_and_no_list_shows_it,
    a_use_that_a_mysql_server_lost_is_counted_and_no_list_shows_it,
}

/// The view has what the tailer published of the lost history.
async fn use_lost(flavor: Flavor) {
    let pair = DatabasePair::start("failover-use", flavor, Replication::Asynchronous).await;
    let Some(mut pair) = pair else { return };
    let world = pair.world("failover use", |_| ()).await;
    let template = world.template(10, |new| new).await;
    won(&world, template, 1..2).await;
    let claimed: Claimed = claim(&world, template, 2).await.json().unwrap();
    let coupon = claimed.coupons[0].id;
    // Lists show what can be used.
    let usable = async |user: i64| {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        shopper.all_coupons().await.unwrap().len()
    };
    until(async || usable(2).await, |count| *count == 1).await;
    pair.until_replicated();
    pair.cut_replication();
    let lost = world.api().shopper(UserId(2)).unwrap();
    assert_eq!(lost.use_coupon(coupon, "an-order").await.unwrap().status, 200);
    until(async || usable(2).await, |count| *count == 0).await;
    won(&world, template, 3..4).await;
    until(async || usable(3).await, |count| *count == 1).await;

    pair.fail_over();
    let api = &world.platform.apis[0];
    let changes = async || api.metric("api_lost_changes_total").await.unwrap_or(0.0);
    until_within(SEARCHED_WITHIN, changes, |count| *count > 1.5).await;
    assert!(changes().await < 2.5, "a use and a coupon");
    let searched = "select searched from primary_server";
    let is_searched = async || sql(&world.scope.endpoints.database_url, searched);
    until_within(SEARCHED_WITHIN, is_searched, |searched| searched.trim() == "1").await;
    let shown = [usable(1).await, usable(2).await, usable(3).await];
    assert_eq!(shown, [1, 1, 0]);
    // It is used once more, under the same version as the lost use.
    assert_eq!(lost.use_coupon(coupon, "an-order").await.unwrap().status, 200);
    until(async || usable(2).await, |count| *count == 0).await;
    assert_eq!(world.count(template).await.used, 1);
    world.end().await;
}

/// Its gate would be removed, and the topic does not have its last claims.
#[tokio::test(flavor = "multi_thread")]
async fn claims_of_a_sale_that_ended_in_the_lost_minute_are_named() {
    let name = "failover-ended";
    let pair = DatabasePair::start(name, Flavor::Mariadb, Replication::Asynchronous).await;
    let mut pair = pair.unwrap();
    let mut world = pair.world("failover ended", |_| ()).await;
    let ends = world.clock.now() + TimeDelta::seconds(15);
    let template = world.template(30, |new| NewTemplate { claim_ends_at: ends, ..new }).await;
    world.platform.cdc_tailer.kill().unwrap();
    pair.until_replicated();
    pair.cut_replication();
    let lost = won(&world, template, 1..5).await;
    until_settled(&world, template).await;
    let page = async || world.api().shop(template, None).await.unwrap();
    let state = async || page().await.json::<Value>().unwrap()["state"].clone();
    until_within(OPEN_WITHIN, state, |state| *state == "closed").await;
    pair.fail_over();
    let url = world.scope.endpoints.database_url.clone();
    let named = async || numbers(&url, "select claim_id from lost_claim");
    until_within(OPEN_WITHIN, named, |named| *named == lost).await;
    world.platform.cdc_tailer.start().await.unwrap();
    world.end().await;
}

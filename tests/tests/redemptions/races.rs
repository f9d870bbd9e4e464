//! Redemption, rollback, lock and expiry meet at a barrier; MySQL's rows show who won.

use std::sync::Arc;

use chrono::TimeDelta;
use coupon::{CouponId, TemplateId, UserId};
use devstack::{Flavor, PlatformOptions};
use futures::future::join_all;
use mysql_store::verify;
use pipeline_tests::World;
use serde_json::{Value, json};
use shopper::{Answer, Claimed, NewTemplate};
use tokio::sync::Barrier;

use crate::redemptions::orders::{order, outcome, post, redeem};

/// Rounds of each race.
const ROUNDS: i64 = 12;

/// Requests at one moment.
const AT_ONCE: usize = 6;

/// How long before its deadline a coupon is redeemed: about as long as a redemption takes.
const NEAR: TimeDelta = TimeDelta::milliseconds(10);

/// Sends requests at one moment, in turn to both apis.
pub(crate) async fn at_once(world: &World, requests: &[(String, Value)]) -> Vec<Answer> {
    let barrier = Arc::new(Barrier::new(requests.len()));
    join_all(requests.iter().enumerate().map(|(number, (path, body))| {
        let api = &world.apis[number % 2];
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            post(api, path, body).await
        }
    }))
    .await
}

/// Claims a coupon of each template for a user.
pub(crate) async fn claimed<const N: usize>(
    world: &World,
    templates: [TemplateId; N],
    user: i64,
) -> [CouponId; N] {
    let shopper = world.api().shopper(UserId(user)).unwrap();
    let mut coupons = Vec::new();
    for template in templates {
        let claimed: Claimed = shopper.claim(template, None, 1).await.unwrap().json().unwrap();
        coupons.push(claimed.coupons[0].id);
    }
    coupons.try_into().unwrap()
}

pub(crate) async fn number(world: &World, sql: &str) -> i64 {
    verify::number(&mut world.mysql().await, sql).await.unwrap()
}

pub(crate) fn redemption(name: &str, coupons: &[CouponId]) -> (String, Value) {
    ("/v1/redemptions".to_owned(), order(name, 1_000, coupons))
}

/// A use of one coupon, as a shop sends it that computes discounts itself.
fn single(name: &str, coupon: CouponId, user: i64) -> (String, Value) {
    let body = json!({ "user_id": user.to_string(), "order_ref": name });
    (format!("/v1/coupons/{coupon}/use"), body)
}

pub(crate) fn cancellation(name: &str) -> (String, Value) {
    (format!("/v1/redemptions/{name}/rollback"), json!({ "reason": "a race" }))
}

pub(crate) fn won(answers: &[Answer]) -> usize {
    answers.iter().filter(|answer| answer.status < 300).count()
}

async fn exclusion(flavor: Flavor) {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let started = World::start_on_flavor(flavor, "single uses", two).await;
    let Some(world) = started else { return };
    let templates = [world.template(99, |new| new).await, world.template(99, |new| new).await];
    let alone = world.template(99, |new| NewTemplate { stackable: false, ..new }).await;
    let mut coupons = Vec::new();
    for user in 1..=ROUNDS {
        coupons.push((user, claimed(&world, [templates[0], templates[1], alone], user).await));
    }
    // One new name for the uses of many users: each succeeds, however many find that the order has no row.
    let all: Vec<_> =
        coupons.iter().map(|(user, [first, ..])| single("shared", *first, *user)).collect();
    let answers = at_once(&world, &all).await;
    assert_eq!(won(&answers), all.len(), "{answers:?}");
    let back =
        post(world.api(), "/v1/redemptions/shared/rollback", &json!({ "reason": "r" })).await;
    assert_eq!(back.json::<Value>().unwrap()["coupons"].as_array().unwrap().len(), all.len());
    for (user, coupons) in coupons {
        meet(&world, user, coupons).await;
    }
    let orders = "select count(*) from (select order_ref from redemption where kind = 1";
    let mixed = "group by order_ref having count(distinct amount is null) > 1) mixed";
    assert_eq!(number(&world, &format!("{orders} {mixed}")).await, 0, "in one way, not in both");
    let beside = "and order_ref like 'alone-%' group by order_ref having count(*) > 1) beside";
    assert_eq!(number(&world, &format!("{orders} {beside}")).await, 0, "it bears no others");
    let stands = "select count(*) from redemption made left join redemption undone \
                  on undone.undoes = made.id where made.kind = 1 and undone.id is null";
    assert_eq!(number(&world, stands).await, 0, "every order was cancelled");
    world.assert_sound(None).await;
    world.end().await;
}

/// Calls for one order that exclude each other, each sent twice at once. Every order is cancelled in the end.
async fn meet(world: &World, user: i64, [first, second, alone]: [CouponId; 3]) {
    let name = |what: &str| format!("{what}-{user}");
    for (order, one, other, refused) in [
        (name("ways"), redemption(&name("ways"), &[first]), second, "ORDER_REDEEMED"),
        (name("alone"), single(&name("alone"), alone, user), first, "NOT_STACKABLE"),
    ] {
        let other = single(&order, other, user);
        let answers = at_once(world, &[one.clone(), one, other.clone(), other]).await;
        let winners = (won(&answers[..2]), won(&answers[2..]));
        assert!(matches!(winners, (2, 0) | (0, 2)), "{answers:?}");
        let is_known = |answer: &Answer| answer.status < 300 || outcome(answer).1 == refused;
        assert!(answers.iter().all(is_known), "{answers:?}");
        let (path, body) = cancellation(&order);
        assert_eq!(post(world.api(), &path, &body).await.status, 200);
    }
    let never = redemption(&name("never"), &[alone, first]);
    for answer in at_once(world, &vec![never; AT_ONCE]).await {
        assert_eq!(outcome(&answer), (409, "NOT_STACKABLE".to_owned()), "each is told why");
    }
    let order = name("cancelled");
    let cancel = cancellation(&order);
    let one = single(&order, first, user);
    let other = single(&order, second, user);
    let answers = at_once(world, &[cancel.clone(), one, other, cancel]).await;
    assert_eq!((answers[0].status, &answers[0].body), (200, &answers[3].body));
    let is_known = |answer: &Answer| answer.status == 200 || outcome(answer).1 == "ORDER_CANCELLED";
    assert!(answers.iter().all(is_known), "{answers:?}");
}

#[tokio::test]
async fn a_lock_a_redemption_and_the_deadline_have_one_winner() {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let world = World::start_with("redemption lock races", two).await;
    let lasting = world.template(99, |new| new).await;
    let mut locked = 0;
    for user in 1..=ROUNDS {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let claimed: Claimed = shopper.claim(lasting, None, 1).await.unwrap().json().unwrap();
        let kept = claimed.coupons[0].id;
        let lock = json!({ "order_ref": format!("locks-{user}"), "for_ms": 600_000 });
        let lock = (format!("/v1/coupons/{kept}/lock"), lock);
        let answers = at_once(&world, &[lock, redemption(&format!("{user}"), &[kept])]).await;
        assert_eq!(won(&answers), 1, "{answers:?}");
        locked += i64::from(answers[0].status == 200);
    }
    assert_eq!(world.count(lasting).await.used, ROUNDS - locked);
    let locks = "select count(*) from coupon_lock";
    assert_eq!(number(&world, locks).await, locked);
    let valid_for_ms = 1_200;
    let brief = world.template(99, |new| NewTemplate { valid_for_ms, ..new }).await;
    let ends = join_all((1..=ROUNDS).map(|user| end_of_one(&world, brief, user))).await;
    let counts = world.until(brief, |counts| counts.unused == 0).await;
    let redeemed = ends.iter().filter(|redeemed| **redeemed).count();
    assert_eq!(
        (counts.used, counts.used + counts.expired),
        (i64::try_from(redeemed).unwrap(), ROUNDS)
    );
    let stands = format!(
        "select count(*) from redemption made left join redemption undone on undone.undoes = made.id \
         where made.template_id = {brief} and made.kind = 1 and undone.id is null"
    );
    assert_eq!(number(&world, &stands).await, counts.used);
    world.assert_sound(None).await;
    world.end().await;
}

/// Claims a coupon and redeems it twice for one order just before its deadline. Returns whether it was redeemed.
async fn end_of_one(world: &World, template: TemplateId, user: i64) -> bool {
    let shopper = world.api().shopper(UserId(user)).unwrap();
    let claimed: Claimed = shopper.claim(template, None, 1).await.unwrap().json().unwrap();
    let near = claimed.valid_until - NEAR;
    pipeline_tests::until(async || world.clock.now(), |now| *now >= near).await;
    let one = redemption(&format!("end-{user}"), &[claimed.coupons[0].id]);
    let answers = at_once(world, &[one.clone(), one]).await;
    let ended = |answer: &Answer| answer.status == 201 || outcome(answer).1 == "COUPON_EXPIRED";
    assert!(answers.iter().all(ended), "{answers:?}");
    won(&answers) > 0
}

mod full {
    use super::*;

    #[tokio::test]
    async fn of_orders_at_once_one_has_both_coupons_and_equal_requests_are_one() {
        let two = |options| PlatformOptions { apis: 2, ..options };
        let world = World::start_with("redemption races", two).await;
        let templates = [world.template(99, |new| new).await, world.template(99, |new| new).await];
        for user in 1..=ROUNDS {
            let coupons = claimed(&world, templates, user).await;
            let reversed = [coupons[1], coupons[0]];
            // Different orders for the same coupons, named both ways round.
            let race: Vec<_> = (0..AT_ONCE)
                .map(|at| {
                    redemption(
                        &format!("{user}-{at}"),
                        if at % 2 == 0 { &coupons } else { &reversed },
                    )
                })
                .collect();
            let answers = at_once(&world, &race).await;
            assert_eq!(won(&answers), 1, "{answers:?}");
            let winner = answers.iter().position(|answer| answer.status == 201).unwrap();
            assert!(
                answers
                    .iter()
                    .all(|answer| answer.status == 201 || outcome(answer).1 == "COUPON_USED"),
                "{answers:?}"
            );
            // The winner's request again and again, at once.
            let again = vec![race[winner].clone(); AT_ONCE];
            for answer in at_once(&world, &again).await {
                assert_eq!((answer.status, &answer.body), (201, &answers[winner].body));
            }
            // The cancellation meets a repetition: whichever is first, the coupons end given back.
            let cancel = cancellation(&format!("{user}-{winner}"));
            let mut race = again[..2].to_vec();
            race.extend([cancel.clone(), cancel]);
            let answers = at_once(&world, &race).await;
            assert_eq!((answers[2].status, &answers[2].body), (200, &answers[3].body));
            assert_eq!(outcome(&redeem(world.api(), &race[0].1).await).1, "ORDER_CANCELLED");
        }
        let used = world.count(templates[0]).await.used + world.count(templates[1]).await.used;
        assert_eq!(used, 0);
        let rows = |kind: i64| format!("select count(*) from redemption where kind = {kind}");
        assert_eq!(number(&world, &rows(1)).await, 2 * ROUNDS, "a row a coupon, and no more");
        assert_eq!(number(&world, &rows(2)).await, 2 * ROUNDS);
        world.assert_sound(None).await;
        world.end().await;
    }

    testkit::on_each_flavor! {
        exclusion:
        single_uses_of_an_order_and_what_excludes_them_have_one_winner,
        single_uses_of_an_order_on_mysql_and_what_excludes_them_have_one_winner,
    }
}

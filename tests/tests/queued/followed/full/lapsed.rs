//! A receipt serves seven days, as long as the topic keeps a claim that does not land; the key serves longer.

use chrono::TimeDelta;
use coupon::UserId;
use devstack::FakeClock;
use pipeline_tests::{
    World,
    promises::{Ends, Promises},
};
use reqwest::Method;
use shopper::NewTemplate;

use crate::queued::{KEY, accepted, after_topic, assert_sold, shopper, two_apis};

/// Age in seconds at which a receipt lapses, and a distance from it that no test takes.
const LAPSES: i64 = 7 * 24 * 60 * 60;
const FAR: i64 = 60 * 60;

/// Validity of the token: longer than any clock is off.
const TOKEN_DAYS: i64 = 30;

/// A month, for a sale that is open by every clock.
const MONTH_MS: i64 = 30 * 24 * 60 * 60 * 1_000;

#[tokio::test]
async fn a_receipt_that_has_lapsed_is_refused_and_its_key_is_answered() {
    let mut world = World::start_queued_with("lapsed receipts", two_apis).await;
    let clock = FakeClock::new(&world.platform.options.dir.join("own-clock")).unwrap();
    clock.give(&mut world.platform.apis[1]);
    world.platform.apis[1].restart().await.unwrap();
    let month = |new: NewTemplate| {
        let claim_ends_at = new.claim_starts_at + TimeDelta::milliseconds(MONTH_MS);
        after_topic(NewTemplate { claim_ends_at, valid_for_ms: MONTH_MS, ..new })
    };
    let template = world.template(10, month).await;
    let mut promises = Promises::default();
    // One has landed by then, and one waits.
    let landed = accepted(&mut promises, &shopper(&world, 0, 1), template).await;
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(1));
    world.platform.lander.pause().unwrap();
    let waits = accepted(&mut promises, &shopper(&world, 0, 2), template).await;
    let life = TimeDelta::days(TOKEN_DAYS);
    let [of_landed, of_waits] =
        [1, 2].map(|user| world.apis[1].shopper_until(UserId(user), life).unwrap());

    clock.set(LAPSES - FAR).unwrap();
    assert_eq!(of_landed.look(&landed).await.unwrap().status, 200);
    assert_eq!(of_waits.look(&waits).await.unwrap().status, 202);
    clock.set(LAPSES + FAR).unwrap();
    for (anna, claim) in [(&of_landed, &landed), (&of_waits, &waits)] {
        for path in [claim.location.clone(), claim.events()] {
            let refused = anna.send(anna.request(Method::GET, &path)).await.unwrap();
            let said = (refused.status, refused.code());
            assert_eq!(said, (422, Some("RECEIPT_INVALID".to_owned())), "{path}: {refused:?}");
            assert!(refused.body.contains("older than 7 days"), "it says why: {refused:?}");
        }
    }
    clock.set(0).unwrap();
    world.platform.lander.resume().unwrap();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(2));
    for user in [1, 2] {
        let again = promises.insist(&shopper(&world, 1, user), template, Some(KEY), 1).await;
        assert_eq!((again.status, again.replayed), (201, true), "{again:?}");
    }
    assert_sold(&world, template, 2).await;
    world.end().await;
}

//! An api whose clock is wrong refuses no payment for good, and takes none.

use devstack::FakeClock;
use pipeline_tests::{World, until};

use crate::{
    desk::refusal,
    holds::{LONG, claimed, number, returns},
};

/// How far the api's clock is ahead, in seconds: beyond every hold.
const AHEAD: i64 = 3_600;

#[tokio::test]
async fn an_api_whose_clock_is_ahead_is_unsure_of_a_hold_and_a_right_one_confirms_it() {
    let mut world = World::start("hold clock").await;
    let clock = FakeClock::new(&world.platform.options.dir.join("clock")).unwrap();
    let api = &mut world.platform.apis[0];
    clock.give(api);
    api.restart().await.unwrap();
    let template = world.template(9, |new| new.held_for(LONG)).await;
    let (anna, claim) = claimed(&world, template, 1, "a", 1).await;
    clock.set(AHEAD).unwrap();
    let skew = async || world.platform.apis[0].metric("api_clock_skew_seconds").await;
    until(skew, |skew| skew.is_some_and(|skew| skew > 1_000.0)).await;
    for unsure in [
        world.api().confirm(claim.id, "pay-1", None).await.unwrap(),
        anna.cancel(claim.id, None).await.unwrap(),
        world.api().cancel(claim.id, "refunded", None).await.unwrap(),
    ] {
        assert_eq!(refusal(&unsure), (503, "HOLD_UNSURE".to_owned()));
    }
    assert_eq!((world.count(template).await.held, returns(&world, template).await), (1, 0));
    clock.set(0).unwrap();
    let paid = world.api().confirm(claim.id, "pay-1", None).await.unwrap();
    assert_eq!(paid.status, 200, "{}", paid.body);
    assert_eq!(number(&world, "select count(*) from coupon_payment").await, 1);
    world.end().await;
}

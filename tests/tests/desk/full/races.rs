//! A revocation meets a checkout, a rollback, a lock and a replacement at a barrier; MySQL counts what was answered.

use devstack::PlatformOptions;
use pipeline_tests::World;
use serde_json::{Value, json};
use shopper::Answer;

use crate::redemptions::{
    orders::{outcome, redeem},
    races::{at_once, cancellation, claimed, number, redemption, won},
};

/// Rounds of each race.
const ROUNDS: i64 = 12;

fn change(verb: &str, coupon: coupon::CouponId) -> (String, Value) {
    (format!("/v1/coupons/{coupon}/{verb}"), json!({ "reason": "a race" }))
}

/// Asserts that an answer is a success or this refusal, and returns whether it is the former.
fn succeeded(answer: &Answer, success: u16, refused: &str) -> bool {
    let outcome = outcome(answer);
    assert!(answer.status == success || outcome == (409, refused.to_owned()), "{answer:?}");
    answer.status == success
}

#[tokio::test]
async fn a_revocation_meets_redemption_rollback_lock_and_replacement_and_rows_say_who_won() {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let world = World::start_with("desk meets checkout", two).await;
    let mut templates = Vec::new();
    for _ in 0..4 {
        templates.push(world.template(99, |new| new).await);
    }
    let [sold, back, kept, replaced] = templates[..] else { panic!("four templates") };
    let mut redeemed = 0;
    let mut revoked_back = 0;
    let mut locked = 0;
    let mut replacements = 0;
    for user in 1..=ROUNDS {
        let [one, two, three, four] = claimed(&world, [sold, back, kept, replaced], user).await;
        let race = [change("revoke", one), redemption(&format!("sold-{user}"), &[one])];
        let answers = at_once(&world, &race).await;
        assert_eq!(won(&answers), 1, "{answers:?}");
        succeeded(&answers[0], 200, "COUPON_USED");
        redeemed += i64::from(succeeded(&answers[1], 201, "COUPON_CANCELLED"));

        let order = format!("back-{user}");
        let used = redemption(&order, &[two]).1;
        assert_eq!(redeem(world.api(), &used).await.status, 201);
        let answers = at_once(&world, &[change("revoke", two), cancellation(&order)]).await;
        assert_eq!(answers[1].status, 200, "{answers:?}");
        revoked_back += i64::from(succeeded(&answers[0], 200, "COUPON_USED"));

        let lock = json!({ "order_ref": format!("kept-{user}"), "for_ms": 600_000 });
        let lock = (format!("/v1/coupons/{three}/lock"), lock);
        let answers = at_once(&world, &[change("revoke", three), lock]).await;
        assert_eq!(
            answers[0].status, 200,
            "a lock keeps other orders away, and no desk: {answers:?}"
        );
        locked += i64::from(succeeded(&answers[1], 200, "COUPON_CANCELLED"));

        let race = [change("revoke", four), change("replace", four), change("replace", four)];
        let answers = at_once(&world, &race).await;
        assert_eq!(answers[0].status, 200, "it is cancelled either way: {answers:?}");
        let won = succeeded(&answers[1], 200, "COUPON_CANCELLED");
        assert_eq!(succeeded(&answers[2], 200, "COUPON_CANCELLED"), won, "both or neither");
        replacements += i64::from(won);
    }
    let counts = world.count(sold).await;
    assert_eq!((counts.used, counts.cancelled), (redeemed, ROUNDS - redeemed));
    let counts = world.count(back).await;
    assert_eq!((counts.cancelled, counts.unused), (revoked_back, ROUNDS - revoked_back));
    assert_eq!(world.count(kept).await.cancelled, ROUNDS);
    assert_eq!(number(&world, "select count(*) from coupon_lock").await, locked);
    let counts = world.count(replaced).await;
    assert_eq!((counts.cancelled, counts.unused), (ROUNDS, replacements));
    let rows = "select count(*) from coupon_replacement";
    assert_eq!(number(&world, rows).await, replacements);
    world.assert_sound(None).await;
    world.end().await;
}

//! The generation rises while an api's own connection stays open.

use coupon::UserId;
use mysql_store::verify;
use pipeline_tests::{World, until};
use shopper::{Claimed, CouponQuery};

const USER: UserId = UserId(1);

/// A process was briefly pointed at the wrong Redis, and the next one to connect corrected that by raising the
/// generation. If the api kept building lists under the older generation, each change would drop them, for weeks.
#[tokio::test]
async fn an_api_learns_of_a_generation_that_rose_while_its_connection_stood() {
    let mut world = World::start("generation").await;
    let template = world.template(10, |new| new).await;
    let shopper = world.api().shopper(USER).unwrap();
    shopper.all_coupons().await.unwrap();
    let raise = "update view_generation set generation = generation + 1";
    assert_eq!(verify::execute(&mut world.mysql().await, raise).await.unwrap(), 1);
    world.platform.sync_consumer.stop().await.unwrap();
    world.platform.sync_consumer.start().await.unwrap();
    let answer = shopper.claim(template, None, 1).await.unwrap();
    let claimed: Claimed = answer.json().unwrap();
    // A new connection trusts views of the current generation.
    let now = verifier::Sources::connect(&world.settings()).await.unwrap();
    let own_claim = CouponQuery { after: Some(claimed.coupons[0].id), ..CouponQuery::default() };
    let is_built_anew = async || {
        // Until the api next checks the generation it serves the old list; a read with `after` gets the own claim
        // at once.
        let listed = shopper.coupons(&own_claim).await.unwrap();
        assert_eq!(listed.data.len(), 1, "from wherever it comes");
        shopper.all_coupons().await.unwrap();
        now.view.contents(USER).await.unwrap()
    };
    let view = until(is_built_anew, |view| view.trusted).await;
    assert_eq!(shopper.all_coupons().await.unwrap().len(), 1);
    assert!(view.coupons.contains_key(&claimed.coupons[0].id.to_string()), "{view:?}");
    world.assert_sound(None).await;
    world.end().await;
}

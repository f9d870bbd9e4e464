//! The topic is delivered again: once unchanged, then doubled and shuffled. The view stays the same.

use coupon::UserId;
use pipeline_tests::{World, replay};
use shopper::{Claimed, NewTemplate, Wish};

/// Users of the sale; each has a view.
const USERS: i64 = 200;

#[tokio::test]
async fn a_topic_delivered_again_doubled_and_shuffled_changes_no_view() {
    let world = World::start("redelivery").await;
    world.warm_views(1..=USERS).await;
    let lasting = world.template(USERS, |new| new).await;
    let brief = world.template(USERS / 4, |new| NewTemplate { valid_for_ms: 500, ..new }).await;
    let wishes = (1..=USERS).map(|user| Wish::one(lasting, UserId(user)));
    let brief_wishes = (1..=USERS / 4).map(|user| Wish::one(brief, UserId(user)));
    let run = world.crowd().run(wishes.chain(brief_wishes).collect()).await.unwrap();
    for record in run.history.records.iter().filter(|record| record.template == lasting) {
        let claimed: Claimed = serde_json::from_str(record.body.as_ref().unwrap()).unwrap();
        if claimed.user_id.0 % 3 == 0 {
            let shopper = world.api().shopper(claimed.user_id).unwrap();
            let used = shopper.use_coupon(claimed.coupons[0].id, "order").await.unwrap();
            assert_eq!(used.status, 200, "{}", used.body);
        }
    }
    world.until(brief, |counts| counts.expired == USERS / 4).await;
    world.assert_sound(Some(&run.history)).await;

    let topic = world.sources.topics.user_coupon();
    let brokers = &world.sources.brokers;
    let original = replay::published(brokers, &topic).await.unwrap();
    assert!(original.len() >= 2 * USERS as usize / 3, "{} messages", original.len());
    replay::deliver(brokers, &original).await.unwrap();
    world.assert_sound(Some(&run.history)).await;

    let mut shuffled = [original.clone(), original].concat();
    let seed = fastrand::u64(..);
    println!("shuffled by seed {seed}");
    fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
    replay::deliver(brokers, &shuffled).await.unwrap();
    world.assert_sound(Some(&run.history)).await;
    world.end().await;
}

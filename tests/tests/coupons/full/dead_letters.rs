//! A message that cannot be read while no topic takes dead letters: everything behind it waits, and the consumer says
//! so, since a lag of 0 would hide stale lists.

use coupon::UserId;
use pipeline_tests::{World, until};
use shopper::{Claimed, CouponQuery};
use topic::{Producer, ProducerOptions, TableReader, verify};

/// Seconds of lag: several attempts at the message have failed.
const BEHIND: f64 = 5.0;

#[tokio::test]
async fn while_no_topic_takes_dead_letters_the_lag_grows_and_lists_are_right_once_one_does() {
    let mut world = World::start("no dead letters").await;
    let brokers = &world.sources.brokers.clone();
    let names = &world.sources.topics.clone();
    let template = world.template(10, |new| new).await;
    world.warm_views([1, 2]).await;
    // It would make the topic again at once.
    world.platform.cdc_tailer.pause().unwrap();
    verify::remove(brokers, &names.dead_letter()).await.unwrap();
    let producer = Producer::connect(brokers, ProducerOptions::default()).await.unwrap();
    producer.send(&names.user_coupon(), None, b"1", b"{", &[]).await.unwrap();
    let consumer = &world.platform.sync_consumer;
    let lag = async || consumer.metric("sync_consumer_lag_seconds").await.unwrap_or(0.0);
    until(lag, |lag| *lag > BEHIND).await;
    let ready = async || consumer.answer("/readyz").await.unwrap_or_default();
    until(ready, |ready| ready.contains("dead letter topic")).await;

    let ben = world.api().shopper(UserId(2)).unwrap();
    let claimed: Claimed = ben.claim(template, None, 1).await.unwrap().json().unwrap();
    let own = CouponQuery { after: Some(claimed.coupons[0].id), ..CouponQuery::default() };
    assert_eq!(ben.coupons(&own).await.unwrap().data.len(), 1, "MySQL answers for the view");

    world.platform.cdc_tailer.resume().unwrap();
    until(lag, |lag| *lag == 0.0).await;
    until(async || ben.all_coupons().await.unwrap().len(), |listed| *listed == 1).await;
    let letters = TableReader::open(brokers, &names.dead_letter()).await.unwrap();
    let letters = letters.read_to_end().await.unwrap();
    assert!(letters.iter().any(|letter| letter.key == b"1"), "{letters:?}");
    world.end().await;
}

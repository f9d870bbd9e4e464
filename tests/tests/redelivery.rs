//! The topic is delivered again: whole, then twice and in no order. The view is the same.

use coupon::UserId;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use pipeline_tests::World;
use shopper::{Claimed, NewTemplate, Wish};
use topic::{Message, Producer, ProducerOptions, TableReader};

/// Users of the sale; each has a view.
const USERS: i64 = 200;
/// Messages on their way at a time: as the tailer, far more than one.
const AT_A_TIME: usize = 256;

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
    let original = TableReader::open(brokers, &topic).await.unwrap().read_to_end().await.unwrap();
    assert!(original.len() >= 2 * USERS as usize / 3, "{} messages", original.len());
    let producer = Producer::connect(brokers, ProducerOptions::default()).await.unwrap();
    deliver(&producer, &original).await;
    world.assert_sound(Some(&run.history)).await;

    let mut shuffled = [original.clone(), original].concat();
    let seed = fastrand::u64(..);
    println!("shuffled by seed {seed}");
    fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
    deliver(&producer, &shuffled).await;
    world.assert_sound(Some(&run.history)).await;
    world.end().await;
}

async fn deliver(producer: &Producer, messages: &[Message]) {
    stream::iter(messages)
        .map(async |message| {
            let headers: Vec<(&str, &[u8])> =
                message.headers.iter().map(|(key, value)| (key.as_str(), &value[..])).collect();
            let payload = message.payload.as_deref().unwrap();
            let partition = Some(message.partition);
            producer.send(&message.topic, partition, &message.key, payload, &headers).await
        })
        .buffered(AT_A_TIME)
        .try_for_each(async |_| Ok(()))
        .await
        .unwrap();
}

//! Messages of the queue come twice and in another order, before and after they landed, and from an epoch that has
//! passed: each claim has one end.

use pipeline_tests::{
    World,
    promises::{Ends, Promises},
    replay, until,
};
use redis_gate::Meta;
use shopper::NewTemplate;
use topic::TopicNames;

use crate::{
    claims::full::epochs::lose_gate,
    queued::{accepted, after_gate, assert_sold, shopper, two_apis},
};

/// Users, each with one claim.
const USERS: i64 = 40;

/// Delivers everything that the queue has ever carried again, shuffled. Returns how many messages that were.
async fn again(world: &World) -> usize {
    let brokers = &world.scope.endpoints.kafka_brokers;
    let claims = TopicNames::new(world.scope.topic_prefix.clone()).claims();
    let mut messages = replay::published(brokers, &claims).await.unwrap();
    fastrand::shuffle(&mut messages);
    replay::deliver(brokers, &messages).await.unwrap();
    messages.len()
}

#[tokio::test]
async fn messages_that_come_again_and_in_another_order_change_no_end() {
    let mut world = World::start_queued_with("queued duplicates", two_apis).await;
    let several = |new| after_gate(NewTemplate { per_user_limit: 2, ..new });
    let template = world.template(USERS, several).await;
    let mut promises = Promises::default();
    world.platform.lander.pause().unwrap();
    for user in 1..=USERS {
        accepted(&mut promises, &shopper(&world, 0, user), template).await;
    }
    // The messages come twice before they land.
    until(async || again(&world).await, |carried| *carried >= USERS as usize).await;
    world.platform.lander.resume().unwrap();
    let count = promises.claims.len();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
    // They come again after they have landed, and after the gate has a new epoch.
    for rebuilt in [false, true] {
        if rebuilt {
            let epoch = world.sources.gate.meta(template).await.unwrap().unwrap().epoch;
            lose_gate(&world, template).await;
            let meta = async || world.sources.gate.meta(template).await.ok().flatten();
            let is_new = |meta: &Meta| meta.is_open() && meta.epoch > epoch;
            until(meta, |meta| meta.as_ref().is_some_and(is_new)).await;
        }
        assert!(again(&world).await >= count);
        world.assert_sound(None).await;
        assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count), "{rebuilt}");
        assert_eq!(world.count(template).await.all(), USERS);
    }
    assert_sold(&world, template, USERS).await;
    world.end().await;
}

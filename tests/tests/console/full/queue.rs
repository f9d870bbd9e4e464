//! The live figures of a sale whose claims wait in a queue.

use pipeline_tests::World;
use serde_json::{Value, json};

use crate::{
    console::live::{of, until_shown, watch},
    queued::{after_topic, shopper},
};

#[tokio::test]
async fn what_waits_in_a_queue_is_in_flight_and_queued_until_it_lands() {
    const CLAIMS: i64 = 5;
    let mut world = World::start_queued("live queue").await;
    let template = world.template(20, after_topic).await;
    let mut events = watch(world.api()).await;
    world.platform.lander.pause().unwrap();
    for user in 1..=CLAIMS {
        let claimed = shopper(&world, 0, user).claim(template, Some("k"), 1).await.unwrap();
        assert_eq!(claimed.status, 202, "{claimed:?}");
    }
    let waiting = until_shown(&mut events, |sample| {
        of(sample, template).is_some_and(|one| one["queued"] == CLAIMS)
    })
    .await;
    let waiting = of(&waiting, template).unwrap();
    assert_eq!((&waiting["in_flight"], &waiting["left"]), (&json!(CLAIMS), &json!(20 - CLAIMS)));
    assert_eq!((&waiting["landed"], &waiting["claims_queued"]), (&json!(0), &json!(CLAIMS)));
    assert_eq!(waiting["drift"], Value::Null, "it cannot be judged yet");
    world.platform.lander.resume().unwrap();
    let landed = until_shown(&mut events, |sample| {
        of(sample, template).is_some_and(|one| one["confirmed"] == CLAIMS && one["drift"] == 0)
    });
    let landed = landed.await;
    assert_eq!(of(&landed, template).unwrap()["queued"], 0);
    world.assert_sound(None).await;
    world.end().await;
}

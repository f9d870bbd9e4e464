//! A claim that waited in its gate alone is lost with it. Its user is told so, and the key is free.

use coupon::UserId;
use pipeline_tests::{World, promises::Promises, until};
use shopper::Accepted;

use crate::queued::{KEY, after_gate, arm, assert_sold, gate_command, gate_key, shopper, two_apis};

#[tokio::test]
async fn a_claim_that_was_lost_with_its_gate_is_called_so_by_every_api_and_its_key_claims_again() {
    let mut world = World::start_queued_with("lost claims", two_apis).await;
    let template = world.template(10, after_gate).await;
    // No relay carries it out of the gate.
    world.platform.relay.kill().unwrap();
    let [one, other] = [0, 1].map(|api| shopper(&world, api, 1));
    let answer = one.claim(template, Some(KEY), 1).await.unwrap();
    let lost = Accepted::read(&answer, template, UserId(1), Some(KEY), 1).unwrap();
    for key in ["meta", "outbox"] {
        gate_command(&world, &["DEL", &gate_key(&world, template, key)]).await;
    }
    let look = async || one.look(&lost).await.unwrap();
    let end = until(look, |answer| answer.status == 200).await;
    assert_eq!(end.code().as_deref(), Some("ADMISSION_LOST"), "{end:?}");
    assert_eq!(other.look(&lost).await.unwrap().body, end.body);
    let mut events = other.events(&lost, None).await.unwrap();
    let event = events.next().await.unwrap().unwrap();
    assert_eq!(event.data, end.body, "the only event");
    assert_eq!(events.next().await.unwrap(), None);

    arm(&mut world.platform.relay, "").await;
    let again = Promises::default().insist(&one, template, Some(KEY), 1).await;
    assert_eq!(again.status, 201, "{again:?}");
    assert!(!lost.location.contains(&again.json::<shopper::Claimed>().unwrap().id.to_string()));
    assert_eq!(one.look(&lost).await.unwrap().body, end.body, "what was told stays");
    assert_sold(&world, template, 1).await;
    world.end().await;
}

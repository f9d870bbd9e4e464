//! A queued claim is neither confirmed nor cancelled before it lands, and both once it has.

use chrono::TimeDelta;
use coupon::UserId;
use mysql_store::fence;
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::json;
use shopper::Accepted;

use crate::{
    desk::{post, refusal},
    holds::{held, stock},
    queued::{KEY, after_topic},
};

#[tokio::test]
async fn a_queued_claim_that_waits_is_neither_paid_for_nor_cancelled_and_then_both_work() {
    let mut world = World::start_queued("held queued").await;
    let template = world.template(9, |new| after_topic(held(new))).await;
    world.platform.lander.kill().unwrap();
    let anna = world.api().shopper(UserId(1)).unwrap();
    let claim = async || anna.claim(template, Some(KEY), 2).await.unwrap();
    let answer = until(claim, |answer| answer.status == 202).await;
    let accepted = Accepted::read(&answer, template, UserId(1), Some(KEY), 2).unwrap();
    let id = accepted.id;
    // The claim was looked up under another template, which left a fence there.
    let other = world.template(9, |new| new).await;
    let mut mysql = world.mysql().await;
    let now = world.clock.now();
    fence::place(&mut mysql, other, UserId(2), id, now).await.unwrap();
    let cancel = format!("/v1/claims/{id}/cancel?template={template}");
    let reason = json!({ "reason": "r" });
    let by_user = anna.send(anna.request(Method::POST, &cancel).json(&reason)).await.unwrap();
    assert_eq!(refusal(&by_user), (503, "CLAIM_PENDING".to_owned()));
    let payment = json!({ "payment_ref": "pay-1" });
    let confirm = format!("/v1/claims/{id}/confirm?template={template}");
    for (path, body) in [(&cancel, &reason), (&confirm, &payment)] {
        let by_shop = post(world.api(), path, body).await;
        assert_eq!(refusal(&by_shop), (503, "CLAIM_PENDING".to_owned()));
    }
    let unnamed = world.api().confirm(id, "pay-1", None).await.unwrap();
    assert_eq!(refusal(&unnamed), (422, "TEMPLATE_NEEDED".to_owned()));

    world.platform.lander.spawn().unwrap();
    world.until(template, |counts| counts.held == 2).await;
    let landed: serde_json::Value = anna.look(&accepted).await.unwrap().json().unwrap();
    let claimed: shopper::Claimed = serde_json::from_value(landed["claim"].clone()).unwrap();
    assert!(claimed.held_until.unwrap() > world.clock.now() + TimeDelta::minutes(10));
    let one = [claimed.coupons[0].id];
    let paid = world.api().confirm(claimed.id, "pay-1", Some(&one)).await.unwrap();
    assert_eq!(paid.status, 200, "{}", paid.body);
    let rest = [claimed.coupons[1].id];
    assert_eq!(anna.cancel(claimed.id, Some(&rest)).await.unwrap().status, 200);
    let counts = world.count(template).await;
    assert_eq!((counts.unused, counts.cancelled), (1, 1));
    assert_eq!(stock(&world, template).await, (9, 8));
    world.assert_sound(None).await;
    world.end().await;
}

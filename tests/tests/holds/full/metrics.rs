//! The processes' counters of holds show what became of them.

use coupon::UserId;
use pipeline_tests::{World, until};
use shopper::NewTemplate;
use testkit::MERCHANT;
use topic::{PaymentMessage, Producer, ProducerOptions};

use crate::holds::{LONG, SHORT, all_over, claimed};

/// What the api has counted of a call.
async fn calls(world: &World, call: &str, outcome: &str) -> f64 {
    let name = format!("api_hold_calls_total{{call=\"{call}\",outcome=\"{outcome}\"}}");
    world.platform.apis[0].metric(&name).await.unwrap()
}

/// What claim-lander has counted of payments by message.
async fn payments(world: &World, outcome: &str) -> f64 {
    let name = format!("claim_lander_payments_total{{outcome=\"{outcome}\"}}");
    world.platform.lander.metric(&name).await.unwrap()
}

#[tokio::test]
async fn payments_cancellations_and_lapses_are_counted_by_what_became_of_them() {
    let world = World::start_queued("hold metrics").await;
    let api = world.api();
    let long = world.template(9, |new| new.held_for(LONG)).await;
    let two = |new: NewTemplate| NewTemplate { per_user_limit: 2, ..new.held_for(SHORT) };
    let short = world.template(9, two).await;
    let (_, paid) = claimed(&world, long, 1, "a", 1).await;
    for payment_ref in ["pay-1", "pay-1", "pay-2"] {
        api.confirm(paid.id, payment_ref, None).await.unwrap();
    }
    let (user, given_up) = claimed(&world, long, 2, "a", 1).await;
    for _ in 0..2 {
        assert_eq!(user.cancel(given_up.id, None).await.unwrap().status, 200);
    }
    // The payment comes after the cancellation.
    assert_eq!(api.confirm(given_up.id, "pay-3", None).await.unwrap().status, 409);
    let (_, late) = claimed(&world, short, 3, "a", 1).await;
    claimed(&world, short, 4, "a", 1).await;
    all_over(&world, short, 2).await;
    assert_eq!(api.confirm(late.id, "pay-4", None).await.unwrap().status, 409);
    assert_eq!(api.cancel(late.id, "late", None).await.unwrap().status, 409);
    assert_eq!(api.confirm(coupon::ClaimId(1), "pay-5", None).await.unwrap().status, 404);
    for (call, outcome, count) in [
        ("confirm", "done", 1.0),
        ("confirm", "replayed", 1.0),
        ("confirm", "refused", 2.0),
        ("confirm", "late", 1.0),
        ("confirm", "unsure", 0.0),
        ("cancel", "done", 1.0),
        ("cancel", "replayed", 1.0),
        ("cancel", "late", 1.0),
    ] {
        assert_eq!(calls(&world, call, outcome).await, count, "{call} {outcome}");
    }
    world.until(short, |counts| counts.lapsed == 2).await;
    let lapsed = async || world.platform.expiry_worker.metric("expiry_worker_lapsed_total").await;
    assert_eq!(until(lapsed, |lapsed| *lapsed == Some(2.0)).await, Some(2.0));

    // The next coupon stays unpaid; all others have ended or are paid for.
    claimed(&world, long, 6, "a", 1).await;
    let held = async || world.platform.expiry_worker.metric("expiry_worker_held").await;
    assert_eq!(until(held, |held| *held == Some(1.0)).await, Some(1.0));

    let (_, by_message) = claimed(&world, long, 5, "a", 1).await;
    let brokers = &world.sources.brokers;
    let producer = Producer::connect(brokers, ProducerOptions::default()).await.unwrap();
    let topic = world.sources.topics.payments();
    for (claim, payment_ref) in [
        (by_message.id, "pay-6"),
        (by_message.id, "pay-6"),
        (by_message.id, "pay-7"),
        (late.id, "pay-8"),
    ] {
        let payment = PaymentMessage {
            claim_id: claim,
            merchant_id: MERCHANT,
            payment_ref: payment_ref.to_owned(),
            coupons: None,
        };
        // One key, so that they are taken in this order.
        producer.send(&topic, None, b"1", &payment.encode(), &[]).await.unwrap();
    }
    until(async || payments(&world, "lapsed").await, |late| *late == 1.0).await;
    for outcome in ["confirmed", "replayed", "not_held"] {
        assert_eq!(payments(&world, outcome).await, 1.0, "{outcome}");
    }
    let held = world.api().shopper(UserId(5)).unwrap();
    assert_eq!(held.coupon(by_message.coupons[0].id).await.unwrap().status, "unused");
    world.assert_sound(None).await;
    world.end().await;
}

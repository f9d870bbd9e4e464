//! The main use case of one user, step by step.

use chrono::TimeDelta;
use coupon::UserId;
use pipeline_tests::World;
use shopper::{Claimed, CouponQuery, NewTemplate};

#[tokio::test]
async fn a_coupon_is_claimed_listed_used_and_another_expires() {
    let world = World::start("happy").await;
    let api = world.api();
    let draft = api
        .create(&NewTemplate::simple("A sale", 3, world.clock.now(), TimeDelta::hours(1)))
        .await
        .unwrap();
    assert_eq!((draft.state.as_str(), draft.version), ("draft", 1));
    let template = api.turn(draft.id, "publish").await.unwrap();
    assert_eq!((template.state.as_str(), template.version), ("published", 2));
    assert_eq!(api.template(draft.id).await.unwrap(), template);

    let anna = api.shopper(UserId(1)).unwrap();
    assert!(anna.all_coupons().await.unwrap().is_empty());
    let answer = anna.claim(template.id, Some("first"), 1).await.unwrap();
    assert_eq!((answer.status, answer.replayed), (201, false), "{}", answer.body);
    let claimed: Claimed = answer.json().unwrap();
    assert_eq!((claimed.user_id, claimed.quantity), (UserId(1), 1));
    let again = anna.claim(template.id, Some("first"), 1).await.unwrap();
    assert_eq!((again.status, again.replayed), (201, true));
    assert_eq!(again.body, answer.body);
    let other_key = anna.claim(template.id, Some("second"), 1).await.unwrap();
    assert_eq!((other_key.status, other_key.code().unwrap()), (409, "LIMIT_REACHED".to_owned()));
    let poll = anna.poll(claimed.id, template.id).await.unwrap();
    assert_eq!(poll.status, 200, "{}", poll.body);

    let coupon = claimed.coupons[0].id;
    let own = CouponQuery { after: Some(coupon), ..CouponQuery::default() };
    assert_eq!(anna.coupons(&own).await.unwrap().data[0].id, coupon);
    assert!(anna.until_visible(coupon, pipeline_tests::STATE_MAX).await.is_some());
    let stranger = api.shopper(UserId(2)).unwrap();
    assert_eq!(stranger.use_coupon(coupon, "order").await.unwrap().status, 404);
    for _ in 0..2 {
        let used = anna.use_coupon(coupon, "order").await.unwrap();
        assert_eq!(used.status, 200, "{}", used.body);
    }
    let elsewhere = anna.use_coupon(coupon, "another").await.unwrap();
    assert_eq!((elsewhere.status, elsewhere.code().unwrap()), (409, "COUPON_USED".to_owned()));
    assert_eq!(anna.coupon(coupon).await.unwrap().status, "used");

    let brief = world.template(1, |new| NewTemplate { valid_for_ms: 300, ..new }).await;
    let bert = api.shopper(UserId(3)).unwrap();
    bert.all_coupons().await.unwrap();
    let claimed: Claimed = bert.claim(brief, None, 1).await.unwrap().json().unwrap();
    world.until(brief, |counts| counts.expired == 1).await;
    let late = bert.use_coupon(claimed.coupons[0].id, "order").await.unwrap();
    assert_eq!((late.status, late.code().unwrap()), (409, "COUPON_EXPIRED".to_owned()));

    world.assert_sound(None).await;
    for (shopper, status) in [(&anna, "used"), (&bert, "expired")] {
        assert!(shopper.all_coupons().await.unwrap().is_empty());
        let ended = CouponQuery { status: Some(status), ..CouponQuery::default() };
        let ended = shopper.coupons(&ended).await.unwrap().data;
        assert_eq!(ended.iter().map(|coupon| coupon.status.as_str()).collect::<Vec<_>>(), [status]);
    }
    let stock = api.stock(template.id).await.unwrap();
    assert_eq!((stock.total, stock.landed, stock.stock), (3, 1, 2));
    assert_eq!((stock.in_flight, stock.gate_stock, stock.drift), (Some(0), Some(2), Some(0)));
    world.end().await;
}

#[tokio::test]
async fn a_template_that_is_paused_or_ended_gives_nothing() {
    let world = World::start("states").await;
    let api = world.api();
    let template = world.template(5, |new| new).await;
    let shopper = api.shopper(UserId(1)).unwrap();
    for (verb, code) in [("pause", Some("PAUSED")), ("resume", None), ("end", Some("ENDED"))] {
        api.turn(template, verb).await.unwrap();
        let key = format!("after-{verb}");
        let user = if verb == "end" { api.shopper(UserId(2)).unwrap() } else { shopper.clone() };
        let answer = user.claim(template, Some(&key), 1).await.unwrap();
        assert_eq!(answer.code().as_deref(), code, "{verb}: {}", answer.body);
    }
    assert_eq!(world.count(template).await.all(), 1);
    let window = |new: NewTemplate| NewTemplate {
        claim_starts_at: world.clock.now() + TimeDelta::hours(1),
        claim_ends_at: world.clock.now() + TimeDelta::hours(2),
        ..new
    };
    let later = world.template(5, window).await;
    let answer = shopper.claim(later, None, 1).await.unwrap();
    assert_eq!(answer.code().as_deref(), Some("NOT_OPEN"), "{}", answer.body);
    assert_eq!(world.count(later).await.all(), 0);
    world.assert_sound(None).await;
    world.end().await;
}

//! Rate limits of one user's claims and reads, over HTTP.

use std::{collections::BTreeSet, time::Instant};

use coupon::{CouponId, UserId};
use futures::future::join_all;
use pipeline_tests::World;
use reqwest::Method;
use shopper::{Claimed, NewTemplate};

/// Claims per user and minute in this test: so few that none is refilled within its seconds.
const PER_MINUTE: u64 = 3;

#[tokio::test]
async fn a_user_who_claims_too_often_learns_when_to_come_back_and_no_other_is() {
    let world = World::start_with("rate limit", |options| {
        let quota = PER_MINUTE.to_string();
        options.with_env("CLAIMS_PER_USER_MINUTE", &quota).with_env("CLAIMS_PER_USER_SECOND", "100")
    })
    .await;
    let template = world.template(50, |new| NewTemplate { per_user_limit: 0, ..new }).await;
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let began = Instant::now();
    for left in (0..PER_MINUTE).rev() {
        let answer = shopper.claim(template, Some(&format!("key-{left}")), 1).await.unwrap();
        assert_eq!(answer.status, 201);
        let limit = answer.header("ratelimit").unwrap();
        assert!(limit.starts_with(&format!("\"minute\";r={left};t=")), "{limit}");
        let policy = answer.header("ratelimit-policy");
        assert_eq!(policy, Some("\"second\";q=100;w=1, \"minute\";q=3;w=60"));
    }
    let mut waits = BTreeSet::new();
    // They are sent together, because each refusal comes after a pause and the quota grows meanwhile.
    let too_many = (0..40).map(|_| shopper.claim(template, Some("one too many"), 1));
    for refused in join_all(too_many).await {
        let refused = refused.unwrap();
        assert_eq!((refused.status, refused.code().as_deref()), (429, Some("RATE_LIMITED")));
        assert!(refused.header("ratelimit").unwrap().starts_with("\"minute\";r=0;"), "{refused:?}");
        waits.insert(refused.retry_after.unwrap());
    }
    // A third of a minute per claim, and up to two seconds of jitter so that not all clients return at once.
    let least = 19_u64.saturating_sub(began.elapsed().as_secs());
    assert!(waits.iter().all(|wait| (least..=22).contains(wait)) && waits.len() > 1, "{waits:?}");
    let used = shopper.redeem_myself(CouponId(1), "use", "order").await.unwrap();
    assert_eq!((used.status, used.code().as_deref()), (429, Some("RATE_LIMITED")));
    assert_eq!(world.count(template).await.all(), 3, "what is refused is not even begun");
    assert_eq!(shopper.all_coupons().await.unwrap().len(), 3, "reading is not counted");
    let other = world.api().shopper(UserId(65)).unwrap();
    assert_eq!(other.claim(template, Some("key"), 1).await.unwrap().status, 201);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_user_who_looks_too_often_learns_when_to_come_back_and_may_still_claim() {
    let world = World::start_with("rate of reads", |options| {
        options.with_env("READS_PER_USER_MINUTE", "4").with_env("READS_PER_USER_SECOND", "0")
    })
    .await;
    let template = world.template(50, |new| NewTemplate { per_user_limit: 0, ..new }).await;
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let claimed = shopper.claim(template, Some("key"), 1).await.unwrap();
    let poll = claimed.location.clone().unwrap();
    let coupon = claimed.json::<Claimed>().unwrap().coupons[0].id;
    let one = format!("/v1/me/coupons/{coupon}");
    // All reads are counted together, including those of another user's coupon.
    let looks = [
        ("/v1/me/coupons", 200),
        (one.as_str(), 200),
        (poll.as_str(), 200),
        ("/v1/me/coupons/1", 404),
        ("/v1/me/coupons?status=expired", 429),
        (one.as_str(), 429),
        (poll.as_str(), 429),
    ];
    for (number, (path, status)) in looks.into_iter().enumerate() {
        let answer = shopper.send(shopper.request(Method::GET, path)).await.unwrap();
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        let left = 3_usize.saturating_sub(number);
        let limit = answer.header("ratelimit").unwrap();
        assert!(limit.starts_with(&format!("\"minute\";r={left};t=")), "{path}: {limit}");
        assert_eq!(answer.header("ratelimit-policy"), Some("\"minute\";q=4;w=60"));
        if status == 429 {
            assert_eq!(answer.code().as_deref(), Some("RATE_LIMITED"));
            assert!((1..=17).contains(&answer.retry_after.unwrap()), "{answer:?}");
        }
    }
    let unused = shopper.redeem_myself(coupon, "unuse", "order").await.unwrap();
    assert_eq!((unused.status, unused.code().as_deref()), (429, Some("RATE_LIMITED")));
    assert_eq!(shopper.claim(template, Some("another"), 1).await.unwrap().status, 201);
    let again = shopper.claim(template, Some("key"), 1).await.unwrap();
    assert!(again.replayed && again.body == claimed.body, "replays are of the claims' rate");
    let other = world.api().shopper(UserId(65)).unwrap();
    assert_eq!(other.all_coupons().await.unwrap().len(), 0);
    world.assert_sound(None).await;
    world.end().await;
}

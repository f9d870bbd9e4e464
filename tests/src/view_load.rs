//! The users' load in the campaign against views: they read their lists, use coupons and give them back.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use coupon::{CouponId, UserId};
use shopper::{Api, CouponQuery, Shopper};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::World;

/// How long a reader waits for a response from an api that may be stopped.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long a use is retried: longer than any victim is down.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two tries, or after a failed read.
const TRY_EVERY: Duration = Duration::from_millis(20);

/// Reads lists of all users in turn until `is_over`. Timeouts and refusals do not count as lists.
pub(crate) fn read(
    apis: Vec<Api>,
    first: usize,
    users: i64,
    is_over: Arc<AtomicBool>,
    lists: Arc<AtomicU64>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        for number in first.. {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            let user = UserId(number as i64 % users + 1);
            let shopper = apis[number % apis.len()].shopper(user).unwrap();
            let query = CouponQuery { limit: Some(20), ..CouponQuery::default() };
            let Ok(Ok(page)) = timeout(ANSWER_MAX, shopper.coupons(&query)).await else {
                sleep(TRY_EVERY).await;
                continue;
            };
            lists.fetch_add(1, Ordering::Relaxed);
            let distinct: HashSet<CouponId> = page.data.iter().map(|coupon| coupon.id).collect();
            assert_eq!(distinct.len(), page.data.len(), "a coupon of {user} is shown twice");
        }
    })
}

/// Every third user uses two coupons and gives one of them back. Returns how many calls were answered 200.
pub(crate) fn spend(world: &World, users: i64, round: u32) -> JoinHandle<u64> {
    let apis = world.apis.clone();
    tokio::spawn(async move {
        let mut answered = 0;
        for user in (1..=users).filter(|user| user % 3 == 0) {
            let shopper = apis[user as usize % apis.len()].shopper(UserId(user)).unwrap();
            let query = CouponQuery { limit: Some(2), ..CouponQuery::default() };
            let Ok(Ok(page)) = timeout(ANSWER_MAX, shopper.coupons(&query)).await else { continue };
            for (place, coupon) in page.data.iter().enumerate() {
                let order = format!("{round}-{user}");
                answered += u64::from(insist(&shopper, coupon.id, &order, false).await);
                if place == 0 {
                    answered += u64::from(insist(&shopper, coupon.id, &order, true).await);
                }
            }
        }
        answered
    })
}

/// Retries a use or a return until it gets a definite answer. Returns whether that was 200; an expired coupon
/// gets 409.
async fn insist(shopper: &Shopper, coupon: CouponId, order: &str, gives_back: bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let call = async {
            if gives_back {
                shopper.unuse_coupon(coupon, order).await
            } else {
                shopper.use_coupon(coupon, order).await
            }
        };
        if let Ok(Ok(answer)) = timeout(ANSWER_MAX, call).await
            && !answer.is_passing()
        {
            assert!(matches!(answer.status, 200 | 409), "{}: {}", answer.status, answer.body);
            return answer.status == 200;
        }
        assert!(Instant::now() < deadline, "coupon {coupon} of {} is not answered", shopper.user());
        sleep(TRY_EVERY).await;
    }
}

//! Payments that come before their claims have landed.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimId, QueuedClaim};
use mysql_store::{connect, settings};
use runtime::{Clock, FailPoints, fail_point::Hold};
use testkit::Running;

use crate::{
    harness::{Harness, claim},
    payments::{HELD, PAYMENTS, TEMPLATE, USABLE, payment, reasons},
};

const LOOK: &str = "payments.no_claim";

/// The milliseconds in ids count from this time.
const ID_EPOCH_MS: i64 = 1_288_834_974_657;

/// The id of a claim that is made at `at`.
pub(crate) fn id_of(at: DateTime<Utc>) -> ClaimId {
    ClaimId((at.timestamp_millis() - ID_EPOCH_MS) << 22)
}

/// When a payment that has waited since `since` is given up.
pub(crate) fn later(since: DateTime<Utc>) -> DateTime<Utc> {
    since + TimeDelta::seconds(60)
}

/// A claim that does not land, and its payment, which a lander has looked at once.
struct Early {
    test: Harness,
    claim: QueuedClaim,
    lander: Running,
    clock: Clock,
    /// When the payment was looked at first.
    first: DateTime<Utc>,
    points: FailPoints,
    landing: Hold,
    look: Hold,
}

impl Early {
    /// Makes the claim now: already queued, or still on its way to the topic.
    async fn new(name: &str, is_queued: bool) -> Self {
        let test = Harness::new(name).await;
        test.holding(TEMPLATE, 1).await;
        let mut connection = connect::single(&test.scope.endpoints.database_url).await.unwrap();
        let first = settings::server_time(&mut connection).await.unwrap();
        let clock = Clock::manual(first);
        let points = FailPoints::default();
        let mut landing = points.hold("lander.after_take");
        let mut look = points.hold(LOOK);
        let lander = test.start_on(&clock, |config| config.fail_points = points.clone());
        let mut claim = claim(TEMPLATE, 1);
        claim.admission.claim.id = id_of(first);
        if is_queued {
            test.queue(std::slice::from_ref(&claim)).await;
            landing.reached(1).await;
        }
        test.pay(&[payment(&claim, "early")]).await;
        look.reached(1).await;
        Self { test, claim, lander, clock, first, points, landing, look }
    }

    /// Ends the current look this many seconds after the first, and waits for the next one.
    async fn look_after(&mut self, seconds: i64) {
        self.clock.set(self.first + TimeDelta::seconds(seconds));
        let next = self.points.hold(LOOK);
        std::mem::replace(&mut self.look, next).let_go();
        self.look.reached(1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_waits_for_its_claim_while_the_queue_has_it() {
    let mut early = Early::new("payments early", true).await;
    for seconds in [0, 1, 3, 30, 59] {
        early.look_after(seconds).await;
    }
    let Early { test, lander, landing, look, .. } = early;
    assert_eq!(test.number(PAYMENTS).await, 0);
    landing.let_go();
    look.let_go();
    test.paid_up().await;
    let counts = [HELD, USABLE, PAYMENTS].map(|sql| test.number(sql));
    assert_eq!(futures::future::join_all(counts).await, [0, 1, 1]);
    assert!(test.dead_letters().await.is_empty());
    lander.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_waits_for_a_claim_that_has_not_reached_its_topic() {
    let mut early = Early::new("payments before the topic", false).await;
    for seconds in [0, 3, 4, 30, 59] {
        early.look_after(seconds).await;
    }
    let Early { test, claim, lander, landing, look, .. } = early;
    landing.let_go();
    test.queue(std::slice::from_ref(&claim)).await;
    test.caught_up().await;
    look.let_go();
    test.paid_up().await;
    let counts = [HELD, USABLE, PAYMENTS].map(|sql| test.number(sql));
    assert_eq!(futures::future::join_all(counts).await, [0, 1, 1]);
    assert!(test.dead_letters().await.is_empty());
    lander.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_whose_claim_does_not_land_for_a_minute_is_put_aside() {
    let mut early = Early::new("payments too early", true).await;
    early.look_after(0).await;
    early.clock.set(later(early.first));
    let Early { test, lander, landing, look, .. } = early;
    look.let_go();
    test.paid_up().await;
    let letters = reasons(&test.dead_letters().await);
    assert_eq!(letters, ["the claim had not landed 60 s later: it may wait in the queue"]);
    landing.let_go();
    test.caught_up().await;
    let counts = [HELD, PAYMENTS].map(|sql| test.number(sql));
    assert_eq!(futures::future::join_all(counts).await, [1, 0]);
    lander.stop().await.unwrap();
}

//! After the sale: the winners read their coupons, some use theirs, the rest expire.

use std::time::Duration;

use anyhow::{Result, ensure};
use chrono::TimeDelta;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use mysql_store::{
    connect,
    verify::{self as store, CouponCounts},
};
use shopper::{Claimed, CouponQuery};
use tokio::time::{Instant, sleep};
use verifier::{at_rest, verify};

use crate::{
    progress::ProgressLog,
    sale::{STOCK, Sale},
    stage::Stage,
};

/// Winners who use their coupon.
const USES: usize = 100;
/// How long the platform may take to come to rest; coupons that expire meanwhile keep it busy.
const REST_MAX: Duration = Duration::from_secs(30);
/// Concurrent requests.
const AT_A_TIME: usize = 32;
/// How long the last coupon may take to expire after the sale: its validity and some slack.
const EXPIRED_MAX: Duration = Duration::from_secs(45);
/// Polling interval for the remaining coupons.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Results of the phase after the sale.
pub(crate) struct Aftermath {
    /// Coupons in MySQL, by status.
    pub(crate) counts: CouponCounts,
    /// Promised claims that MySQL does not have.
    pub(crate) lost: usize,
    /// Lateness of the last flip.
    pub(crate) lateness_max: TimeDelta,
    /// Unexpected observations, a sentence each.
    pub(crate) problems: Vec<String>,
}

pub(crate) async fn live_on(
    stage: &Stage,
    sale: &Sale,
    progress: &ProgressLog,
) -> Result<Aftermath> {
    let mut problems = Vec::new();
    let winners: Vec<&Claimed> = sale.winners.values().collect();
    progress.say("the winners read \"my coupons\"");
    problems.extend(read_lists(stage, &winners).await?);
    progress.say(&format!("{USES} of them use their coupon, twice for the same order"));
    let users = &winners[..USES.min(winners.len())];
    problems.extend(use_coupons(stage, users).await?);
    progress.say("every invariant is checked while the others' coupons are still good");
    problems.extend(check(stage, sale).await?);
    progress.say("the others let theirs expire");
    let counts = await_expiry(stage, sale).await?;
    problems.extend(read_expired(stage, &winners).await?);
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    let landed = store::landed_claims(&mut connection, sale.template).await?;
    let kept = landed.iter().filter(|claim| sale.winners.contains_key(&claim.id)).count();
    let lateness = store::lateness(&mut connection, sale.template).await?;
    if counts.all() != STOCK {
        problems.push(format!("{} coupons were given, demand was for all {STOCK}", counts.all()));
    }
    Ok(Aftermath {
        counts,
        lost: winners.len() - kept,
        lateness_max: lateness.last().copied().unwrap_or_default(),
        problems,
    })
}

/// Checks that each winner's list shows exactly the promised coupon.
async fn read_lists(stage: &Stage, winners: &[&Claimed]) -> Result<Vec<String>> {
    each(winners, async |claimed| {
        let after = claimed.coupons.first().map(|coupon| coupon.id);
        let query = CouponQuery { after, ..CouponQuery::default() };
        let page = stage.api.shopper(claimed.user_id)?.coupons(&query).await?;
        let shown: Vec<_> = page.data.iter().map(|coupon| Some(coupon.id)).collect();
        Ok((shown != [after]).then(|| {
            format!("user {} was promised {after:?} and is shown {shown:?}", claimed.user_id)
        }))
    })
    .await
}

/// Checks that a coupon can be used, and that repeating the same order succeeds too.
async fn use_coupons(stage: &Stage, winners: &[&Claimed]) -> Result<Vec<String>> {
    each(winners, async |claimed| {
        let shopper = stage.api.shopper(claimed.user_id)?;
        let Some(coupon) = claimed.coupons.first() else { return Ok(None) };
        let order = format!("order-{}", claimed.user_id);
        let first = shopper.use_coupon(coupon.id, &order).await?;
        let again = shopper.use_coupon(coupon.id, &order).await?;
        let right = first.status == 200 && again.status == 200;
        Ok((!right).then(|| {
            format!("user {} could not use coupon {}: {}", claimed.user_id, coupon.id, first.body)
        }))
    })
    .await
}

/// Checks the invariants now, while the views are full. At the end they are empty, which is easier
/// to get right.
async fn check(stage: &Stage, sale: &Sale) -> Result<Vec<String>> {
    at_rest(&stage.sources, &stage.clock, REST_MAX).await?;
    let report = verify(&stage.sources, Some(&sale.run.history), stage.clock.now()).await?;
    Ok(report.violated().map(ToString::to_string).collect())
}

/// Waits until none of the template's coupons is unused.
async fn await_expiry(stage: &Stage, sale: &Sale) -> Result<CouponCounts> {
    let deadline = Instant::now() + EXPIRED_MAX;
    loop {
        let mut connection = connect::acquire(&stage.sources.pool).await?;
        let now = stage.clock.now();
        let counts = store::count_coupons(&mut connection, Some(sale.template), now).await?;
        if counts.unused == 0 {
            return Ok(counts);
        }
        ensure!(
            Instant::now() < deadline,
            "{} coupons are still unused {} s after the sale",
            counts.unused,
            EXPIRED_MAX.as_secs()
        );
        drop(connection);
        sleep(LOOK_EVERY).await;
    }
}

/// Checks that no winner is shown an unused coupon any more.
async fn read_expired(stage: &Stage, winners: &[&Claimed]) -> Result<Vec<String>> {
    each(winners, async |claimed| {
        let shopper = stage.api.shopper(claimed.user_id)?;
        let left = shopper.coupons(&CouponQuery::default()).await?.data;
        Ok((!left.is_empty()).then(|| format!("user {} is still shown {left:?}", claimed.user_id)))
    })
    .await
}

/// Applies `act` to the winners, some concurrently, and collects the problems.
async fn each(
    winners: &[&Claimed],
    act: impl AsyncFn(&Claimed) -> Result<Option<String>>,
) -> Result<Vec<String>> {
    let problems: Vec<Option<String>> = stream::iter(winners)
        .map(|claimed| act(claimed))
        .buffer_unordered(AT_A_TIME)
        .try_collect()
        .await?;
    Ok(problems.into_iter().flatten().collect())
}

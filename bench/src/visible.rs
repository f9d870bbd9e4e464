//! Time from the client's 201 until the list shows the coupon, at a given rate of claims.

use std::time::Duration;

use anyhow::{Result, ensure};
use chrono::TimeDelta;
use coupon::UserId;
use shopper::{CouponQuery, Crowd, Latency, NewTemplate, Wish};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::stage::Stage;

/// How long claims are sent.
const MEASURED: Duration = Duration::from_secs(5);
/// Claims are sent in slices of this length.
const SLICE: Duration = Duration::from_millis(20);
/// One in this many users polls the list; few, because polling is load too.
const WATCHING: i64 = 50;
/// The first user; smaller ids belong to the hot template.
const FIRST_USER: i64 = 1_000_000;
/// Concurrent requests per slice.
const CONNECTIONS: usize = 256;
/// How long a claim is retried.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures at `claims_per_s`.
///
/// # Errors
/// The platform fails, or a coupon never appeared.
///
/// # Panics
/// The task of a slice panicked.
pub async fn measure(stage: &Stage, claims_per_s: f64) -> Result<Latency> {
    let slices = MEASURED.as_millis() / SLICE.as_millis();
    let per_slice = ((claims_per_s * SLICE.as_secs_f64()).round() as i64).max(1);
    let claims = per_slice * i64::try_from(slices)?;
    let new = NewTemplate::simple("Visible", claims, stage.clock.now(), TimeDelta::hours(1));
    let template = stage.api.publish_new(&new).await?.id;
    for user in (0..claims).filter(|user| user % WATCHING == 0) {
        let shopper = stage.api.shopper(UserId(FIRST_USER + user))?;
        shopper.coupons(&CouponQuery::default()).await?;
    }
    let mut ticks = interval(SLICE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut tasks = JoinSet::new();
    for slice in 0..i64::try_from(slices)? {
        ticks.tick().await;
        let users = slice * per_slice..(slice + 1) * per_slice;
        let wish = |user| Wish {
            watch: user % WATCHING == 0,
            ..Wish::one(template, UserId(FIRST_USER + user))
        };
        let wishes = users.map(wish).collect();
        let crowd = Crowd::new(vec![stage.api.clone()], CONNECTIONS, PATIENCE);
        tasks.spawn(async move { crowd.run(wishes).await });
    }
    let mut visible = Latency::default();
    while let Some(run) = tasks.join_next().await {
        let run = run.expect("a slice does not panic")?;
        ensure!(run.never_visible == 0, "{} coupons never showed", run.never_visible);
        visible.add(&run.visible);
    }
    Ok(visible)
}

//! Claims over HTTP on one hot template: a closed loop of many keep-alive connections.

use std::time::Duration;

use anyhow::{Result, ensure};
use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use mysql_store::{connect, verify};
use shopper::{Crowd, NewTemplate, Run, Wish};

use crate::stage::Stage;

/// Measured claims, as far as a bench needs only their rate.
const CLAIMS: i64 = 30_000;
/// Claims before the measurement. They warm up connections, statements and code paths, and let the
/// broker's JVM compile its code; its first seconds cost several times as much.
const WARM_UP: i64 = 15_000;
/// Users of a warm-up who wait at the door at once, so that a long one takes no more memory than a short one.
const AT_ONCE: usize = 20_000;
/// Concurrent requests.
const CONNECTIONS: usize = 512;
/// How long a claim is retried.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Hot {
    /// Landed claims per second, counted in MySQL.
    pub landed_per_s: f64,
    /// Every answer.
    pub run: Run,
}

/// A template after its warm-up.
#[derive(Debug, Clone, Copy)]
pub struct Warm {
    template: TemplateId,
    /// Coupons that the warm-up took, by the users from 1 on.
    sold: i64,
}

/// Sells a template out to as many users as it has coupons.
///
/// # Errors
/// The platform fails, or not every coupon was sold.
pub async fn measure(stage: &Stage) -> Result<Hot> {
    measure_held(stage, None).await
}

/// Like [`measure`], with coupons that are held for `hold`.
///
/// # Errors
/// As those of [`measure`].
pub async fn measure_held(stage: &Stage, hold: Option<TimeDelta>) -> Result<Hot> {
    let warm = warm_up(stage, hold, WARM_UP, CLAIMS).await?;
    sell(stage, warm, CLAIMS).await
}

/// Publishes a template, and sells `sold` of its coupons before a measurement of `claims` claims.
pub async fn warm_up(
    stage: &Stage,
    hold: Option<TimeDelta>,
    sold: i64,
    claims: i64,
) -> Result<Warm> {
    let stock = claims + sold;
    let new = NewTemplate {
        hold_ms: hold.map(|hold| hold.num_milliseconds()),
        ..NewTemplate::simple("Hot", stock, stage.clock.now(), TimeDelta::hours(1))
    };
    let template = stage.api.publish_new(&new).await?.id;
    let crowd = crowd(stage);
    for first in (1..=sold).step_by(AT_ONCE) {
        let users = first..=sold.min(first + AT_ONCE as i64 - 1);
        crowd.run(users.map(|user| wish(template, user)).collect()).await?;
    }
    Ok(Warm { template, sold })
}

/// Sells the rest of the template, and measures that.
///
/// # Errors
/// The platform fails, or not every coupon was sold.
pub async fn sell(stage: &Stage, warm: Warm, claims: i64) -> Result<Hot> {
    let Warm { template, sold } = warm;
    let users = sold + 1..=sold + claims;
    let run = crowd(stage).run(users.map(|user| wish(template, user)).collect()).await?;
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    let now = stage.clock.now();
    let landed = verify::count_coupons(&mut connection, Some(template), now).await?.all();
    ensure!(landed == claims + sold, "{landed} of {} landed", claims + sold);
    Ok(Hot { landed_per_s: claims as f64 / run.elapsed.as_secs_f64(), run })
}

/// The crowd of these claims.
pub(crate) fn crowd(stage: &Stage) -> Crowd {
    Crowd::new(vec![stage.api.clone()], CONNECTIONS, PATIENCE)
}

/// A key is required with a hold, and sent without one too, so that only the hold differs.
pub(crate) fn wish(template: TemplateId, user: i64) -> Wish {
    Wish::one(template, UserId(user)).with_key(format!("visit-{user}"))
}

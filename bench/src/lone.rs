//! How late a coupon is flipped whose deadline no other shares.

use std::time::Duration;

use anyhow::{Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use coupon::{TemplateId, UserId};
use mysql_store::{MySqlPool, connect, verify};
use runtime::Clock;
use shopper::{Claimed, Latency, NewTemplate};
use tokio::time::{Instant, sleep};

use crate::stage::Stage;

/// Coupons, one after another.
const COUPONS: i64 = 200;

/// Pause between two claims, so that their deadlines are apart too.
const APART: Duration = Duration::from_millis(50);

/// How long each is valid.
const VALID_FOR: TimeDelta = TimeDelta::seconds(2);

/// The first user.
const FIRST_USER: i64 = 5_000_000;

/// How long all of them are waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks for flips: what it is, a lateness may seem longer than it was.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Claims the coupons and waits until they are flipped: from each deadline until another reader of MySQL has
/// seen the flip.
///
/// # Errors
/// The platform fails, or a coupon is not flipped.
pub async fn measure(stage: &Stage) -> Result<Latency> {
    let new = NewTemplate::simple("Lone", COUPONS, stage.clock.now(), VALID_FOR);
    let template = stage.api.publish_new(&new).await?.id;
    let pool = stage.sources.pool.clone();
    let flips = tokio::spawn(flips(pool, stage.clock.clone(), template));
    let mut deadlines = Vec::new();
    for user in FIRST_USER..FIRST_USER + COUPONS {
        let answer = stage.api.shopper(UserId(user))?.claim(template, None, 1).await?;
        ensure!(answer.status == 201, "a claim was refused: {}", answer.body);
        deadlines.push(answer.json::<Claimed>()?.valid_until);
        sleep(APART).await;
    }
    let mut latency = Latency::default();
    for (deadline, flipped) in deadlines.into_iter().zip(flips.await??) {
        latency.record((flipped - deadline).to_std().unwrap_or_default());
    }
    Ok(latency)
}

/// When each coupon was seen flipped; their deadlines are apart, so they come one after another.
async fn flips(pool: MySqlPool, clock: Clock, template: TemplateId) -> Result<Vec<DateTime<Utc>>> {
    let mut connection = connect::acquire(&pool).await?;
    let mut seen = Vec::new();
    let give_up = Instant::now() + PATIENCE;
    loop {
        let now = clock.now();
        let counts = verify::count_coupons(&mut connection, Some(template), now).await?;
        let flipped = usize::try_from(counts.expired)?;
        seen.resize(flipped, clock.now());
        if flipped == usize::try_from(COUPONS)? {
            return Ok(seen);
        }
        ensure!(Instant::now() < give_up, "{flipped} of {COUPONS} were flipped");
        sleep(LOOK_EVERY).await;
    }
}

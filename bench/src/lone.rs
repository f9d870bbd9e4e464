//! How late a coupon is flipped whose deadline no other shares.

use std::time::Duration;

use anyhow::{Result, ensure};
use chrono::TimeDelta;
use coupon::UserId;
use mysql_store::{connect, verify};
use shopper::{Latency, NewTemplate};
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

/// How long the last one is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// Claims the coupons and waits until they are flipped: from each deadline to the worker's clock when
/// it sent the flip.
///
/// # Errors
/// The platform fails, or a coupon is not flipped.
pub async fn measure(stage: &Stage) -> Result<Latency> {
    let new = NewTemplate::simple("Lone", COUPONS, stage.clock.now(), VALID_FOR);
    let template = stage.api.publish_new(&new).await?.id;
    for user in FIRST_USER..FIRST_USER + COUPONS {
        let answer = stage.api.shopper(UserId(user))?.claim(template, None, 1).await?;
        ensure!(answer.status == 201, "a claim was refused: {}", answer.body);
        sleep(APART).await;
    }
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    let give_up = Instant::now() + PATIENCE;
    loop {
        let late = verify::lateness(&mut connection, template).await?;
        if late.len() == usize::try_from(COUPONS)? {
            let mut latency = Latency::default();
            late.iter().for_each(|late| latency.record(late.to_std().unwrap_or_default()));
            return Ok(latency);
        }
        ensure!(Instant::now() < give_up, "{} of {COUPONS} were flipped", late.len());
        sleep(APART).await;
    }
}

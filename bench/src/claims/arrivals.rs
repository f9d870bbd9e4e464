//! Claims at a constant rate, whatever the answers take: an open loop. A latency counts from the moment at which a claim was
//! to be sent, so that a stall counts for everybody who would have come during it.

use std::time::Duration;

use anyhow::{Result, ensure};
use chrono::TimeDelta;
use coupon::UserId;
use shopper::{Latency, NewTemplate};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::stage::Stage;

/// Claims are sent in slices of this length.
const SLICE: Duration = Duration::from_millis(2);

/// Claims at `per_s` for so long, each by a user of its own, and returns how long their answers took.
///
/// # Errors
/// The platform fails, or a claim did not land.
///
/// # Panics
/// The task of a claim panicked.
pub async fn at_rate(stage: &Stage, per_s: f64, length: Duration) -> Result<Latency> {
    let claims = (per_s * length.as_secs_f64()).ceil() as i64;
    let new = NewTemplate::simple("Arrivals", claims, stage.clock.now(), TimeDelta::hours(1));
    let template = stage.api.publish_new(&new).await?.id;
    let (mut tasks, mut answered) = (JoinSet::new(), Latency::default());
    let began = Instant::now();
    let mut sent = 0;
    while sent < claims {
        let intended = began + SLICE.mul_f64((sent as f64 / per_s / SLICE.as_secs_f64()).floor());
        sleep_until(intended).await;
        let due = ((intended + SLICE - began).as_secs_f64() * per_s) as i64;
        let next = due.clamp(sent + 1, claims);
        for user in sent..next {
            let shopper = stage.api.shopper(UserId(user))?;
            tasks.spawn(async move {
                let answer = shopper.claim(template, None, 1).await?;
                ensure!(answer.status == 201, "a claim was answered {answer:?}");
                Ok(intended.elapsed())
            });
        }
        sent = next;
        while let Some(took) = tasks.try_join_next() {
            answered.record(took.expect("a claim does not panic")?);
        }
    }
    while let Some(took) = tasks.join_next().await {
        answered.record(took.expect("a claim does not panic")?);
    }
    Ok(answered)
}

//! Lateness of flips of coupons that share their deadline with no other.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponId, CouponStatus, UserId};
use mysql_store::{MySqlConnection, connect, user_coupon};
use shopper::{Claimed, Latency, NewTemplate};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::stage::Stage;

/// Coupons, one after another.
const COUPONS: i64 = 200;

/// Pause between two claims, so that their deadlines are apart too.
const APART: Duration = Duration::from_millis(50);

/// How long each coupon is valid.
const VALID_FOR: TimeDelta = TimeDelta::seconds(2);

const FIRST_USER: i64 = 5_000_000;

/// How long to wait for one flip.
const PATIENCE: Duration = Duration::from_secs(60);

/// Polling interval per coupon, which is also the most by which a lateness is overestimated.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A coupon and its deadline.
struct Lone {
    user: UserId,
    id: CouponId,
    deadline: DateTime<Utc>,
}

/// Claims the coupons and measures from each deadline until another reader of MySQL sees the flip.
///
/// # Errors
/// The platform fails, or a coupon is not flipped.
pub async fn measure(stage: &Stage) -> Result<Latency> {
    let new = NewTemplate::simple("Lone", COUPONS, stage.clock.now(), VALID_FOR);
    let template = stage.api.publish_new(&new).await?.id;
    let (claimed, mut waiting) = mpsc::unbounded_channel();
    let claim = async move {
        for user in (FIRST_USER..FIRST_USER + COUPONS).map(UserId) {
            let answer = stage.api.shopper(user)?.claim(template, None, 1).await?;
            ensure!(answer.status == 201, "a claim was refused: {}", answer.body);
            let claim = answer.json::<Claimed>()?;
            let id = claim.coupons.first().context("a claim without a coupon")?.id;
            claimed.send(Lone { user, id, deadline: claim.valid_until })?;
            sleep(APART).await;
        }
        Ok(())
    };
    let watch = async {
        let mut connection = connect::acquire(&stage.sources.pool).await?;
        let mut latency = Latency::default();
        while let Some(lone) = waiting.recv().await {
            let seen = timeout(PATIENCE, seen_flipped(&mut connection, stage, &lone)).await;
            let late = seen.context("a coupon was not flipped")?? - lone.deadline;
            latency.record(late.to_std().unwrap_or_default());
        }
        anyhow::Ok(latency)
    };
    let ((), latency) = tokio::try_join!(claim, watch)?;
    Ok(latency)
}

async fn seen_flipped(
    connection: &mut MySqlConnection,
    stage: &Stage,
    lone: &Lone,
) -> Result<DateTime<Utc>> {
    let early = lone.deadline - stage.clock.now();
    sleep(early.to_std().unwrap_or_default()).await;
    loop {
        let coupon = user_coupon::get(connection, lone.user, lone.id).await?;
        if coupon.context("a coupon is gone")?.status == CouponStatus::Expired {
            return Ok(stage.clock.now());
        }
        sleep(LOOK_EVERY).await;
    }
}

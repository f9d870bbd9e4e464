//! Claims accepted per second, and what lands behind them meanwhile; the time of a 202 at half of that rate.

use std::time::Duration;

use anyhow::{Result, ensure};
use coupon::UserId;
use shopper::{Crowd, Latency, Wish};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use super::{CONNECTIONS, PATIENCE, accept, landed, template, until_landed};
use crate::stage::Stage;

/// Measured claims, and those before the measurement: as many as of direct claims (`hot.rs`).
const CLAIMS: i64 = 30_000;
const WARM_UP: i64 = 15_000;

/// How long claims are sent at half load.
const MEASURED: Duration = Duration::from_secs(5);
/// They are sent in slices of this length.
const SLICE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct Accepted {
    /// Answers 202 per second.
    pub per_s: f64,
    /// Claims landed per second between the first request and the last answer, counted in MySQL.
    pub landed_per_s: f64,
    /// From request to 202, with as many requests at a time as there are connections.
    pub answered: Latency,
}

/// Sends claims as fast as they are accepted, after the topic.
///
/// # Errors
/// The platform fails, or a claim was not accepted or did not land.
pub async fn measure(stage: &Stage) -> Result<Accepted> {
    let all = WARM_UP + CLAIMS;
    let template = template(stage, all, "topic").await?;
    accept(stage, template, 0..WARM_UP).await?;
    until_landed(stage, template, WARM_UP).await?;
    let run = accept(stage, template, WARM_UP..all).await?;
    let seconds = run.elapsed.as_secs_f64();
    let meanwhile = landed(stage, template).await? - WARM_UP;
    until_landed(stage, template, all).await?;
    Ok(Accepted {
        per_s: CLAIMS as f64 / seconds,
        landed_per_s: meanwhile as f64 / seconds,
        answered: run.answered,
    })
}

/// Sends claims at a steady rate; returns the times to their 202.
///
/// # Errors
/// The platform fails, or a claim was not accepted or did not land.
///
/// # Panics
/// The task of a slice panicked.
pub async fn at_rate(stage: &Stage, after: &'static str, claims_per_s: f64) -> Result<Latency> {
    let slices = i64::try_from(MEASURED.as_millis() / SLICE.as_millis())?;
    let per_slice = ((claims_per_s * SLICE.as_secs_f64()).round() as i64).max(1);
    let claims = per_slice * slices;
    let template = template(stage, claims + 1, after).await?;
    // Accepted once a replica, which may have just been started, has caught up.
    accept(stage, template, claims..claims + 1).await?;
    let mut ticks = interval(SLICE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut tasks = JoinSet::new();
    for slice in 0..slices {
        ticks.tick().await;
        let users = slice * per_slice..(slice + 1) * per_slice;
        let wishes = users.map(|user| Wish::one(template, UserId(user))).collect();
        let crowd = Crowd::new(vec![stage.api.clone()], CONNECTIONS, PATIENCE).leaving();
        tasks.spawn(async move { crowd.run(wishes).await });
    }
    let (mut answered, mut accepted) = (Latency::default(), 0);
    while let Some(run) = tasks.join_next().await {
        let run = run.expect("a slice does not panic")?;
        accepted += i64::try_from(run.accepted.len())?;
        answered.add(&run.answered);
    }
    ensure!(accepted == claims, "{accepted} of {claims} claims were accepted");
    until_landed(stage, template, claims + 1).await?;
    Ok(answered)
}

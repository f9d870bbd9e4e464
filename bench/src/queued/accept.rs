//! Claims accepted per second, and what lands behind them meanwhile; the time of a 202 at half of that rate.

use std::{ops::Range, time::Duration};

use anyhow::{Result, bail, ensure};
use coupon::{TemplateId, UserId};
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

/// Most claims before a steady rate, until one is answered 202: a replica has caught up after one or two.
const WARM_UPS: i64 = 20;

/// Claims at a steady rate are sent in slices of this length.
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

/// Sends claims at a steady rate for `length`; returns the times to their 202.
///
/// # Errors
/// The platform fails, or a claim was not accepted or did not land.
///
/// # Panics
/// The task of a slice panicked.
pub async fn at_rate(
    stage: &Stage,
    after: &'static str,
    claims_per_s: f64,
    length: Duration,
) -> Result<Latency> {
    let slices = i64::try_from(length.as_millis() / SLICE.as_millis())?;
    let per_slice = ((claims_per_s * SLICE.as_secs_f64()).round() as i64).max(1);
    let claims = per_slice * slices;
    let template = template(stage, claims + WARM_UPS, after).await?;
    warm_up(stage, template, claims..claims + WARM_UPS).await?;
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
    let mut answered = Latency::default();
    let mut accepted = 0;
    while let Some(run) = tasks.join_next().await {
        let run = run.expect("a slice does not panic")?;
        accepted += i64::try_from(run.accepted.len())?;
        answered.add(&run.answered);
    }
    ensure!(accepted == claims, "{accepted} of {claims} claims were accepted");
    until_landed(stage, template, claims + 1).await?;
    Ok(answered)
}

/// Claims for one user after the other until one is answered 202. Until a replica that was just started has caught up, the
/// answer is "unknown", and the claim lands meanwhile.
async fn warm_up(stage: &Stage, template: TemplateId, users: Range<i64>) -> Result<()> {
    for user in users {
        let wishes = vec![Wish::one(template, UserId(user))];
        let crowd = Crowd::new(vec![stage.api.clone()], 1, PATIENCE).leaving();
        if !crowd.run(wishes).await?.accepted.is_empty() {
            return Ok(());
        }
    }
    bail!("none of {WARM_UPS} claims was answered 202")
}

//! Claims at a constant rate, regardless of the answers: an open loop. A latency counts from the intended time of
//! sending, so that a stall counts for every claim that was due during it.

use std::{iter, time::Duration};

use anyhow::{Result, ensure};
use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use shopper::{Latency, NewTemplate};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::stage::Stage;

/// Claims are sent in slices of this length.
const SLICE: Duration = Duration::from_millis(2);

/// A rate of claims, and their number.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub per_s: f64,
    pub claims: i64,
}

/// The answers.
#[derive(Debug)]
pub struct Arrived {
    pub answered: Latency,
    /// When the last 201 came.
    pub last: Instant,
}

impl Rate {
    /// The rate `per_s`, for `length`.
    pub fn for_length(per_s: f64, length: Duration) -> Self {
        Self { per_s, claims: (per_s * length.as_secs_f64()).ceil() as i64 }
    }
}

/// Claims at `per_s` for `length`, each by a user of its own, and returns how long their answers took.
///
/// # Errors
/// The platform fails, or a claim did not land.
///
/// # Panics
/// The task of a claim panicked.
pub async fn at_rate(stage: &Stage, per_s: f64, length: Duration) -> Result<Latency> {
    let rate = Rate::for_length(per_s, length);
    let new = NewTemplate::simple("Arrivals", rate.claims, stage.clock.now(), TimeDelta::hours(1));
    let template = stage.api.publish_new(&new).await?.id;
    Ok(send(stage, iter::repeat(template), rate).await?.answered)
}

/// Claims at this rate, each by a user of its own at the next of these templates, which do not end. Only unanswered claims
/// are kept in memory.
///
/// # Errors
/// The platform fails, or a claim did not land.
///
/// # Panics
/// The task of a claim panicked.
pub async fn send(
    stage: &Stage,
    mut templates: impl Iterator<Item = TemplateId>,
    rate: Rate,
) -> Result<Arrived> {
    let Rate { per_s, claims } = rate;
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    let mut arrived = Arrived { answered: Latency::default(), last: began };
    let mut sent = 0;
    while sent < claims {
        let intended = began + SLICE.mul_f64((sent as f64 / per_s / SLICE.as_secs_f64()).floor());
        sleep_until(intended).await;
        let due = ((intended + SLICE - began).as_secs_f64() * per_s) as i64;
        let next = due.clamp(sent + 1, claims);
        for (user, template) in (sent..next).zip(&mut templates) {
            let shopper = stage.api.shopper(UserId(user))?;
            tasks.spawn(async move {
                let answer = shopper.claim(template, None, 1).await?;
                ensure!(answer.status == 201, "a claim was answered {answer:?}");
                Ok((intended, Instant::now()))
            });
        }
        sent = next;
        while let Some(answer) = tasks.try_join_next() {
            let (intended, answered) = answer.expect("a claim does not panic")?;
            arrived.take(intended, answered);
        }
    }
    while let Some(answer) = tasks.join_next().await {
        let (intended, answered) = answer.expect("a claim does not panic")?;
        arrived.take(intended, answered);
    }
    Ok(arrived)
}

impl Arrived {
    fn take(&mut self, intended: Instant, answered: Instant) {
        self.answered.record(answered - intended);
        self.last = self.last.max(answered);
    }
}

//! Claims at a constant rate that the platform may be unable to land, each by a user of its own, over a limited number
//! of connections. A claim that finds no connection free is not sent: its user's browser would not have connected. No
//! claim is sent again, so only the first answers count.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use serde::Serialize;
use shopper::{Answer, Latency, NewTemplate};
use tokio::{
    task::JoinSet,
    time::{Instant, interval},
};

use crate::stage::Stage;

/// Claims are sent in slices of this length.
const SLICE: Duration = Duration::from_millis(2);

/// Interval at which the flooding user refills its open requests.
const REFILL: Duration = Duration::from_millis(1);

/// The user who floods; the others' ids are far smaller.
const FLOODER: UserId = UserId(1 << 41);

/// A load.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub per_s: f64,
    pub length: Duration,
    pub connections: usize,
}

/// The outcome of a load.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Claims that had a connection, and those that had none.
    pub sent: u64,
    pub unsent: u64,
    /// From sending to a 201.
    pub landed: Latency,
    /// From sending to any other answer.
    pub refused: Latency,
    /// Refusals by status and code.
    pub refusals: BTreeMap<String, u64>,
    /// Seconds in the answers' `Retry-After`; those that should have one and have none count as 0.
    pub retry_after: BTreeMap<u64, u64>,
    pub unanswered: u64,
}

/// The figures of an outcome, as JSON.
#[derive(Debug, Serialize)]
pub struct Figures {
    offered_per_s: f64,
    sent: u64,
    unsent: u64,
    landed_per_s: f64,
    landed_p50_ms: f64,
    landed_p99_ms: f64,
    landed_max_ms: f64,
    refused_p50_ms: f64,
    refused_p99_ms: f64,
    refusals: BTreeMap<String, u64>,
    retry_after_s: BTreeMap<u64, u64>,
    unanswered: u64,
}

impl Outcome {
    /// The figures of this outcome under `load`.
    pub fn figures(&self, load: Load) -> Figures {
        Figures {
            offered_per_s: load.per_s,
            sent: self.sent,
            unsent: self.unsent,
            landed_per_s: self.landed.count() as f64 / load.length.as_secs_f64(),
            landed_p50_ms: self.landed.ms(0.5),
            landed_p99_ms: self.landed.ms(0.99),
            landed_max_ms: self.landed.ms(1.0),
            refused_p50_ms: self.refused.ms(0.5),
            refused_p99_ms: self.refused.ms(0.99),
            refusals: self.refusals.clone(),
            retry_after_s: self.retry_after.clone(),
            unanswered: self.unanswered,
        }
    }

    fn take_finished(&mut self, tasks: &mut Tasks) {
        while let Some(answer) = tasks.try_join_next() {
            self.take(answer.expect("a claim does not panic"));
        }
    }

    fn take(&mut self, answered: Option<(Answer, Duration)>) {
        let Some((answer, took)) = answered else {
            self.unanswered += 1;
            return;
        };
        if answer.status == 201 {
            self.landed.record(took);
            return;
        }
        self.refused.record(took);
        let code = answer.code().unwrap_or_default();
        *self.refusals.entry(format!("{} {code}", answer.status)).or_default() += 1;
        if matches!(answer.status, 429 | 503) {
            *self.retry_after.entry(answer.retry_after.unwrap_or(0)).or_default() += 1;
        }
    }
}

/// Publishes a template that does not sell out under `load`, and sends its claims.
///
/// # Errors
/// The template cannot be published, or a token cannot be signed.
///
/// # Panics
/// The task of a claim panicked.
pub async fn send(stage: &Stage, load: Load) -> Result<Outcome> {
    let template = publish(stage, load).await?;
    let mut outcome = Outcome::default();
    send_to(stage, template, load, &mut outcome).await?;
    Ok(outcome)
}

/// Like [`send`], while one user claims over `lines` connections without a pause, each time with another key. Returns
/// the others' outcome and that user's.
///
/// # Errors
/// As those of [`send`].
///
/// # Panics
/// The task of a claim panicked.
pub async fn send_beside(stage: &Stage, load: Load, lines: usize) -> Result<[Outcome; 2]> {
    let template = publish(stage, load).await?;
    let [mut others, mut flooder] = [Outcome::default(), Outcome::default()];
    tokio::select! {
        sent = send_to(stage, template, load, &mut others) => sent?,
        flooded = flood(stage, template, lines, &mut flooder) => flooded?,
    }
    Ok([others, flooder])
}

async fn publish(stage: &Stage, load: Load) -> Result<TemplateId> {
    // The last slice may begin when the time is over.
    let stock = (load.per_s * (load.length + Duration::from_secs(1)).as_secs_f64()).ceil() as i64;
    let new = NewTemplate::simple("Overload", stock, stage.clock.now(), TimeDelta::hours(1));
    Ok(stage.api.publish_new(&new).await?.id)
}

type Tasks = JoinSet<Option<(Answer, Duration)>>;

async fn send_to(
    stage: &Stage,
    template: TemplateId,
    load: Load,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut tasks = Tasks::new();
    let mut slices = interval(SLICE);
    let began = Instant::now();
    let mut came = 0;
    while began.elapsed() < load.length {
        slices.tick().await;
        let due = ((began.elapsed() + SLICE).as_secs_f64() * load.per_s) as i64;
        for user in came..due {
            if tasks.len() < load.connections {
                claim(stage, &mut tasks, template, UserId(user), None)?;
                outcome.sent += 1;
            } else {
                outcome.unsent += 1;
            }
        }
        came = due;
        outcome.take_finished(&mut tasks);
    }
    while let Some(answer) = tasks.join_next().await {
        outcome.take(answer.expect("a claim does not panic"));
    }
    Ok(())
}

async fn flood(
    stage: &Stage,
    template: TemplateId,
    lines: usize,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut tasks = Tasks::new();
    let mut looks = interval(REFILL);
    loop {
        looks.tick().await;
        outcome.take_finished(&mut tasks);
        while tasks.len() < lines {
            claim(stage, &mut tasks, template, FLOODER, Some(format!("press-{}", outcome.sent)))?;
            outcome.sent += 1;
        }
    }
}

fn claim(
    stage: &Stage,
    tasks: &mut Tasks,
    template: TemplateId,
    user: UserId,
    key: Option<String>,
) -> Result<()> {
    let shopper = stage.api.shopper(user)?;
    tasks.spawn(async move {
        let began = Instant::now();
        let answer = shopper.claim(template, key.as_deref(), 1).await.ok()?;
        Some((answer, began.elapsed()))
    });
    Ok(())
}

//! `./dev bench grants`: how many users a job of grants serves each second, and how long a user's own claim takes meanwhile. Exit code
//! 1: something failed, or an invariant is broken afterwards.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    report::{self, Machine, conclude, quantiles, row},
    stage::{BareServers, Stage},
};
use anyhow::{Context as _, Result, ensure};
use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use reqwest::Method;
use serde::Serialize;
use serde_json::{Value, json};
use shopper::{Latency, NewTemplate};

/// Users of the job.
const USERS: i64 = 10_000;

/// First of the users who claim for themselves, so that they are others.
const FIRST_CLAIMER: i64 = 1_000_000;

/// Polling interval of the job: a fraction of its duration.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The figures and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    users: i64,
    seconds: f64,
    users_per_s: f64,
    claim_alone_p50_ms: f64,
    claim_alone_p99_ms: f64,
    claim_beside_p50_ms: f64,
    claim_beside_p99_ms: f64,
}

/// Runs it.
pub async fn run(json: Option<&Path>) -> Result<()> {
    let servers = BareServers::start().await?;
    let machine = report::machine(&servers)?;
    let mut stage = servers.platform().await?;
    let now = stage.clock.now();
    let new = NewTemplate::simple("grants", 10 * USERS, now, TimeDelta::hours(1));
    let template = stage.api.publish_new(&new).await?.id;

    let mut alone = Latency::default();
    for user in 0..200 {
        alone.record(claim(&stage, template, FIRST_CLAIMER + user).await?);
    }
    let began = Instant::now();
    let job = begin(&stage, template).await?;
    let mut beside = Latency::default();
    let mut user = FIRST_CLAIMER + 1_000;
    let seconds = loop {
        beside.record(claim(&stage, template, user).await?);
        user += 1;
        let seen = look(&stage, &job).await?;
        if seen["state"] == "finished" {
            ensure!(seen["outcomes"] == json!({ "granted": USERS }), "{seen}");
            break began.elapsed().as_secs_f64();
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    let users_per_s = USERS as f64 / seconds;
    row("granted", &format!("{USERS} users in {seconds:.2} s, {users_per_s:.0}/s"));
    row("a claim, alone", &quantiles(&alone));
    row("a claim, beside the job", &quantiles(&beside));
    let invariants = stage.verify().await?;
    stage.platform.stop().await?;
    servers.end().await?;
    let figures = Figures {
        machine,
        users: USERS,
        seconds,
        users_per_s,
        claim_alone_p50_ms: alone.ms(0.5),
        claim_alone_p99_ms: alone.ms(0.99),
        claim_beside_p50_ms: beside.ms(0.5),
        claim_beside_p99_ms: beside.ms(0.99),
    };
    conclude(json, &figures, &invariants)
}

/// A user claims; returns how long the answer took.
async fn claim(stage: &Stage, template: TemplateId, user: i64) -> Result<Duration> {
    let shopper = stage.api.shopper(UserId(user))?;
    let began = Instant::now();
    let answer = shopper.claim(template, None, 1).await?;
    ensure!(answer.status == 201, "{}", answer.body);
    Ok(began.elapsed())
}

async fn begin(stage: &Stage, template: TemplateId) -> Result<String> {
    let users: Vec<String> = (1..=USERS).map(|user| user.to_string()).collect();
    let path = format!("/v1/templates/{template}/grants");
    let request = stage.api.operator(Method::POST, &path).header("idempotency-key", "bench");
    let body = json!({ "user_ids": users, "reason": "bench" });
    let answer = stage.api.send(request.json(&body)).await?;
    ensure!(answer.status == 202, "{}", answer.body);
    let job: Value = answer.json()?;
    job["id"].as_str().map(str::to_owned).context("a job without an id")
}

async fn look(stage: &Stage, job: &str) -> Result<Value> {
    let path = format!("/v1/jobs/{job}");
    let answer = stage.api.send(stage.api.operator(Method::GET, &path)).await?;
    ensure!(answer.status == 200, "{}", answer.body);
    Ok(answer.json()?)
}

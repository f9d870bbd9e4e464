//! Claims at half of the capacity for minutes: how long their answers take, whether a process's memory grows, and how far
//! the view is behind at the end.

use std::{collections::BTreeMap, iter, time::Duration};

use anyhow::{Context as _, Result, ensure};
use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use serde::Serialize;
use shopper::{Claimed, CouponQuery, NewTemplate, Shopper};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    claims::arrivals::{self, Rate},
    machine::memory::{Memory, Samples},
    stage::{BareServers, Stage},
};

/// Users who claim after all others and poll for their coupons. This many are spread over every partition of the topic.
const LAST: i64 = 32;
/// The first of them; the others' ids are far smaller.
const FIRST_LAST: i64 = 1 << 40;
/// How long the last coupons may take to be listed: a view that is so far behind has hung.
const LISTED_MAX: Duration = Duration::from_secs(120);

/// What a steady load showed.
#[derive(Debug, Serialize)]
pub struct Steady {
    pub minutes: u64,
    pub claims_per_s: f64,
    pub claims: i64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
    /// From the last 201 to the moment at which the last users' lists show their coupons.
    pub listed_after_ms: f64,
    /// From the last 201 until nothing is under way anywhere, without the time of that check.
    pub at_rest_after_ms: f64,
    pub memory: BTreeMap<String, Memory>,
}

/// Claims at `claims_per_s` for `minutes`.
///
/// # Errors
/// The platform fails, a claim did not land, or a coupon was never listed.
///
/// # Panics
/// The task of a claim panicked.
pub async fn measure(
    servers: &BareServers,
    stage: &mut Stage,
    claims_per_s: f64,
    minutes: u64,
) -> Result<Steady> {
    let mut samples = Samples::of(stage.pids(servers)?);
    let length = Duration::from_secs(60 * minutes);
    let rate = Rate::for_length(claims_per_s, length);
    let template = publish(stage, rate, length).await?;
    let last = last_users(stage).await?;
    let arrived = tokio::select! {
        arrived = arrivals::send(stage, iter::repeat(template), rate) => arrived?,
        sampled = samples.take() => match sampled? {},
    };
    let memory = samples.end()?;
    let (last_answered, listed_after) = listed(last, template).await?;
    stage.at_rest().await?;
    let found = last_answered.elapsed();
    // The check itself takes seconds.
    let again = Instant::now();
    stage.at_rest().await?;
    let at_rest_after = found.saturating_sub(again.elapsed());
    let [p50_ms, p99_ms, p999_ms, max_ms] =
        [0.5, 0.99, 0.999, 1.0].map(|part| arrived.answered.ms(part));
    Ok(Steady {
        minutes,
        claims_per_s,
        claims: rate.claims,
        p50_ms,
        p99_ms,
        p999_ms,
        max_ms,
        listed_after_ms: listed_after.as_secs_f64() * 1e3,
        at_rest_after_ms: at_rest_after.as_secs_f64() * 1e3,
        memory,
    })
}

/// A template for these claims and the last users', with a window that does not close and coupons that do not end before
/// the bench does.
async fn publish(stage: &Stage, rate: Rate, length: Duration) -> Result<TemplateId> {
    let now = stage.clock.now();
    let new = NewTemplate {
        claim_ends_at: now + TimeDelta::from_std(length)? + TimeDelta::hours(1),
        ..NewTemplate::simple("Steady", rate.claims + LAST, now, TimeDelta::days(1))
    };
    Ok(stage.api.publish_new(&new).await?.id)
}

/// The last users. Each has read the list: otherwise the first read would come from MySQL.
async fn last_users(stage: &Stage) -> Result<Vec<Shopper>> {
    let mut users = Vec::new();
    for user in FIRST_LAST..FIRST_LAST + LAST {
        let shopper = stage.api.shopper(UserId(user))?;
        shopper.coupons(&CouponQuery::default()).await?;
        users.push(shopper);
    }
    Ok(users)
}

/// Claims for the last users at once, and returns when the last 201 came, and how long after it all coupons were listed.
async fn listed(users: Vec<Shopper>, template: TemplateId) -> Result<(Instant, Duration)> {
    let mut tasks = JoinSet::new();
    for shopper in users {
        tasks.spawn(async move {
            let answer = shopper.claim(template, None, 1).await?;
            let answered = Instant::now();
            ensure!(answer.status == 201, "a claim was answered {answer:?}");
            let claimed: Claimed = answer.json()?;
            let coupon = claimed.coupons.first().context("a claim without a coupon")?.id;
            let listed = shopper.until_visible(coupon, LISTED_MAX).await;
            listed.context("a coupon was never listed")?;
            Ok((answered, Instant::now()))
        });
    }
    let times: Result<Vec<(Instant, Instant)>> = tasks.join_all().await.into_iter().collect();
    let (answered, listed): (Vec<_>, Vec<_>) = times?.into_iter().unzip();
    let last = |times: Vec<Instant>| times.into_iter().max().context("there are no last users");
    let answered = last(answered)?;
    let listed = last(listed)?;
    Ok((answered, listed - answered))
}

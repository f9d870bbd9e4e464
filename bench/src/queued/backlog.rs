//! A backlog that drains: claims landed per second, and the error of the estimates that clients got.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use shopper::{Accepted, Fate};
use tokio::{task::JoinSet, time::Instant};

use super::{accept, template, until_landed};
use crate::stage::Stage;

/// Claims that wait when the lander starts.
const CLAIMS: i64 = 100_000;

/// Claims that are followed, spread over the second half of the backlog: their estimates are seconds long.
const FOLLOWED: usize = 200;

/// Estimates count after this time: by then the lander has published its rate.
const WARM_UP: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Drained {
    pub claims: i64,
    /// Claims landed per second, from the lander's start to the last.
    pub per_s: f64,
    /// The 90th percentile of the error of an estimate, as a share of the actual time.
    pub estimate_error_p90: f64,
    /// Estimates that were compared.
    pub estimates: usize,
}

/// Accepts the backlog while the lander is stopped, then starts it.
///
/// # Errors
/// The platform fails, or a claim was not accepted or did not land.
///
/// # Panics
/// The task of a client panicked.
pub async fn measure(stage: &mut Stage) -> Result<Drained> {
    let template = template(stage, CLAIMS, "topic").await?;
    stage.platform.lander.stop().await?;
    let accepted = accept(stage, template, 0..CLAIMS).await?.accepted;
    let mut waiting = accepted;
    waiting.sort_by_key(|claim| claim.id);
    let late = waiting.split_off(waiting.len() / 2);
    let mut clients = JoinSet::new();
    let began = Instant::now();
    stage.platform.lander.spawn()?;
    for claim in late.into_iter().step_by(usize::try_from(CLAIMS)? / 2 / FOLLOWED) {
        clients.spawn(follow(stage.api.clone(), claim, began));
    }
    until_landed(stage, template, CLAIMS).await?;
    let per_s = CLAIMS as f64 / began.elapsed().as_secs_f64();
    let mut errors = Vec::new();
    while let Some(client) = clients.join_next().await {
        errors.extend(client.expect("a client does not panic")?);
    }
    ensure!(!errors.is_empty(), "no client was told an estimate");
    errors.sort_by(f64::total_cmp);
    let estimate_error_p90 = errors[errors.len() * 9 / 10];
    Ok(Drained { claims: CLAIMS, per_s, estimate_error_p90, estimates: errors.len() })
}

/// Follows a claim's events to its end. Returns the error of the first estimate that counts, as a share of the actual
/// time.
async fn follow(api: shopper::Api, claim: Accepted, began: Instant) -> Result<Option<f64>> {
    let mut events = api.shopper(claim.user)?.events(&claim, None).await?;
    let mut estimate: Option<(Instant, f64)> = None;
    loop {
        let event = events.next().await?.context("the stream ended before the claim")?;
        match event.fate() {
            Some(Fate::Processing { estimated_ms: Some(ms), .. }) if began.elapsed() > WARM_UP => {
                estimate.get_or_insert((Instant::now(), ms as f64 / 1000.0));
            }
            Some(Fate::Processing { .. }) | None => {}
            Some(Fate::Succeeded { .. }) => break,
            Some(end) => anyhow::bail!("claim {} ended with {end:?}", claim.id),
        }
    }
    Ok(estimate.map(|(at, told)| {
        let actual = at.elapsed().as_secs_f64();
        (told - actual).abs() / actual
    }))
}

//! Claims over HTTP on a thousand templates beside claims on one. The load is that of `hot.rs`, but each user chooses a
//! template, uniformly or by Zipf's law. The one is measured again while the thousand are published and as many rows
//! are in MySQL.

use anyhow::{Result, ensure};
use chrono::TimeDelta;
use coupon::TemplateId;
use fastrand::Rng;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use mysql_store::{connect, verify};
use serde::Serialize;
use shopper::NewTemplate;

use crate::{claims::hot, stage::Stage};

/// Published templates.
const TEMPLATES: usize = 1_000;
/// Templates that are published at a time: enough to keep MySQL busy.
const PUBLISHED_AT_ONCE: usize = 16;
/// Measured claims of each kind: more than ten seconds.
const CLAIMS: i64 = 60_000;
/// Claims before them, after which the api knows each template.
const WARM_UP: i64 = 10_000;
/// Makes each run choose the same templates.
const SEED: u64 = 7;

/// Landed claims per second.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Spread {
    pub templates: usize,
    /// Before and after the others, on average.
    pub one_per_s: f64,
    pub uniform_per_s: f64,
    /// The template of rank n is n times as rare as the first.
    pub zipf_per_s: f64,
    pub uniform_over_one: f64,
    pub zipf_over_one: f64,
}

/// Publishes the templates, and measures claims on one, on all in both ways, and on the one again.
///
/// # Errors
/// The platform fails, or a claim did not land.
pub async fn measure(stage: &Stage) -> Result<Spread> {
    let mut users = 1..;
    let templates = publish_warm(stage, &mut users).await?;
    let mut choice = Choice::new(templates.len());
    let one_before = land(stage, &mut users, CLAIMS, || templates[0]).await?;
    stage.at_rest().await?;
    let uniform_per_s = land(stage, &mut users, CLAIMS, || templates[choice.uniform()]).await?;
    stage.at_rest().await?;
    let zipf_per_s = land(stage, &mut users, CLAIMS, || templates[choice.zipf()]).await?;
    stage.at_rest().await?;
    let one_after = land(stage, &mut users, CLAIMS, || templates[0]).await?;
    stage.at_rest().await?;
    let one_per_s = f64::midpoint(one_before, one_after);
    Ok(Spread {
        templates: templates.len(),
        one_per_s,
        uniform_per_s,
        zipf_per_s,
        uniform_over_one: uniform_per_s / one_per_s,
        zipf_over_one: zipf_per_s / one_per_s,
    })
}

/// Publishes the templates, and lands claims of these users until the api knows each.
///
/// # Errors
/// The platform fails, or a claim did not land.
pub async fn publish_warm(
    stage: &Stage,
    users: &mut impl Iterator<Item = i64>,
) -> Result<Vec<TemplateId>> {
    let templates = publish(stage).await?;
    let mut choice = Choice::new(templates.len());
    land(stage, users, WARM_UP, || templates[choice.uniform()]).await?;
    stage.at_rest().await?;
    Ok(templates)
}

async fn publish(stage: &Stage) -> Result<Vec<TemplateId>> {
    // No choice sells a template out.
    let stock = WARM_UP + 4 * CLAIMS;
    let new = NewTemplate::simple("One of many", stock, stage.clock.now(), TimeDelta::hours(1));
    let templates = stream::iter(0..TEMPLATES)
        .map(|_| stage.api.publish_new(&new))
        .buffer_unordered(PUBLISHED_AT_ONCE);
    Ok(templates.map_ok(|template| template.id).try_collect().await?)
}

/// Lands claims of the next users, and returns how many per second, counted in MySQL.
async fn land(
    stage: &Stage,
    users: &mut impl Iterator<Item = i64>,
    claims: i64,
    mut choose: impl FnMut() -> TemplateId,
) -> Result<f64> {
    let before = landed(stage).await?;
    let users = users.take(usize::try_from(claims)?);
    let wishes = users.map(|user| hot::wish(choose(), user)).collect();
    let run = hot::crowd(stage).run(wishes).await?;
    let landed = landed(stage).await? - before;
    ensure!(landed == claims, "{landed} of {claims} landed");
    Ok(claims as f64 / run.elapsed.as_secs_f64())
}

async fn landed(stage: &Stage) -> Result<i64> {
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    Ok(verify::count_coupons(&mut connection, None, stage.clock.now()).await?.all())
}

/// Chooses one of many.
struct Choice {
    rng: Rng,
    /// Sums of 1/rank.
    harmonic: Vec<f64>,
}

impl Choice {
    fn new(of: usize) -> Self {
        let mut sum = 0.0;
        let sums = (1..=of).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        let harmonic = sums.collect();
        Self { rng: Rng::with_seed(SEED), harmonic }
    }

    fn uniform(&mut self) -> usize {
        self.rng.usize(..self.harmonic.len())
    }

    fn zipf(&mut self) -> usize {
        let all = self.harmonic.last().copied().unwrap_or_default();
        let at = self.rng.f64() * all;
        self.harmonic.partition_point(|sum| *sum <= at)
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    #[test]
    fn the_first_of_a_thousand_is_taken_ten_times_as_often_as_the_tenth() {
        let mut choice = Choice::new(1_000);
        let chosen: Vec<usize> = iter::repeat_with(|| choice.zipf()).take(200_000).collect();
        let share = |of| chosen.iter().filter(|one| **one == of).count() as f64 / 200_000.0;
        // One over the sum of the thousand.
        assert!((share(0) - 0.1336).abs() < 0.004, "{}", share(0));
        assert!((share(9) - 0.01336).abs() < 0.001, "{}", share(9));
        assert!(chosen.iter().all(|one| *one < 1_000));
    }
}

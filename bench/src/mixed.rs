//! An ordinary day: claims at a steady rate, most of which end soon after, as expired coupons or lapsed holds. How late
//! the ends are, and what they cost the claims.

use std::time::Duration;

use anyhow::{Result, ensure};
use chrono::TimeDelta;
use coupon::{TemplateId, limit::STOCK_MAX};
use mysql_store::{connect, verify};
use shopper::{Latency, NewTemplate};
use tokio::time::sleep;

use crate::{
    closed,
    stage::Stage,
    storm::{Claimed, Claims},
};

/// Claims a second, of one coupon each.
pub const CLAIMS_PER_S: f64 = 110.0;

/// Of as many claims in a row, these end: 50 coupons and 45 holds a second. The others last.
const TURNS: usize = 22;
const EXPIRING: usize = 10;
const LAPSING: usize = 9;

/// Time from a claim to its end.
const LIFE: TimeDelta = TimeDelta::seconds(15);

/// How long what does not end is valid or held.
const LASTING: TimeDelta = TimeDelta::minutes(30);

/// How long claims whose coupons end are measured, once the first end.
const MEASURED: Duration = Duration::from_secs(120);

/// How long claims whose coupons last are measured, once before and once after.
const BASELINE: Duration = Duration::from_secs(60);

/// The templates of a load.
struct Templates {
    expiring: TemplateId,
    lapsing: TemplateId,
}

/// The results.
#[derive(Debug)]
pub struct Mixed {
    /// How long after their deadlines coupons expired.
    pub expired: Latency,
    /// How long after their deadlines holds lapsed.
    pub lapsed: Latency,
    /// Answers to claims while coupons end.
    pub claims: Latency,
    /// Answers to the same claims while none ends.
    pub claims_alone: Latency,
    /// Ends a second.
    pub ends_per_s: f64,
}

/// Measures.
///
/// # Errors
/// The platform fails, or nothing ended.
pub async fn measure(stage: &Stage) -> Result<Mixed> {
    let before = templates(stage, LASTING).await?;
    let mut claims_alone = claim(stage, &before, BASELINE).await?;
    let life = LIFE.to_std()?;
    let ending = templates(stage, LIFE).await?;
    let claims = claim(stage, &ending, life + MEASURED).await?;
    sleep(life).await;
    stage.at_rest().await?;
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    let expired = verify::lateness(&mut connection, ending.expiring).await?;
    let lapsed = verify::lateness(&mut connection, ending.lapsing).await?;
    let rounds = claims.count() as usize / TURNS;
    for (ended, each) in [(&expired, EXPIRING), (&lapsed, LAPSING)] {
        ensure!(ended.len() >= rounds * each, "{} of {} ended", ended.len(), rounds * each);
    }
    let ends = (expired.len() + lapsed.len()) as f64;
    let after = templates(stage, LASTING).await?;
    claims_alone.add(&claim(stage, &after, BASELINE).await?);
    let ends_per_s = ends / (life + MEASURED).as_secs_f64();
    let [expired, lapsed] = [expired, lapsed].map(|late| {
        closed::latency(late.into_iter().filter_map(|late| late.to_std().ok()).collect())
    });
    Ok(Mixed { expired, lapsed, claims, claims_alone, ends_per_s })
}

async fn templates(stage: &Stage, life: TimeDelta) -> Result<Templates> {
    let now = stage.clock.now();
    let expiring = NewTemplate::simple("Ends", STOCK_MAX, now, life);
    let lapsing = NewTemplate::simple("Held", STOCK_MAX, now, TimeDelta::days(1)).held_for(life);
    let expiring = stage.api.publish_new(&expiring).await?.id;
    let lapsing = stage.api.publish_new(&lapsing).await?.id;
    Ok(Templates { expiring, lapsing })
}

/// Claims for `time`, of each template as often as [`TURNS`] says.
async fn claim(stage: &Stage, templates: &Templates, time: Duration) -> Result<Latency> {
    let now = stage.clock.now();
    let lasting = NewTemplate::simple("Lasts", STOCK_MAX, now, LASTING);
    let lasting = stage.api.publish_new(&lasting).await?.id;
    // Spread over the turns, so that no second has ends of one kind alone.
    let turns = (0..TURNS).map(|turn| match turn * 7 % TURNS {
        turn if turn < EXPIRING => templates.expiring,
        turn if turn < EXPIRING + LAPSING => templates.lapsing,
        _ => lasting,
    });
    let claims = Claims::start_of(stage, turns.collect(), CLAIMS_PER_S);
    sleep(time).await;
    let Claimed { answered, .. } = claims.end().await?;
    Ok(answered)
}

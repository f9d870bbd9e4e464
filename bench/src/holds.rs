//! Holds that end in the same second, beside claims; lone holds; payments; a gate's rebuild.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimId, Epoch, TemplateId, UserId};
use mysql_store::{
    connect, stock,
    verify::{self, BULK_ROWS},
};
use reqwest::Method;
use shopper::{Api, Claimed, Crowd, Latency, NewTemplate, Wish};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{closed, stage::Stage, storm};

/// How long each step may take.
const PATIENCE: Duration = Duration::from_secs(1_200);

/// Polling interval of a template's stock, which is one row.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Lone holds, each of a template of its own with one coupon.
const LONE: i64 = 200;

/// How long each of them holds.
const LONE_HOLD: TimeDelta = TimeDelta::seconds(2);

/// Pause between two of them, so that their ends are apart too.
const APART: Duration = Duration::from_millis(100);

/// Pause between two users who want the unit of a lone hold: with an answer's time, the most by which a time is
/// overestimated.
const ASK_EVERY: Duration = Duration::from_millis(5);

/// The first user who wants one.
const FIRST_WAITING: i64 = 6_000_000;

/// Measured payments, of claims of one coupon each.
const PAYMENTS: i64 = 10_000;

/// Payments before the measurement.
const WARM_UP: i64 = 1_000;

/// The first user who pays.
const FIRST_PAYING: i64 = 7_000_000;

/// Payments at a time.
const PAYING: usize = 64;

/// Connections of the crowd that claims what is paid for.
const CLAIMING: usize = 512;

/// A template with many holds.
#[derive(Debug)]
pub struct HeldTemplate {
    template: TemplateId,
    coupons: i64,
}

/// The results of many holds that end together.
#[derive(Debug)]
pub struct Lapsed {
    /// Lapses per second, from the first to the last.
    pub per_s: f64,
    /// Time from the last lapse until the gate offers all of the stock again.
    pub on_sale_after: Duration,
}

/// Stops the worker, and inserts at least `coupons` holds of users from `first` on whose common end is now. Their template is
/// published, and its gate open.
pub async fn prepare(stage: &mut Stage, first: i64, coupons: i64) -> Result<HeldTemplate> {
    stage.platform.expiry_worker.stop().await?;
    let coupons = storm::rounded(coupons);
    let new = held_for("Holds", coupons, stage.clock.now(), TimeDelta::minutes(1));
    let template = stage.api.create(&new).await?.id;
    let mut connection = connect::single(&stage.platform.endpoints.database_url).await?;
    let now = stage.clock.now();
    for bulk in 0..coupons / BULK_ROWS {
        verify::hold_bulk(&mut connection, template, first + bulk * BULK_ROWS, now).await?;
    }
    stage.api.turn(template, "publish").await?;
    until_open(stage, template, Epoch(0)).await?;
    Ok(HeldTemplate { template, coupons })
}

/// Has the gate rebuilt, and returns the time until the new one is open.
pub async fn rebuild(stage: &Stage, held: &HeldTemplate) -> Result<Duration> {
    let meta = stage.sources.gate.meta(held.template).await?.context("the gate is not loaded")?;
    let began = Instant::now();
    let path = format!("/v1/templates/{}/gate-rebuild", held.template);
    let answer = stage.api.send(stage.api.operator(Method::POST, &path)).await?;
    ensure!(answer.status < 300, "a rebuild was refused: {}", answer.body);
    until_open(stage, held.template, meta.epoch).await?;
    Ok(began.elapsed())
}

/// Starts the worker, and waits until every hold has lapsed and its unit is on sale again.
///
/// # Errors
/// A hold did not lapse in time.
pub async fn lapse(stage: &mut Stage, held: &HeldTemplate) -> Result<Lapsed> {
    let mut connection = connect::single(&stage.platform.endpoints.database_url).await?;
    stage.platform.expiry_worker.spawn()?;
    let watch = async {
        let mut began = None;
        loop {
            let row = stock::get(&mut connection, held.template).await?;
            let back = row.context("a template without stock")?.stock;
            let now = Instant::now();
            if back > 0 && began.is_none() {
                began = Some((now, back));
            }
            if let Some((since, at)) = began.filter(|_| back == held.coupons) {
                return anyhow::Ok(((back - at) as f64 / (now - since).as_secs_f64(), now));
            }
            sleep(LOOK_EVERY).await;
        }
    };
    let (per_s, last) = timeout(PATIENCE, watch).await.context("not all holds lapsed")??;
    let on_sale = async {
        loop {
            let meta = stage.sources.gate.meta(held.template).await?;
            if meta.is_some_and(|meta| meta.is_open() && meta.stock == held.coupons) {
                return anyhow::Ok(last.elapsed());
            }
            sleep(LOOK_EVERY).await;
        }
    };
    let on_sale = timeout(PATIENCE, on_sale).await;
    let on_sale_after = on_sale.context("what lapsed did not come back to the gate")??;
    Ok(Lapsed { per_s, on_sale_after })
}

/// Measures from the end of a lone hold until another user has its unit.
///
/// # Errors
/// The platform fails, or a unit is not sold again.
///
/// # Panics
/// A task of the load panicked.
pub async fn lone(stage: &Stage) -> Result<Latency> {
    let mut templates = Vec::new();
    for _ in 0..LONE {
        let new = held_for("Lone", 1, stage.clock.now(), LONE_HOLD);
        templates.push(stage.api.publish_new(&new).await?.id);
    }
    for template in &templates {
        until_open(stage, *template, Epoch(0)).await?;
    }
    let mut tasks = JoinSet::new();
    for (number, template) in (0..).zip(templates) {
        let first = FIRST_WAITING + number * 10_000;
        let answer = stage.api.shopper(UserId(first))?.claim(template, Some("first"), 1).await?;
        ensure!(answer.status == 201, "a claim was refused: {}", answer.body);
        let ends = answer.json::<Claimed>()?.held_until.context("a claim that is not held")?;
        tasks.spawn(sold_again(stage.api.clone(), template, first + 1, ends));
        sleep(APART).await;
    }
    let times: Result<Vec<Duration>> = tasks.join_all().await.into_iter().collect();
    Ok(closed::latency(times?))
}

/// Claims the unit for one user after the other, from the end of its hold on.
async fn sold_again(
    api: Api,
    template: TemplateId,
    mut user: i64,
    ends: DateTime<Utc>,
) -> Result<Duration> {
    let early = ends - api.clock().now();
    sleep(early.to_std().unwrap_or_default()).await;
    let asked = async {
        loop {
            let answer = api.shopper(UserId(user))?.claim(template, Some("again"), 1).await?;
            let now = api.clock().now();
            match answer.status {
                201 => return Ok((now - ends).to_std().unwrap_or_default()),
                409 => user += 1,
                _ => ensure!(answer.is_passing(), "an odd answer: {}", answer.body),
            }
            sleep(ASK_EVERY).await;
        }
    };
    timeout(PATIENCE, asked).await.context("what lapsed was not sold again")?
}

/// Payments beside claims.
#[derive(Debug)]
pub struct Paid {
    /// Payments per second, each answered 200.
    pub per_s: f64,
    pub answered: Latency,
}

/// Claims coupons that are held, then pays for each, in a closed loop.
///
/// # Errors
/// The platform fails, or a payment is refused.
pub async fn pay(stage: &Stage) -> Result<Paid> {
    let stock = WARM_UP + PAYMENTS;
    let new = held_for("Paid", stock, stage.clock.now(), TimeDelta::hours(1));
    let template = stage.api.publish_new(&new).await?.id;
    let wishes = (0..stock).map(|user| {
        Wish::one(template, UserId(FIRST_PAYING + user)).with_key(format!("visit-{user}"))
    });
    let crowd = Crowd::new(vec![stage.api.clone()], CLAIMING, Duration::from_secs(60));
    crowd.run(wishes.collect()).await?;
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    let landed = verify::landed_claims(&mut connection, template).await?;
    let mut claims: Vec<ClaimId> = landed.into_iter().map(|claim| claim.id).collect();
    ensure!(i64::try_from(claims.len())? == stock, "{} of {stock} landed", claims.len());
    let measured = claims.split_off(usize::try_from(WARM_UP)?);
    let api = stage.api.clone();
    let send = move |claim| {
        let api = api.clone();
        async move { confirm(&api, claim).await }
    };
    closed::run(PAYING, claims, send.clone()).await?;
    let beside = storm::Claims::start(stage, BESIDE_PER_S).await?;
    let began = Instant::now();
    let times = closed::run(PAYING, measured, send).await;
    let elapsed = began.elapsed();
    beside.end().await?;
    let now = stage.clock.now();
    let counts = verify::count_coupons(&mut connection, Some(template), now).await?;
    ensure!(counts.unused == stock, "{} of {stock} coupons are paid for", counts.unused);
    let per_s = PAYMENTS as f64 / elapsed.as_secs_f64();
    Ok(Paid { per_s, answered: closed::latency(times?) })
}

/// Claims per second beside payments.
pub const BESIDE_PER_S: f64 = 500.0;

async fn confirm(api: &Api, claim: ClaimId) -> Result<()> {
    let answer = api.confirm(claim, &format!("pay-{claim}"), None).await;
    let answer = answer.context("no answer to a payment")?;
    ensure!(answer.status == 200, "a payment was refused: {}", answer.body);
    Ok(())
}

fn held_for(name: &str, stock: i64, now: DateTime<Utc>, hold: TimeDelta) -> NewTemplate {
    NewTemplate::simple(name, stock, now, TimeDelta::days(1)).held_for(hold)
}

/// Waits until the gate of a template is open under a later epoch.
async fn until_open(stage: &Stage, template: TemplateId, after: Epoch) -> Result<()> {
    let open = async {
        loop {
            let meta = stage.sources.gate.meta(template).await?;
            if meta.is_some_and(|meta| meta.is_open() && meta.epoch > after) {
                return anyhow::Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(PATIENCE, open).await.context("a gate was not loaded")?
}

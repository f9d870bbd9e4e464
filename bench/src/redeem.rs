//! Redemptions over HTTP, one coupon and one order each: a closed loop of keep-alive connections for the rate, then half of
//! that rate at constant intervals for the time of an answer.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chrono::TimeDelta;
use coupon::{CouponId, UserId};
use mysql_store::{connect, verify};
use reqwest::Method;
use serde_json::json;
use shopper::{Api, Crowd, Latency, NewTemplate, Wish};
use tokio::{
    task::JoinSet,
    time::{Instant as Moment, sleep_until},
};

use crate::{closed, stage::Stage};

/// Measured redemptions.
const REDEMPTIONS: usize = 10_000;
/// Redemptions at half of the measured rate: some seconds.
const PACED: usize = 6_000;
/// Redemptions before the measurement: connections, statements and code paths.
const WARM_UP: usize = 2_000;
/// Concurrent requests: far more than the api has connections to MySQL.
const CONNECTIONS: usize = 64;
/// Connections of the crowd that claims the coupons.
const CLAIMING: usize = 512;
/// How long a claim is retried.
const PATIENCE: Duration = Duration::from_secs(30);
/// The first user; smaller ids belong to the hot template.
const FIRST_USER: i64 = 2_000_000;
/// What each order costs, in minor units.
const AMOUNT: i64 = 5_000;

#[derive(Debug)]
pub struct Redeemed {
    /// Redemptions per second, each answered 201.
    pub per_s: f64,
    /// From request to answer, at the full rate.
    pub answered: Latency,
    /// From the intended start to the answer, at half of the rate.
    pub at_half: Latency,
}

/// Claims the coupons, then redeems each for an order of its own.
///
/// # Errors
/// The platform fails, or a redemption is refused.
///
/// # Panics
/// A task of the load panicked.
pub async fn measure(stage: &Stage) -> Result<Redeemed> {
    let coupons = WARM_UP + REDEMPTIONS + PACED;
    let stock = i64::try_from(coupons)?;
    let new = NewTemplate::simple("Redeem", stock, stage.clock.now(), TimeDelta::hours(1));
    let template = stage.api.publish_new(&new).await?.id;
    let wishes = (0..stock).map(|user| Wish::one(template, UserId(FIRST_USER + user))).collect();
    Crowd::new(vec![stage.api.clone()], CLAIMING, PATIENCE).run(wishes).await?;
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    let landed = verify::landed_claims(&mut connection, template).await?;
    let mut ids: Vec<CouponId> = landed.into_iter().flat_map(|claim| claim.coupons).collect();
    ensure!(ids.len() == coupons, "{} of {coupons} coupons landed", ids.len());
    let paced = ids.split_off(WARM_UP + REDEMPTIONS);
    let measured = ids.split_off(WARM_UP);
    run(&stage.api, ids).await?;
    let began = Instant::now();
    let times = run(&stage.api, measured).await?;
    let per_s = REDEMPTIONS as f64 / began.elapsed().as_secs_f64();
    let half = run_paced(&stage.api, paced, per_s / 2.0).await?;
    let used = verify::count_coupons(&mut connection, Some(template), stage.clock.now()).await?;
    ensure!(used.used == stock, "{} of {stock} coupons are used", used.used);
    Ok(Redeemed { per_s, answered: closed::latency(times), at_half: closed::latency(half) })
}

/// Redeems these coupons at constant intervals, whether or not earlier ones are answered.
async fn run_paced(api: &Api, coupons: Vec<CouponId>, per_s: f64) -> Result<Vec<Duration>> {
    let first = Moment::now();
    let mut tasks = JoinSet::new();
    for (number, coupon) in coupons.into_iter().enumerate() {
        let intended = first + Duration::from_secs_f64(number as f64 / per_s);
        sleep_until(intended).await;
        let api = api.clone();
        tasks.spawn(async move {
            redeem(&api, coupon).await?;
            anyhow::Ok(intended.elapsed())
        });
    }
    tasks.join_all().await.into_iter().collect()
}

async fn redeem(api: &Api, coupon: CouponId) -> Result<()> {
    let body = json!({
        "order_ref": format!("order-{coupon}"), "amount": AMOUNT, "currency": "EUR",
        "coupons": [coupon.to_string()],
    });
    let request = api.operator(Method::POST, "/v1/redemptions").json(&body);
    let answer = api.send(request).await.context("no answer to a redemption")?;
    ensure!(answer.status == 201, "a redemption was refused: {}", answer.body);
    Ok(())
}

/// Redeems these coupons, and returns how long each took.
async fn run(api: &Api, coupons: Vec<CouponId>) -> Result<Vec<Duration>> {
    let api = api.clone();
    let send = move |coupon| {
        let api = api.clone();
        async move { redeem(&api, coupon).await }
    };
    closed::run(CONNECTIONS, coupons, send).await
}

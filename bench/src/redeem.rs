//! Redemptions over HTTP: a closed loop of keep-alive connections, one coupon and one order each.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use chrono::TimeDelta;
use coupon::{CouponId, UserId};
use mysql_store::{connect, verify};
use reqwest::Method;
use serde_json::json;
use shopper::{Api, Crowd, Latency, NewTemplate, Wish};
use tokio::task::JoinSet;

use crate::stage::Stage;

/// Measured redemptions.
const REDEMPTIONS: usize = 10_000;
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
    /// From request to answer.
    pub answered: Latency,
}

/// Claims the coupons, then redeems each for an order of its own.
///
/// # Errors
/// The platform fails, or a redemption is refused.
///
/// # Panics
/// A task of the load panicked.
pub async fn measure(stage: &Stage) -> Result<Redeemed> {
    let coupons = WARM_UP + REDEMPTIONS;
    let stock = i64::try_from(coupons)?;
    let new = NewTemplate::simple("Redeem", stock, stage.clock.now(), TimeDelta::hours(1));
    let template = stage.api.publish_new(&new).await?.id;
    let wishes = (0..stock).map(|user| Wish::one(template, UserId(FIRST_USER + user))).collect();
    Crowd::new(vec![stage.api.clone()], CLAIMING, PATIENCE).run(wishes).await?;
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    let landed = verify::landed_claims(&mut connection, template).await?;
    let mut ids: Vec<CouponId> = landed.into_iter().flat_map(|claim| claim.coupons).collect();
    ensure!(ids.len() == coupons, "{} of {coupons} coupons landed", ids.len());
    let measured = ids.split_off(WARM_UP);
    run(&stage.api, ids).await?;
    let began = Instant::now();
    let times = run(&stage.api, measured).await?;
    let per_s = REDEMPTIONS as f64 / began.elapsed().as_secs_f64();
    let used = verify::count_coupons(&mut connection, Some(template), stage.clock.now()).await?;
    ensure!(used.used == stock, "{} of {stock} coupons are used", used.used);
    let mut answered = Latency::default();
    times.into_iter().for_each(|time| answered.record(time));
    Ok(Redeemed { per_s, answered })
}

/// Redeems these coupons, and returns how long each took.
async fn run(api: &Api, coupons: Vec<CouponId>) -> Result<Vec<Duration>> {
    let left = Arc::new(Mutex::new(coupons));
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (api, left) = (api.clone(), Arc::clone(&left));
        tasks.spawn(async move {
            let mut times = Vec::new();
            while let Some(coupon) = next(&left) {
                let body = json!({
                    "order_ref": format!("order-{coupon}"), "amount": AMOUNT, "currency": "EUR",
                    "coupons": [coupon.to_string()],
                });
                let began = Instant::now();
                let request = api.operator(Method::POST, "/v1/redemptions").json(&body);
                let answer = api.send(request).await.context("no answer to a redemption")?;
                ensure!(answer.status == 201, "a redemption was refused: {}", answer.body);
                times.push(began.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let times: Result<Vec<Vec<Duration>>> = tasks.join_all().await.into_iter().collect();
    Ok(times?.concat())
}

fn next(left: &Mutex<Vec<CouponId>>) -> Option<CouponId> {
    left.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

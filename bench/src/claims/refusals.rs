//! Sold-out refusals per second beside a bare axum route, which checks the same token, reads the same body and refuses.

use std::{sync::Arc, time::Instant};

use anyhow::{Result, ensure};
use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    routing::post,
};
use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use jsonwebtoken::{DecodingKey, Validation};
use serde::Deserialize;
use serde_json::{Value, json};
use shopper::{Api, NewTemplate, Shopper};

use crate::{
    bare::{self, Bare},
    closed,
    stage::Stage,
};

/// Measured requests, and those before the measurement, each of a user of its own.
const REQUESTS: i64 = 60_000;
const WARM_UP: i64 = 20_000;

/// Concurrent requests.
const CONNECTIONS: usize = 256;

/// The first user who comes too late.
const FIRST_LATE: i64 = 3_000_000;

/// One in this many requests is a winner's repetition, which gets its 201.
const WINNERS: i64 = 100;

/// Options of the bare route's process: the users' secret, which no list of processes shows.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    #[arg(long, env = "BARE_SECRET")]
    secret: String,
}

/// Requests per second.
#[derive(Debug)]
pub struct Refused {
    pub per_s: f64,
    pub bare_per_s: f64,
}

/// Measures refusals of a template that is sold out, then the bare route.
///
/// # Errors
/// The platform or the bare route fails, or an answer is another one.
pub async fn measure(stage: &Stage) -> Result<Refused> {
    let winners = REQUESTS / WINNERS;
    let new = NewTemplate::simple("Sold out", winners, stage.clock.now(), TimeDelta::hours(1));
    let template = stage.api.publish_new(&new).await?.id;
    for user in 0..winners {
        let answer = stage.api.shopper(UserId(FIRST_LATE + user))?.claim(template, None, 1).await?;
        ensure!(answer.status == 201, "a winner was answered {answer:?}");
    }
    let per_s = per_second(&stage.api, template, winners, 201).await?;
    let options = &stage.platform.options;
    let mut again = Bare::again("claims")?;
    again.env("BARE_SECRET", &options.jwt_secret);
    let bare = Bare::run(again).await?;
    let api = Api::new(&bare.url, &options.jwt_secret, &options.operator_key, stage.clock.clone())?;
    let bare_per_s = per_second(&api, template, winners, 409).await?;
    Ok(Refused { per_s, bare_per_s })
}

/// Sends requests of which one in a hundred is a winner's, whose answer has the status `again`.
async fn per_second(api: &Api, template: TemplateId, winners: i64, again: u16) -> Result<f64> {
    let wish = |request: i64| {
        let is_winner = request % WINNERS == 0;
        let user = if is_winner { request / WINNERS % winners } else { winners + request };
        let expected = if is_winner { again } else { 409 };
        anyhow::Ok((api.shopper(UserId(FIRST_LATE + user))?, expected))
    };
    let send = move |(shopper, expected): (Shopper, u16)| async move {
        let answer = shopper.claim(template, None, 1).await?;
        ensure!(answer.status == expected, "a late claim was answered {answer:?}");
        Ok(())
    };
    let warm_up = (0..WARM_UP).map(wish).collect::<Result<_>>()?;
    closed::run(CONNECTIONS, warm_up, send).await?;
    let measured = (WARM_UP..WARM_UP + REQUESTS).map(wish).collect::<Result<_>>()?;
    let began = Instant::now();
    closed::run(CONNECTIONS, measured, send).await?;
    Ok(REQUESTS as f64 / began.elapsed().as_secs_f64())
}

/// Serves the bare route until the process is killed, after printing its address to standard output.
///
/// # Errors
/// No port is free.
pub async fn serve(options: Options) -> Result<()> {
    let key = Arc::new(DecodingKey::from_secret(options.secret.as_bytes()));
    let route = Router::new().route("/v1/templates/{template}/claims", post(refuse));
    bare::listen(route.with_state(key)).await
}

#[derive(Deserialize)]
struct Token {
    sub: String,
}

#[derive(Deserialize)]
struct Body {
    quantity: u32,
}

async fn refuse(
    State(key): State<Arc<DecodingKey>>,
    headers: HeaderMap,
    Json(body): Json<Body>,
) -> (StatusCode, Json<Value>) {
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bearer "));
    let read =
        token.map(|token| jsonwebtoken::decode::<Token>(token, &key, &Validation::default()));
    match read {
        Some(Ok(token)) if body.quantity > 0 => {
            let detail = format!("Nothing is left for user {}.", token.claims.sub);
            (StatusCode::CONFLICT, Json(json!({ "code": "SOLD_OUT", "detail": detail })))
        }
        _ => (StatusCode::UNAUTHORIZED, Json(Value::Null)),
    }
}

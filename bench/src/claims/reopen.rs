//! How long an api keeps refusing after coupons were added: two apis refuse from memory, and new users keep claiming at
//! each of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use reqwest::Method;
use serde_json::json;
use shopper::{Api, Latency, NewTemplate};
use tokio::{sync::watch, task::JoinSet};

use crate::stage::Stage;

/// How often coupons are added in total, and to how many templates at a time.
const TRIALS: usize = 1_000;
const TEMPLATES: usize = 10;

/// How long users ask before coupons are added: by then both apis refuse from memory, or rest from reading users.
const BEFORE: Duration = Duration::from_millis(500);

/// The apis.
pub const APIS: usize = 2;

/// How long the apis kept refusing.
#[derive(Debug)]
pub struct Reopened {
    /// From the request that added coupons to the first 201 of an api.
    pub after: Latency,
    /// Share of the refusals that were given from memory.
    pub from_memory: f64,
}

/// Measures on a stage with [`APIS`] apis.
///
/// # Errors
/// The platform fails, or too few refusals came from memory.
///
/// # Panics
/// A task of the load panicked.
pub async fn measure(stage: &Stage) -> Result<Reopened> {
    let options = &stage.platform.options;
    let api = |url: &String| {
        Api::new(url, &options.jwt_secret, &options.operator_key, stage.clock.clone())
    };
    let apis: Vec<Api> = stage.platform.api_urls().iter().map(api).collect::<Result<_, _>>()?;
    ensure!(apis.len() == APIS, "the stage has {} apis", apis.len());
    let refused = Arc::new(AtomicI64::new(0));
    let mut sales = JoinSet::new();
    for _ in 0..TEMPLATES {
        let new = NewTemplate::simple("Reopened", 1, stage.clock.now(), TimeDelta::hours(1));
        let template = stage.api.publish_new(&new).await?.id;
        let sale = Sale {
            apis: apis.clone(),
            template,
            next_user: Arc::new(AtomicI64::new(1)),
            refused: Arc::clone(&refused),
        };
        sales.spawn(async move { sale.run().await });
    }
    let mut after = Latency::default();
    for times in sales.join_all().await {
        times?.into_iter().for_each(|time| after.record(time));
    }
    let mut from_memory = 0.0;
    for api in &stage.platform.apis {
        from_memory += api.metric("coupon_local_refusals_total").await.unwrap_or(0.0);
    }
    from_memory /= refused.load(Ordering::Relaxed) as f64;
    ensure!(from_memory > 0.2, "only {from_memory:.2} of the refusals came from memory");
    Ok(Reopened { after, from_memory })
}

#[derive(Clone)]
struct Sale {
    apis: Vec<Api>,
    template: TemplateId,
    next_user: Arc<AtomicI64>,
    refused: Arc<AtomicI64>,
}

impl Sale {
    async fn run(self) -> Result<Vec<Duration>> {
        ensure!(self.claim(&self.apis[0]).await?, "the only coupon is not to be had");
        let mut times = Vec::new();
        for trial in 0..TRIALS / TEMPLATES {
            let (added, _) = watch::channel(None);
            let mut asking = JoinSet::new();
            for api in &self.apis {
                let sale = self.clone();
                let api = api.clone();
                let added = added.subscribe();
                asking.spawn(async move { sale.ask_on(&api, &added).await });
            }
            tokio::time::sleep(BEFORE).await;
            added.send_replace(Some(Instant::now()));
            self.add(&self.apis[trial % APIS], trial).await?;
            for time in asking.join_all().await {
                times.push(time?);
            }
        }
        Ok(times)
    }

    /// Claims for one user after the other until one gets a coupon. Returns how long that was after coupons were added.
    async fn ask_on(
        &self,
        api: &Api,
        added: &watch::Receiver<Option<Instant>>,
    ) -> Result<Duration> {
        while !self.claim(api).await? {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        let added = *added.borrow();
        Ok(added.context("a coupon was given out before it was added")?.elapsed())
    }

    /// Claims for a user who has not claimed before. Returns whether there was a coupon.
    async fn claim(&self, api: &Api) -> Result<bool> {
        let user = UserId(self.next_user.fetch_add(1, Ordering::Relaxed));
        let answer = api.shopper(user)?.claim(self.template, None, 1).await?;
        ensure!(matches!(answer.status, 201 | 409), "a claim was answered {answer:?}");
        Ok(answer.status == 201)
    }

    /// Adds a coupon for each api.
    async fn add(&self, api: &Api, trial: usize) -> Result<()> {
        let path = format!("/v1/templates/{}/stock-movements", self.template);
        let request = api.operator(Method::POST, &path);
        let request = request.header("idempotency-key", format!("trial-{trial}"));
        let body = json!({ "delta": APIS, "reason": "reopened" });
        let answer = api.send(request.header("if-match", "*").json(&body)).await?;
        ensure!(answer.status == 201, "adding coupons was answered {answer:?}");
        Ok(())
    }
}

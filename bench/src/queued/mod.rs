//! Queued claims: how many are accepted and land each second, how soon a 202 comes, how a backlog drains, and what waiting
//! clients cost.

pub mod accept;
pub mod backlog;
pub mod relay;
pub mod waiting;

use std::{ops::Range, time::Duration};

use anyhow::{Context as _, Result, ensure};
use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use mysql_store::{connect, verify};
use shopper::{Crowd, NewTemplate, Run, Wish};
use tokio::time::{sleep, timeout};

use crate::stage::Stage;

/// Concurrent requests of a crowd.
const CONNECTIONS: usize = 512;

/// How long a claim is retried.
const PATIENCE: Duration = Duration::from_secs(30);

/// Polling interval of MySQL and the gate.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long a backlog may take to land.
const LAND_MAX: Duration = Duration::from_secs(600);

/// Publishes a template whose claims are queued and answered 202 after `after`.
async fn template(stage: &Stage, stock: i64, after: &'static str) -> Result<TemplateId> {
    let new = NewTemplate::simple("Queued", stock, stage.clock.now(), TimeDelta::hours(1));
    Ok(stage.api.publish_new(&new.in_mode("queued", after)).await?.id)
}

/// Claims of these users, each answered 202.
async fn accept(stage: &Stage, template: TemplateId, users: Range<i64>) -> Result<Run> {
    let claims = usize::try_from(users.end - users.start)?;
    let wishes = users.map(|user| Wish::one(template, UserId(user))).collect();
    let crowd = Crowd::new(vec![stage.api.clone()], CONNECTIONS, PATIENCE).leaving();
    let run = crowd.run(wishes).await?;
    let accepted = run.accepted.len();
    ensure!(accepted == claims, "{accepted} of {claims} claims were accepted");
    Ok(run)
}

/// Coupons of a template in MySQL.
async fn landed(stage: &Stage, template: TemplateId) -> Result<i64> {
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    let counts = verify::count_coupons(&mut connection, Some(template), stage.clock.now()).await?;
    Ok(counts.all())
}

/// Waits until a template has this many coupons.
async fn until_landed(stage: &Stage, template: TemplateId, coupons: i64) -> Result<()> {
    let land = async {
        while landed(stage, template).await? < coupons {
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    };
    timeout(LAND_MAX, land).await.context("not every claim landed")?
}

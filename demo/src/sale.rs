//! The sale: 5,000 users at once claim from a template of 1,000 coupons, one for each user.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use chrono::TimeDelta;
use coupon::{ClaimId, TemplateId, UserId};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use shopper::{Claimed, CouponQuery, Crowd, NewTemplate, Run, Wish};

use crate::{progress::ProgressLog, stage::Stage};

/// Coupons of the sale.
pub(crate) const STOCK: i64 = 1_000;
const USERS: i64 = 5_000;
/// How long a coupon is valid: long enough to read and use some, short enough to see it expire.
const VALID_FOR: TimeDelta = TimeDelta::seconds(15);
/// Connections of the crowd: as many as two cores serve without a long queue.
const CONNECTIONS: usize = 256;
/// How long a user retries.
const PATIENCE: Duration = Duration::from_secs(20);
/// One in this many users presses the button twice.
const NERVOUS: i64 = 10;
/// One in this many users repeats the request after the answer.
const RELOADING: i64 = 20;
/// One in this many users claims a second coupon under another key.
const GREEDY: i64 = 25;
/// One in this many users polls the list from the 201 until the coupon appears.
const WATCHING: i64 = 16;
/// Lists read concurrently before the sale.
const LISTS_AT_A_TIME: usize = 32;

/// Results of the sale.
pub(crate) struct Sale {
    pub(crate) template: TemplateId,
    pub(crate) run: Run,
    /// The promised claims, each once.
    pub(crate) winners: BTreeMap<ClaimId, Claimed>,
}

/// Publishes its template, so that it can be seen before the users come.
pub(crate) async fn publish(stage: &Stage, progress: &ProgressLog) -> Result<TemplateId> {
    progress.say("publishing a template: 1,000 coupons, one for each user, valid for 15 s");
    let new = NewTemplate::simple("Flash sale", STOCK, stage.clock.now(), VALID_FOR);
    let template = stage.api.publish_new(&new).await?.id;
    open_lists(stage).await?;
    Ok(template)
}

/// Lets the users come.
pub(crate) async fn hold(
    stage: &Stage,
    template: TemplateId,
    progress: &ProgressLog,
) -> Result<Sale> {
    progress.say("5,000 users claim at once; some twice, some again, some want a second one");
    let crowd = Crowd::new(vec![stage.api.clone()], CONNECTIONS, PATIENCE);
    let run = crowd.run(wishes(template)).await?;
    let winners = run
        .history
        .records
        .iter()
        .filter(|record| record.is_landed())
        .filter_map(|record| serde_json::from_str(record.body.as_deref()?).ok())
        .map(|claimed: Claimed| (claimed.id, claimed))
        .collect();
    Ok(Sale { template, run, winners })
}

/// Opens the watchers' lists before the sale: they are empty, and warm in the view from then on.
async fn open_lists(stage: &Stage) -> Result<()> {
    let watchers = (1..=USERS).filter(|user| user % WATCHING == 0);
    stream::iter(watchers)
        .map(async |user| {
            let shopper = stage.api.shopper(UserId(user))?;
            shopper.coupons(&CouponQuery::default()).await
        })
        .buffer_unordered(LISTS_AT_A_TIME)
        .try_for_each(async |_| Ok(()))
        .await?;
    Ok(())
}

fn wishes(template: TemplateId) -> Vec<Wish> {
    let mut wishes = Vec::new();
    for user in 1..=USERS {
        let wish = Wish {
            copies: if user % NERVOUS == 0 { 2 } else { 1 },
            again: user % RELOADING == 0,
            watch: user % WATCHING == 0,
            ..Wish::one(template, UserId(user)).with_key(format!("visit-{user}"))
        };
        if user % GREEDY == 0 {
            wishes.push(Wish::one(template, UserId(user)).with_key(format!("greed-{user}")));
        }
        wishes.push(wish);
    }
    wishes
}

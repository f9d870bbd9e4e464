//! The second act: a limited drop that must be paid for. Some users pay and some do not; what lapses is sold to others.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Result, ensure};
use chrono::TimeDelta;
use coupon::{ClaimId, TemplateId, UserId};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use mysql_store::{
    connect,
    verify::{self as store, CouponCounts},
};
use shopper::{Claimed, Crowd, NewTemplate, Run, Wish};
use tokio::time::{Instant, sleep};
use verifier::Record;

use crate::{progress::ProgressLog, stage::Stage};

/// Coupons of the drop.
const STOCK: i64 = 200;
/// Users who want one: twice as many as there are coupons.
const USERS: i64 = 400;
/// The first of them; smaller ids were at the sale.
const FIRST_USER: i64 = 100_000;
/// One in this many buyers pays.
const PAYING: usize = 2;
/// How long a coupon is held: long enough to pay for half of them on a busy machine, short enough to wait for.
const HOLD: TimeDelta = TimeDelta::seconds(8);
/// Validity of what was paid for: longer than the demo.
const VALID_FOR: TimeDelta = TimeDelta::hours(1);
/// Those who pay too late.
const LATE: usize = 10;
const CONNECTIONS: usize = 128;
/// How long a user retries.
const PATIENCE: Duration = Duration::from_secs(20);
/// Concurrent payments.
const AT_A_TIME: usize = 32;
/// How long what lapsed may take to be on sale again, its hold included.
const BACK_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Results of the drop.
pub(crate) struct Dropped {
    pub(crate) records: Vec<Record>,
    /// Coupons that were claimed, whatever became of them.
    pub(crate) claimed: i64,
    /// Payments that were taken.
    pub(crate) paid: usize,
    pub(crate) lapsed: i64,
    /// Units that lapsed and were then sold to others.
    pub(crate) sold_again: usize,
    /// Payments that were refused because they came too late.
    pub(crate) late: usize,
    /// Payments that were taken for claims that MySQL does not have.
    pub(crate) lost: usize,
    /// Unexpected observations, a sentence each.
    pub(crate) problems: Vec<String>,
}

pub(crate) async fn hold(stage: &Stage, progress: &ProgressLog) -> Result<Dropped> {
    progress.say("second act: a drop of 200 coupons, each held for 8 s until it is paid for");
    let now = stage.clock.now();
    let new = NewTemplate::simple("Limited drop", STOCK, now, VALID_FOR).held_for(HOLD);
    let template = stage.api.publish_new(&new).await?.id;
    let users = FIRST_USER..FIRST_USER + USERS;
    let first = claim(stage, template, users.clone().map(UserId), "first").await?;
    let buyers = claimed(&first);
    let (payers, others) = buyers.split_at(buyers.len() / PAYING);
    progress.say(&format!("{} of {} pay in time, twice each", payers.len(), buyers.len()));
    let mut problems = pay(stage, payers, 200).await?;
    progress.say("the others let theirs lapse; ten of them pay too late and are told so");
    until_back(stage, template, others.len()).await?;
    let late = &others[..LATE.min(others.len())];
    problems.extend(pay(stage, late, 409).await?);

    progress.say("what came back is sold to users who had come too late");
    let had: BTreeSet<UserId> = buyers.iter().map(|claimed| claimed.user_id).collect();
    let unlucky = users.map(UserId).filter(|user| !had.contains(user));
    let second = claim(stage, template, unlucky, "second").await?;
    let again = claimed(&second);
    problems.extend(pay(stage, &again, 200).await?);
    if again.len() != others.len() {
        problems.push(format!("{} coupons lapsed, {} were sold again", others.len(), again.len()));
    }

    let paid: Vec<ClaimId> = payers.iter().chain(&again).map(|claimed| claimed.id).collect();
    let counts = counts(stage, template).await?;
    let lost = lost(stage, template, &paid).await?;
    if (counts.unused, counts.held) != (STOCK, 0) {
        problems.push(format!("of {STOCK} coupons {} are paid for: {counts:?}", counts.unused));
    }
    let mut records = first.history.records;
    records.extend(second.history.records);
    Ok(Dropped {
        records,
        claimed: counts.all(),
        paid: paid.len(),
        lapsed: counts.lapsed,
        sold_again: again.len(),
        late: late.len(),
        lost,
        problems,
    })
}

async fn claim(
    stage: &Stage,
    template: TemplateId,
    users: impl Iterator<Item = UserId>,
    visit: &str,
) -> Result<Run> {
    let wish = |user| Wish::one(template, user).with_key(format!("{visit}-{user}"));
    let crowd = Crowd::new(vec![stage.api.clone()], CONNECTIONS, PATIENCE);
    let run = crowd.run(users.map(wish).collect()).await?;
    ensure!(run.given_up == 0, "{} users of the drop got no answer", run.given_up);
    Ok(run)
}

/// The claims that a run was promised, by id.
fn claimed(run: &Run) -> Vec<Claimed> {
    let landed = run.history.records.iter().filter(|record| record.is_landed());
    let claims = landed.filter_map(|record| serde_json::from_str(record.body.as_deref()?).ok());
    let mut claims: Vec<Claimed> = claims.collect();
    claims.sort_by_key(|claimed| claimed.id);
    claims.dedup_by_key(|claimed| claimed.id);
    claims
}

/// Pays for each claim twice under one reference, and returns what was not answered with `wanted` both times.
async fn pay(stage: &Stage, claims: &[Claimed], wanted: u16) -> Result<Vec<String>> {
    let problems: Vec<Option<String>> = stream::iter(claims)
        .map(async |claimed| {
            let reference = format!("pay-{}", claimed.id);
            let first = stage.api.confirm(claimed.id, &reference, None).await?;
            let again = stage.api.confirm(claimed.id, &reference, None).await?;
            let right = first.status == wanted && again.status == wanted;
            let told = wanted == 200 || first.code().as_deref() == Some("HOLD_LAPSED");
            anyhow::Ok((!right || !told).then(|| {
                format!("the payment of claim {} was answered {}", claimed.id, first.body)
            }))
        })
        .buffer_unordered(AT_A_TIME)
        .try_collect()
        .await?;
    Ok(problems.into_iter().flatten().collect())
}

/// Waits until the gate offers as many coupons again as lapsed.
async fn until_back(stage: &Stage, template: TemplateId, lapsed: usize) -> Result<()> {
    let deadline = Instant::now() + BACK_MAX;
    let lapsed = i64::try_from(lapsed)?;
    loop {
        let stock = stage.api.stock(template).await?;
        if stock.gate_stock == Some(lapsed) && stock.stock == lapsed {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{lapsed} coupons lapsed, and the stock is {stock:?}");
        sleep(LOOK_EVERY).await;
    }
}

async fn counts(stage: &Stage, template: TemplateId) -> Result<CouponCounts> {
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    Ok(store::count_coupons(&mut connection, Some(template), stage.clock.now()).await?)
}

/// Counts the payments that were taken for claims that MySQL does not have.
async fn lost(stage: &Stage, template: TemplateId, paid: &[ClaimId]) -> Result<usize> {
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    let landed = store::landed_claims(&mut connection, template).await?;
    let landed: BTreeSet<ClaimId> = landed.into_iter().map(|claim| claim.id).collect();
    Ok(paid.iter().filter(|claim| !landed.contains(claim)).count())
}

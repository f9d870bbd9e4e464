//! Many coupons that end in the same second: how fast they are flipped, next to a raw update as the upper bound, and
//! the effect on claims.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use coupon::{TemplateId, UserId};
use mysql_store::{
    connect, migrate,
    verify::{self, BULK_ROWS},
};
use runtime::Clock;
use shopper::{Api, Crowd, Latency, NewTemplate, Wish};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

use crate::stage::Stage;

/// Coupons per raw update, tried in turn: the worker's own chunk, and a larger one.
const CHUNKS: [i64; 2] = [512, 2_048];

/// Polling interval for the worker's flip counter. Each poll makes the worker render all its metrics, which would slow
/// claims if it were more frequent.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long each step may take, including a million coupons next to claims.
const PATIENCE: Duration = Duration::from_secs(1_200);

/// Claims are sent in slices of this length; a slice that is due for no claim sends none.
const SLICE: Duration = Duration::from_millis(20);

/// Concurrent requests per slice.
const CONNECTIONS: usize = 256;

/// The worker's flip counter.
const FLIPS: &str = "expiry_worker_flips_total";

/// Users of claims have ids far above those of storms.
const FIRST_CLAIMER: i64 = 1 << 40;

/// Measures raw chunked updates per second in a separate database: the same change with the same schema, trigger and
/// indexes, in primary key order, without any reads. Returns the best of `CHUNKS`.
pub async fn ceiling(url: &str, coupons: i64) -> Result<f64> {
    migrate::run(url).await?;
    let mut connection = connect::single(url).await?;
    let clock = Clock::system();
    let mut best = 0.0_f64;
    for (first, chunk) in (1..).step_by(usize::try_from(coupons)?).zip(CHUNKS) {
        let rounded = insert(url, first, coupons, clock.now()).await?;
        let began = Instant::now();
        for from in (first..first + rounded).step_by(usize::try_from(chunk)?) {
            let to = from + chunk - 1;
            let update = format!(
                "update user_coupon set status = 2, version = version + 1, \
                 changed_at = utc_timestamp(3) where id between {from} and {to} and status = 0"
            );
            verify::execute(&mut connection, &update).await?;
        }
        best = best.max(rounded as f64 / began.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Coupons that are due while no worker runs.
#[derive(Debug)]
pub struct Prepared {
    coupons: i64,
    /// Ended coupons of earlier storms.
    ended: i64,
    /// Changes in the topic once all coupons are flipped.
    changes: i64,
}

/// The results of a storm.
#[derive(Debug)]
pub struct Storm {
    /// Flips per second, from the first flip to the last.
    pub flips_per_s: f64,
    /// Time from the last flip until the topic held every change and the consumer had applied it.
    pub clean_after: Duration,
}

/// The rate of the flips, and the time of the last one.
#[derive(Debug)]
pub struct Flipped {
    flips_per_s: f64,
    last: Instant,
}

/// Stops the worker, inserts `coupons` coupons of users from `first` on whose common deadline is now, and waits until
/// the consumer has applied them.
pub async fn prepare(stage: &mut Stage, first: i64, coupons: i64) -> Result<Prepared> {
    let ended = ended(stage).await?;
    stage.platform.expiry_worker.stop().await?;
    let before = messages(stage).await?;
    let url = stage.platform.endpoints.database_url.clone();
    let coupons = insert(&url, first, coupons, stage.clock.now()).await?;
    until_clean(stage, before + coupons).await?;
    Ok(Prepared { coupons, ended, changes: before + 2 * coupons })
}

/// Starts the worker and waits until it has flipped the prepared coupons.
///
/// # Errors
/// A coupon did not end in time.
pub async fn run(stage: &mut Stage, prepared: &Prepared) -> Result<Flipped> {
    stage.platform.expiry_worker.spawn()?;
    let target = prepared.coupons as f64;
    let watch = async {
        let mut began = None;
        loop {
            let flips = stage.platform.expiry_worker.metric(FLIPS).await.unwrap_or(0.0);
            let now = Instant::now();
            if flips > 0.0 && began.is_none() {
                began = Some((now, flips));
            }
            if let Some((since, at)) = began.filter(|_| flips >= target) {
                return Flipped {
                    flips_per_s: (flips - at) / (now - since).as_secs_f64(),
                    last: now,
                };
            }
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(PATIENCE, watch).await.context("not all coupons were flipped")
}

/// Like [`run`], with tailer and consumer stopped until the worker is done: worker and MySQL have the machine for
/// themselves, as in [`ceiling`], and as if tailer, broker and view had their own machines.
///
/// # Errors
/// A coupon did not end in time.
pub async fn run_by_itself(stage: &mut Stage, prepared: &Prepared) -> Result<Flipped> {
    stage.platform.cdc_tailer.stop().await?;
    stage.platform.sync_consumer.stop().await?;
    let flipped = run(stage, prepared).await?;
    stage.platform.sync_consumer.spawn()?;
    stage.platform.cdc_tailer.spawn()?;
    Ok(flipped)
}

/// Waits until the view has every flip.
///
/// # Errors
/// The platform fails, or not exactly the prepared coupons have ended.
pub async fn until_view_is_clean(
    stage: &Stage,
    prepared: &Prepared,
    flipped: Flipped,
) -> Result<Storm> {
    until_clean(stage, prepared.changes).await?;
    let clean_after = flipped.last.elapsed();
    let ended = ended(stage).await? - prepared.ended;
    ensure!(ended == prepared.coupons, "{ended} of {} ended", prepared.coupons);
    Ok(Storm { flips_per_s: flipped.flips_per_s, clean_after })
}

impl Prepared {
    /// Adds the changes of coupons claimed meanwhile, which are in the topic too.
    #[must_use]
    pub fn with_claims(self, landed: i64) -> Self {
        Self { changes: self.changes + landed, ..self }
    }
}

/// The results of claims at a steady rate.
#[derive(Debug)]
pub struct Claimed {
    /// Time from sending a request to its answer.
    pub answered: Latency,
    /// Coupons claimed.
    pub landed: i64,
}

/// Claims at a steady rate until they are stopped.
pub struct Claims {
    api: Api,
    templates: Vec<TemplateId>,
    stop: Arc<AtomicBool>,
    load: JoinHandle<Result<Latency>>,
}

impl Claims {
    /// Starts claiming.
    ///
    /// # Errors
    /// The template cannot be published.
    pub async fn start(stage: &Stage, per_second: f64) -> Result<Self> {
        let stock = coupon::limit::STOCK_MAX;
        let new = NewTemplate::simple("Beside", stock, stage.clock.now(), TimeDelta::days(1));
        let template = stage.api.publish_new(&new).await?.id;
        Ok(Self::start_of(stage, vec![template], per_second))
    }

    /// Starts claiming of each of these templates in turn.
    pub fn start_of(stage: &Stage, templates: Vec<TemplateId>, per_second: f64) -> Self {
        let crowd = Crowd::new(vec![stage.api.clone()], CONNECTIONS, Duration::from_secs(60));
        let stop = Arc::new(AtomicBool::new(false));
        let load = tokio::spawn(claim(crowd, templates.clone(), per_second, Arc::clone(&stop)));
        Self { api: stage.api.clone(), templates, stop, load }
    }

    /// Stops claiming and returns the results.
    ///
    /// # Errors
    /// A token cannot be signed, or the stock cannot be read.
    ///
    /// # Panics
    /// The load's task panicked.
    pub async fn end(self) -> Result<Claimed> {
        self.stop.store(true, Ordering::Relaxed);
        let answered = self.load.await.expect("the load does not panic")?;
        let mut each = self.templates;
        each.sort_unstable();
        each.dedup();
        let mut landed = 0;
        for template in each {
            landed += self.api.stock(template).await?.landed;
        }
        Ok(Claimed { answered, landed })
    }
}

async fn claim(
    crowd: Crowd,
    templates: Vec<TemplateId>,
    per_second: f64,
    stop: Arc<AtomicBool>,
) -> Result<Latency> {
    let mut ticks = interval(SLICE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut tasks = JoinSet::new();
    let mut answered = Latency::default();
    let mut turns = (FIRST_CLAIMER..).map(UserId).zip(templates.iter().copied().cycle());
    let began = Instant::now();
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let due = (began.elapsed().as_secs_f64() * per_second) as usize;
        let wishes: Vec<Wish> = turns
            .by_ref()
            .take(due - sent)
            .map(|(user, template)| Wish::one(template, user).with_key("bench"))
            .collect();
        sent = due;
        let crowd = crowd.clone();
        tasks.spawn(async move { crowd.run(wishes).await });
        while let Some(run) = tasks.try_join_next() {
            answered.add(&run.expect("a slice does not panic")?.answered);
        }
    }
    while let Some(run) = tasks.join_next().await {
        answered.add(&run.expect("a slice does not panic")?.answered);
    }
    Ok(answered)
}

/// Inserts at least `coupons` coupons in whole bulks, a day before they end at `deadline`. Returns their number.
pub async fn insert(url: &str, first: i64, coupons: i64, deadline: DateTime<Utc>) -> Result<i64> {
    let mut connection = connect::single(url).await?;
    for bulk in 0..rounded(coupons) / BULK_ROWS {
        let first = first + bulk * BULK_ROWS;
        verify::insert_bulk(&mut connection, first, deadline - TimeDelta::days(1)).await?;
    }
    Ok(rounded(coupons))
}

/// Rounds up to whole bulks.
pub fn rounded(coupons: i64) -> i64 {
    (coupons + BULK_ROWS - 1) / BULK_ROWS * BULK_ROWS
}

/// Waits until the topic holds this many changes and the consumer has applied them all.
async fn until_clean(stage: &Stage, changes: i64) -> Result<()> {
    let clean = async {
        while messages(stage).await? < changes || lag(stage).await? > 0 {
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    };
    timeout(PATIENCE, clean).await.context("the view did not catch up")?
}

async fn lag(stage: &Stage) -> Result<i64> {
    let topics = &stage.sources.topics;
    let group = format!("{}.sync-consumer", topics.prefix());
    Ok(stage.sources.offsets.committed_lag(&group, &topics.user_coupon()).await?)
}

async fn messages(stage: &Stage) -> Result<i64> {
    let topic = stage.sources.topics.user_coupon();
    let offsets = stage.sources.offsets.topic_offsets(&topic).await?;
    Ok(offsets.iter().map(|partition| partition.end).sum())
}

/// Ended coupons of all storms.
async fn ended(stage: &Stage) -> Result<i64> {
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    let now = stage.clock.now();
    Ok(verify::count_coupons(&mut connection, Some(TemplateId(0)), now).await?.expired)
}

//! Many coupons that share one second: how fast they are flipped, beside the raw update that nothing
//! else can beat, and what claims notice of it.

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
use topic::{committed_lag, topic_offsets};

use crate::stage::Stage;

/// Coupons of one raw update, tried in turn: around the worker's own.
const CHUNKS: [i64; 2] = [512, 2_048];

/// Pause between two looks at the worker's count of flips: a look has it tell all its metrics, which claims would
/// notice if it came too often.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long anything here may take, a million coupons beside claims included.
const PATIENCE: Duration = Duration::from_secs(1_200);

/// Claims come in slices of this length.
const SLICE: Duration = Duration::from_millis(20);

/// Requests of one slice under way at a time.
const CONNECTIONS: usize = 256;

/// The worker's count of flips.
const FLIPS: &str = "expiry_worker_flips_total";

/// Users of claims are far above those of storms.
const FIRST_CLAIMER: i64 = 1 << 40;

/// Raw chunked updates a second: the same change to the same schema, trigger and indexes included, by
/// the primary key in its order, nothing read, on a database of its own. The best of `CHUNKS`.
///
/// # Errors
/// The database fails.
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

/// Coupons that are due, and nobody at work on them.
#[derive(Debug)]
pub struct Prepared {
    coupons: i64,
    /// Ended coupons of storms before.
    ended: i64,
    /// Changes in the topic when they are all flipped.
    changes: i64,
}

/// What a storm did.
#[derive(Debug)]
pub struct Storm {
    /// From the first flip to the last.
    pub flips_per_s: f64,
    /// From the last flip until the topic held every change and the consumer had applied it.
    pub clean_after: Duration,
}

/// Flips that are done, and when the last one was.
#[derive(Debug)]
pub struct Flipped {
    flips_per_s: f64,
    last: Instant,
}

/// Inserts `coupons` coupons, users from `first` on, that share their deadline, which has come; the
/// worker stands still, and the consumer has applied them all.
///
/// # Errors
/// The platform fails.
pub async fn prepare(stage: &mut Stage, first: i64, coupons: i64) -> Result<Prepared> {
    let ended = ended(stage).await?;
    stage.platform.expiry_worker.stop().await?;
    let before = messages(stage).await?;
    let url = stage.platform.endpoints.database_url.clone();
    let coupons = insert(&url, first, coupons, stage.clock.now()).await?;
    until_clean(stage, before + coupons).await?;
    Ok(Prepared { coupons, ended, changes: before + 2 * coupons })
}

/// Lets the worker flip what is prepared.
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

/// [`run`] while tailer and consumer stand still: the machine is the worker's and MySQL's, as the
/// [`ceiling`] has it, and as it is where tailer, broker and view have machines of their own. They follow
/// when it is done.
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

/// Waits until the view knows of every flip.
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
    /// So many coupons were claimed meanwhile: their changes are in the topic too.
    #[must_use]
    pub fn with_claims(self, landed: i64) -> Self {
        Self { changes: self.changes + landed, ..self }
    }
}

/// What claims at a steady rate came to.
#[derive(Debug)]
pub struct Claimed {
    /// From sending to answer.
    pub answered: Latency,
    /// Coupons claimed.
    pub landed: i64,
}

/// Claims at a steady rate, until they are stopped.
pub struct Claims {
    api: Api,
    template: TemplateId,
    stop: Arc<AtomicBool>,
    load: JoinHandle<Result<Latency>>,
}

impl Claims {
    /// Begins to claim.
    ///
    /// # Errors
    /// The template cannot be published.
    pub async fn start(stage: &Stage, per_second: f64) -> Result<Self> {
        let stock = coupon::limit::STOCK_MAX;
        let new = NewTemplate::simple("Beside", stock, stage.clock.now(), TimeDelta::days(1));
        let template = stage.api.publish_new(&new).await?.id;
        let crowd = Crowd::new(vec![stage.api.clone()], CONNECTIONS, Duration::from_secs(60));
        let stop = Arc::new(AtomicBool::new(false));
        let load = tokio::spawn(claim(crowd, template, per_second, Arc::clone(&stop)));
        Ok(Self { api: stage.api.clone(), template, stop, load })
    }

    /// Ends them.
    ///
    /// # Errors
    /// A claim had no answer.
    ///
    /// # Panics
    /// The load's task panicked.
    pub async fn end(self) -> Result<Claimed> {
        self.stop.store(true, Ordering::Relaxed);
        let answered = self.load.await.expect("the load does not panic")?;
        Ok(Claimed { answered, landed: self.api.stock(self.template).await?.landed })
    }
}

async fn claim(
    crowd: Crowd,
    template: TemplateId,
    per_second: f64,
    stop: Arc<AtomicBool>,
) -> Result<Latency> {
    let per_slice = ((per_second * SLICE.as_secs_f64()).round() as i64).max(1);
    let mut ticks = interval(SLICE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut tasks, mut answered, mut next) = (JoinSet::new(), Latency::default(), FIRST_CLAIMER);
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let wishes = (next..next + per_slice).map(|user| Wish::one(template, UserId(user)));
        next += per_slice;
        let (crowd, wishes) = (crowd.clone(), wishes.collect());
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

/// Inserts coupons that end at `deadline`, in whole bulks; how many.
///
/// # Errors
/// A statement fails.
pub async fn insert(url: &str, first: i64, coupons: i64, deadline: DateTime<Utc>) -> Result<i64> {
    let mut connection = connect::single(url).await?;
    for bulk in 0..rounded(coupons) / BULK_ROWS {
        let first = first + bulk * BULK_ROWS;
        verify::insert_bulk(&mut connection, first, deadline - TimeDelta::days(1)).await?;
    }
    Ok(rounded(coupons))
}

/// As many coupons as whole bulks make.
pub fn rounded(coupons: i64) -> i64 {
    (coupons + BULK_ROWS - 1) / BULK_ROWS * BULK_ROWS
}

/// Waits until the topic holds so many changes and the consumer has applied them all.
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
    Ok(committed_lag(&stage.sources.brokers, &group, &topics.user_coupon()).await?)
}

async fn messages(stage: &Stage) -> Result<i64> {
    let topic = stage.sources.topics.user_coupon();
    let offsets = topic_offsets(&stage.sources.brokers, &topic).await?;
    Ok(offsets.iter().map(|partition| partition.end).sum())
}

/// Coupons of storms that have ended.
async fn ended(stage: &Stage) -> Result<i64> {
    let mut connection = connect::acquire(&stage.sources.pool).await?;
    let now = stage.clock.now();
    Ok(verify::count_coupons(&mut connection, Some(TemplateId(0)), now).await?.expired)
}

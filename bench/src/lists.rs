//! Requests per second for "my coupons", next to a bare route with the same reads; rebuilds per second when every view
//! is gone at once; and latency of pages for a user with very many coupons.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use chrono::TimeDelta;
use coupon::{TemplateId, UserId, limit::QUANTITY_MAX};
use serde::Serialize;
use shopper::{Api, CouponQuery, Crowd, Latency, NewTemplate, Shopper, Wish};
use tokio::{task::JoinSet, time::Instant};

use crate::{bare::Bare, stage::Stage};

/// Users, each with a view.
const USERS: i64 = 4_000;
/// The first user; smaller ids belong to other figures.
const FIRST_USER: i64 = 2_000_000;
/// Coupons per user: a typical list.
const COUPONS_EACH: u32 = 5;
/// Concurrent requests.
const CONNECTIONS: usize = 64;
/// Duration of a turn. Each side has two turns, in the order ours, bare, bare, ours.
const TURN: Duration = Duration::from_secs(3);
/// How long a claim is retried.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a view may take to be rebuilt.
const REBUILD_MAX: Duration = Duration::from_secs(60);
/// Two users whose pages are timed, and their numbers of coupons: a typical list, and one that is unreasonably long but
/// allowed.
const SHORT: (UserId, u32) = (UserId(3_000_000), 10);
const LONG: (UserId, u32) = (UserId(3_000_001), 10_000);
/// Coupons per timed page: few enough that the short list has a last page too, and both pages are alike.
const PAGE: u32 = 5;
/// How often each page is timed.
const REPETITIONS: u32 = 50;
/// Polling interval for the number of rebuilt views.
const LOOK_EVERY: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct Lists {
    /// Lists per second, answered from the view.
    pub per_s: f64,
    /// Lists per second of the bare route, with the same reads.
    pub bare_per_s: f64,
    /// Rebuilt views per second, each while its reader waits.
    pub rebuilds_per_s: f64,
}

/// Gives the users coupons, opens their lists, and measures.
///
/// # Errors
/// The platform fails, or a list is not answered.
pub async fn measure(stage: &Stage) -> Result<Lists> {
    let stock = USERS * i64::from(COUPONS_EACH);
    let new = NewTemplate {
        per_user_limit: COUPONS_EACH,
        max_per_claim: COUPONS_EACH,
        ..NewTemplate::simple("Lists", stock, stage.clock.now(), TimeDelta::hours(1))
    };
    let template = stage.api.publish_new(&new).await?.id;
    let wish = |user| Wish {
        key: Some("all".to_owned()),
        quantity: COUPONS_EACH,
        ..Wish::one(template, UserId(user))
    };
    let crowd = Crowd::new(vec![stage.api.clone()], CONNECTIONS, PATIENCE);
    let run = crowd.run((FIRST_USER..FIRST_USER + USERS).map(wish).collect()).await?;
    ensure!(run.given_up == 0, "{} claims without an answer", run.given_up);
    stage.at_rest().await?;
    let ours = Arc::new(Ours::of(&stage.api)?);
    once_each(&ours).await?;
    stage.sources.view.drop_all().await?;
    let rebuilds_per_s = once_each(&ours).await?;

    let bare = Bare::start(stage).await?;
    // The bare route needs no token and no key: neither is sent.
    let bare =
        Arc::new(Theirs { api: Api::new(&bare.url, "", "", stage.clock.clone())?, _bare: bare });
    let ours_first = for_a_turn(&ours).await?;
    let bare_per_s = f64::midpoint(for_a_turn(&bare).await?, for_a_turn(&bare).await?);
    let per_s = f64::midpoint(ours_first, for_a_turn(&ours).await?);
    Ok(Lists { per_s, bare_per_s, rebuilds_per_s })
}

/// Page latencies of the two lists.
#[derive(Debug)]
pub struct Pages {
    pub short: List,
    pub long: List,
    /// The short list's first page while the long list is rebuilt repeatedly.
    pub beside_rebuilds: Latency,
    /// Peak memory of the api in MiB, before and after the rebuilds of the long list.
    pub api_peak_mib: [f64; 2],
}

/// Page latencies of one list.
#[derive(Debug)]
pub struct List {
    /// The number of coupons in the list.
    pub coupons: u32,
    /// The first page after the view was dropped. A short list is rebuilt before the answer, a long one after it.
    pub cold: Latency,
    /// The first page, from the view.
    pub first: Latency,
    /// The last page, from the view.
    pub last: Latency,
}

/// Page latencies of one list, as JSON.
#[derive(Debug, Serialize)]
pub struct ListFigures {
    coupons: u32,
    first_cold_p50_ms: f64,
    first_cold_p99_ms: f64,
    first_p50_ms: f64,
    first_p99_ms: f64,
    last_p50_ms: f64,
    last_p99_ms: f64,
}

impl List {
    /// Returns the figures for the JSON.
    pub fn figures(&self) -> ListFigures {
        ListFigures {
            coupons: self.coupons,
            first_cold_p50_ms: self.cold.ms(0.5),
            first_cold_p99_ms: self.cold.ms(0.99),
            first_p50_ms: self.first.ms(0.5),
            first_p99_ms: self.first.ms(0.99),
            last_p50_ms: self.last.ms(0.5),
            last_p99_ms: self.last.ms(0.99),
        }
    }
}

/// Times pages of a short and of a long list, one request at a time.
///
/// # Errors
/// The platform fails, a page is wrong, or a warm page was not answered from the view.
pub async fn time_pages(stage: &Stage) -> Result<Pages> {
    let new = NewTemplate {
        per_user_limit: 0,
        max_per_claim: QUANTITY_MAX,
        ..NewTemplate::simple(
            "Pages",
            i64::from(SHORT.1 + LONG.1),
            stage.clock.now(),
            TimeDelta::hours(1),
        )
    };
    let template = stage.api.publish_new(&new).await?.id;
    for (user, coupons) in [SHORT, LONG] {
        give(stage, template, user, coupons).await?;
    }
    stage.at_rest().await?;
    let short = stage.api.shopper(SHORT.0)?;
    let long = stage.api.shopper(LONG.0)?;
    let short_list = time_list(stage, &short, SHORT.1).await?;
    let before = api_peak_mib(stage)?;
    let long_list = time_list(stage, &long, LONG.1).await?;
    let beside_rebuilds = time_beside_rebuilds(stage, &short, &long).await?;
    let api_peak_mib = [before, api_peak_mib(stage)?];
    Ok(Pages { short: short_list, long: long_list, beside_rebuilds, api_peak_mib })
}

/// Claims coupons for a user, as many per claim as allowed.
async fn give(stage: &Stage, template: TemplateId, user: UserId, coupons: u32) -> Result<()> {
    let quantity = QUANTITY_MAX.min(coupons);
    ensure!(coupons.is_multiple_of(quantity), "claims of {quantity} do not make {coupons}");
    let wish = |number: u32| Wish {
        quantity,
        ..Wish::one(template, user).with_key(format!("pages-{number}"))
    };
    let crowd = Crowd::new(vec![stage.api.clone()], CONNECTIONS, PATIENCE);
    let run = crowd.run((0..coupons / quantity).map(wish).collect()).await?;
    ensure!(run.given_up == 0, "{} claims without an answer", run.given_up);
    Ok(())
}

async fn time_list(stage: &Stage, shopper: &Shopper, coupons: u32) -> Result<List> {
    let mut cold = Latency::default();
    for _ in 0..REPETITIONS {
        // No other views are rebuilt meanwhile, so the count is exact.
        let before = rebuilds(stage).await?;
        stage.sources.view.drop_view(shopper.user()).await?;
        cold.record(time_page(shopper, &first_page()).await?);
        until_rebuilt(stage, before).await?;
    }
    let rebuilt = rebuilds(stage).await?;
    let last_page = find_last_page(shopper, coupons).await?;
    let mut first = Latency::default();
    let mut last = Latency::default();
    for _ in 0..REPETITIONS {
        first.record(time_page(shopper, &first_page()).await?);
        last.record(time_page(shopper, &last_page).await?);
    }
    let rebuilt_warm = rebuilds(stage).await? - rebuilt;
    ensure!(rebuilt_warm < 1.0, "{rebuilt_warm} of the warm views were not there");
    Ok(List { coupons, cold, first, last })
}

/// Times a neighbour's first page while a long list is rebuilt as often as possible, one rebuild at a time.
async fn time_beside_rebuilds(
    stage: &Stage,
    neighbour: &Shopper,
    long: &Shopper,
) -> Result<Latency> {
    let mut beside = Latency::default();
    let rebuild = async {
        for _ in 0..REPETITIONS {
            let before = rebuilds(stage).await?;
            stage.sources.view.drop_view(long.user()).await?;
            time_page(long, &first_page()).await?;
            until_rebuilt(stage, before).await?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        rebuilt = rebuild => rebuilt?,
        never = look_on(neighbour, &mut beside) => match never? {},
    }
    Ok(beside)
}

/// Reads the first page repeatedly.
async fn look_on(shopper: &Shopper, latency: &mut Latency) -> Result<Infallible> {
    loop {
        latency.record(time_page(shopper, &first_page()).await?);
    }
}

fn first_page() -> CouponQuery {
    CouponQuery { limit: Some(PAGE), ..CouponQuery::default() }
}

/// Requests a page, which must be full, and returns the time to its answer.
async fn time_page(shopper: &Shopper, query: &CouponQuery) -> Result<Duration> {
    let began = Instant::now();
    let page = shopper.coupons(query).await?;
    let took = began.elapsed();
    ensure!(page.data.len() == PAGE as usize, "a page of {} coupons", page.data.len());
    Ok(took)
}

/// Walks a list of this many coupons to its last page.
async fn find_last_page(shopper: &Shopper, coupons: u32) -> Result<CouponQuery> {
    let mut query = first_page();
    let mut seen = 0;
    loop {
        let page = shopper.coupons(&query).await?;
        seen += page.data.len();
        let Some(next) = page.next_cursor else { break };
        query.cursor = Some(next);
    }
    ensure!(seen == coupons as usize, "{seen} of {coupons} coupons are on the pages");
    Ok(query)
}

/// Waits until more than `before` views were rebuilt: a long list's rebuild continues after its page.
async fn until_rebuilt(stage: &Stage, before: f64) -> Result<()> {
    let look = async {
        while rebuilds(stage).await? <= before {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(REBUILD_MAX, look).await.context("a view is not rebuilt")?
}

/// Number of views that the api has rebuilt completely.
async fn rebuilds(stage: &Stage) -> Result<f64> {
    let api = stage.platform.apis.first().context("a platform without an api")?;
    let name = "coupon_view_rebuilds_total{result=\"whole\"}";
    api.metric(name).await.context("the api does not count rebuilds")
}

fn api_peak_mib(stage: &Stage) -> Result<f64> {
    let api = stage.platform.apis.first().context("a platform without an api")?;
    api.peak_mib().context("the api does not run")
}

/// A server of users' lists.
trait Lister: Send + Sync + 'static {
    /// Requests the list of the user with this index.
    fn ask(&self, place: usize) -> impl Future<Output = Result<()>> + Send;
}

struct Ours {
    shoppers: Vec<Shopper>,
}

struct Theirs {
    api: Api,
    _bare: Bare,
}

impl Ours {
    fn of(api: &Api) -> Result<Self> {
        let users = FIRST_USER..FIRST_USER + USERS;
        let shoppers: Result<_, _> = users.map(|user| api.shopper(UserId(user))).collect();
        Ok(Self { shoppers: shoppers? })
    }
}

impl Lister for Ours {
    async fn ask(&self, place: usize) -> Result<()> {
        let shopper = &self.shoppers[place];
        let request = shopper.request(reqwest::Method::GET, "/v1/me/coupons");
        let answer = shopper.send(request).await?;
        ensure!(answer.status == 200, "{}", answer.body);
        Ok(())
    }
}

impl Lister for Theirs {
    async fn ask(&self, place: usize) -> Result<()> {
        let user = FIRST_USER + i64::try_from(place)?;
        let request = self.api.anonymous(reqwest::Method::GET, &format!("/{user}"));
        let answer = self.api.send(request).await?;
        ensure!(answer.status == 200, "{}", answer.body);
        Ok(())
    }
}

/// Requests every user's list once, and returns lists per second.
async fn once_each<L: Lister>(lister: &Arc<L>) -> Result<f64> {
    let began = Instant::now();
    let next = Arc::new(AtomicI64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let lister = Arc::clone(lister);
        let next = Arc::clone(&next);
        tasks.spawn(async move {
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                if place >= USERS {
                    return Ok(());
                }
                lister.ask(usize::try_from(place)?).await?;
            }
        });
    }
    all::<()>(tasks).await?;
    Ok(USERS as f64 / began.elapsed().as_secs_f64())
}

/// Requests lists of random users for one turn, and returns lists per second.
async fn for_a_turn<L: Lister>(lister: &Arc<L>) -> Result<f64> {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let lister = Arc::clone(lister);
        tasks.spawn(async move {
            let mut answered = 0_u32;
            while began.elapsed() < TURN {
                lister.ask(fastrand::usize(0..usize::try_from(USERS)?)).await?;
                answered += 1;
            }
            Ok(answered)
        });
    }
    let answered: u32 = all(tasks).await?.into_iter().sum();
    Ok(f64::from(answered) / began.elapsed().as_secs_f64())
}

async fn all<T: 'static>(mut tasks: JoinSet<Result<T>>) -> Result<Vec<T>> {
    let mut results = Vec::new();
    while let Some(done) = tasks.join_next().await {
        results.push(done??);
    }
    Ok(results)
}

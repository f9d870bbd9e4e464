//! Requests a second for "my coupons", beside a bare route with the same reads; and rebuilds a second,
//! when every view is gone at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use chrono::TimeDelta;
use coupon::UserId;
use shopper::{Api, Crowd, NewTemplate, Shopper, Wish};
use tokio::{task::JoinSet, time::Instant};
use verifier::settled;

use crate::{bare::Bare, stage::Stage};

/// Users, each with a view.
const USERS: i64 = 4_000;
/// The first one: those before belong to other figures.
const FIRST_USER: i64 = 2_000_000;
/// Coupons of each: a list that people have.
const COUPONS_EACH: u32 = 5;
/// Requests under way at a time.
const CONNECTIONS: usize = 64;
/// How long each side is measured; each has two turns, in the order ours, bare, bare, ours.
const TURN: Duration = Duration::from_secs(3);
/// How long a claim is tried.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the platform may take to come to rest before.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// What was measured.
#[derive(Debug)]
pub struct Lists {
    /// Lists answered from the view a second.
    pub per_s: f64,
    /// The same reads by a bare route.
    pub bare_per_s: f64,
    /// Views rebuilt a second, each for a list that waits for it.
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
    settled(&stage.sources, &stage.clock, SETTLE_MAX).await?;
    let ours = Arc::new(Ours::of(&stage.api)?);
    once_each(&ours).await?;
    stage.sources.view.drop_all().await?;
    let rebuilds_per_s = once_each(&ours).await?;

    let bare = Bare::start(stage).await?;
    // The bare route takes no token and no key: both are never sent.
    let bare =
        Arc::new(Theirs { api: Api::new(&bare.url, "", "", stage.clock.clone())?, _bare: bare });
    let ours_first = for_a_turn(&ours).await?;
    let bare_per_s = f64::midpoint(for_a_turn(&bare).await?, for_a_turn(&bare).await?);
    let per_s = f64::midpoint(ours_first, for_a_turn(&ours).await?);
    Ok(Lists { per_s, bare_per_s, rebuilds_per_s })
}

/// Somebody who answers with a user's list.
trait Lister: Send + Sync + 'static {
    /// Asks for the list of the user at `place`.
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

/// Asks for every user's list once; returns lists a second.
async fn once_each<L: Lister>(lister: &Arc<L>) -> Result<f64> {
    let began = Instant::now();
    let next = Arc::new(AtomicI64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (lister, next) = (Arc::clone(lister), Arc::clone(&next));
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

/// Asks for users' lists at random for a turn; returns lists a second.
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

//! Users who claim, use and read their lists all the time, and check every answer.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use chrono::{DateTime, Utc};
use coupon::{CouponId, TemplateId, UserId};
use fastrand::Rng;
use futures::future::join_all;
use pipeline_tests::{World, until};
use serde_json::Value;
use shopper::{Coupon, CouponQuery, NewTemplate, Shopper, ShopperError};

/// Users, each with a writer and a reader.
pub(crate) const USERS: i64 = 5;
/// Most unused coupons of each.
const UNUSED_MAX: usize = 30;
/// A page length that splits them into several pages.
const LIMIT: u32 = 7;
/// Answers between two losses.
const ANSWERS_BETWEEN: u64 = 25;

/// Progress of the readers and of the losses.
#[derive(Default)]
pub(crate) struct ReaderProgress {
    /// Lists that readers got.
    answers: AtomicU64,
    /// Whether all losses are done.
    over: AtomicBool,
}

impl ReaderProgress {
    /// Waits until readers got enough answers for views to be rebuilt and trusted again.
    pub(crate) async fn until_more_answers(&self) {
        let enough = self.answers.load(Ordering::SeqCst) + ANSWERS_BETWEEN;
        until(async || self.answers.load(Ordering::SeqCst), |seen| *seen >= enough).await;
    }
}

/// Makes users claim, use and read their lists until `losses` is done; returns its result and the sources of the
/// answers.
///
/// # Panics
/// An answer lacks a coupon or shows one that has ended; or no view was trusted, or no more than `rebuilds` were
/// rebuilt.
pub(crate) async fn beside_readers<T>(
    world: &World,
    progress: &ReaderProgress,
    seed: u64,
    rebuilds: f64,
    losses: impl Future<Output = T>,
) -> (T, String) {
    let many = |new| NewTemplate { per_user_limit: 0, max_per_claim: 3, ..new };
    let lasting = world.template(100_000, many).await;
    let brief = |new| many(NewTemplate { valid_for_ms: 500, ..new });
    let brief = world.template(100_000, brief).await;
    let diaries: Vec<_> = (1..=USERS).map(|_| Diary::default()).collect();
    let mut writers = Vec::new();
    let mut readers = Vec::new();
    for (user, diary) in (1..).zip(&diaries) {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let rng = Rng::with_seed(seed.wrapping_add(user.unsigned_abs()));
        writers.push(write(shopper.clone(), [lasting, brief], diary, progress, rng));
        readers.push(read(shopper, world, diary, progress));
    }
    let losses = async {
        let lost = losses.await;
        progress.over.store(true, Ordering::SeqCst);
        lost
    };
    let (_, _, lost) = tokio::join!(join_all(writers), join_all(readers), losses);
    let api = &world.platform.apis[0];
    let mut origins = Vec::new();
    for origin in ["view", "rebuild", "truth"] {
        let name = format!("api_my_coupons_total{{origin=\"{origin}\"}}");
        origins.push((origin, api.metric(&name).await.unwrap_or(0.0)));
    }
    // Views that were never trusted, or never lost, would prove nothing.
    let rebuilt = api.metric("coupon_view_rebuilds_total{result=\"whole\"}").await.unwrap_or(0.0);
    assert!(origins[0].1 > 0.0 && rebuilt > rebuilds, "{origins:?}, {rebuilt} rebuilt");
    let answers = progress.answers.load(Ordering::SeqCst);
    (lost, format!("{answers} answers by {origins:?}"))
}

/// A user's actions, in the order of their answers.
#[derive(Default)]
struct Diary {
    entries: Mutex<Vec<Did>>,
}

#[derive(Clone, Copy)]
enum Did {
    Claimed(CouponId, DateTime<Utc>),
    /// The request was sent, but not answered yet.
    Using(CouponId),
    Used(CouponId),
}

impl Diary {
    fn note(&self, did: Did) {
        self.entries.lock().unwrap().push(did);
    }

    fn so_far(&self) -> Vec<Did> {
        self.entries.lock().unwrap().clone()
    }
}

async fn write(
    shopper: Shopper,
    [lasting, brief]: [TemplateId; 2],
    diary: &Diary,
    progress: &ReaderProgress,
    mut rng: Rng,
) {
    let mut unused = Vec::new();
    for number in 0.. {
        if progress.over.load(Ordering::SeqCst) {
            break;
        }
        if unused.len() >= UNUSED_MAX || (number % 3 == 2 && !unused.is_empty()) {
            let id = unused.swap_remove(rng.usize(0..unused.len()));
            diary.note(Did::Using(id));
            let used = shopper.use_coupon(id, "order").await.unwrap();
            assert_eq!(used.status, 200, "{}", used.body);
            diary.note(Did::Used(id));
            continue;
        }
        let template = if rng.u8(0..4) == 0 { brief } else { lasting };
        let key = format!("key-{number}");
        let quantity = rng.u32(1..=2);
        let claim = async || shopper.claim(template, Some(&key), quantity).await.unwrap();
        let answer = until(claim, |answer| !answer.is_passing()).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        let body: Value = answer.json().unwrap();
        let valid_until: DateTime<Utc> = body["valid_until"].as_str().unwrap().parse().unwrap();
        for coupon in body["coupons"].as_array().unwrap() {
            let id = coupon["id"].as_str().unwrap().parse().unwrap();
            diary.note(Did::Claimed(id, valid_until));
            unused.extend((template == lasting).then_some(id));
        }
    }
}

async fn read(shopper: Shopper, world: &World, diary: &Diary, progress: &ReaderProgress) {
    while !progress.over.load(Ordering::SeqCst) {
        let before = diary.so_far();
        let asked_at = world.clock.now();
        let token = before.iter().rposition(|did| matches!(did, Did::Claimed(..)));
        let after = token.map(|at| match before[at] {
            Did::Claimed(id, _) | Did::Using(id) | Did::Used(id) => id,
        });
        // On one page, or on several with changes by others in between.
        let limit = [LIMIT, UNUSED_MAX as u32 * 3][before.len() % 2];
        let Some(list) = list(&shopper, after, limit).await else { continue };
        let answered_at = world.clock.now();
        let since = diary.so_far();
        progress.answers.fetch_add(1, Ordering::SeqCst);
        let shown: HashSet<CouponId> = list.iter().map(|coupon| coupon.id).collect();
        let user = shopper.user();
        assert_eq!(shown.len(), list.len(), "a coupon of {user} is shown twice");
        let leaving: HashSet<CouponId> = since
            .iter()
            .filter_map(|did| match did {
                Did::Using(id) => Some(*id),
                Did::Used(_) | Did::Claimed(..) => None,
            })
            .collect();
        for did in &before[..token.map_or(0, |at| at + 1)] {
            match did {
                Did::Claimed(id, valid_until) if *valid_until > answered_at => {
                    let there = shown.contains(id) || leaving.contains(id);
                    assert!(there, "{id} of {user} is missing after {after:?}");
                }
                Did::Used(id) => assert!(!shown.contains(id), "{id} of {user} was used before"),
                Did::Claimed(..) | Did::Using(_) => {}
            }
        }
        let ended = list.iter().find(|coupon| coupon.valid_until <= asked_at);
        assert!(ended.is_none(), "{ended:?} of {user} had ended before {asked_at}");
    }
}

/// Reads all pages of a list with `after`; returns `None` if the api is overloaded, which is a valid answer.
async fn list(shopper: &Shopper, after: Option<CouponId>, limit: u32) -> Option<Vec<Coupon>> {
    let mut query = CouponQuery { after, limit: Some(limit), ..CouponQuery::default() };
    let mut all = Vec::new();
    loop {
        match shopper.coupons(&query).await {
            Ok(page) => {
                all.extend(page.data);
                // `after` is sent with each page: the next one may come from another source.
                query.cursor = page.next_cursor;
            }
            Err(ShopperError::Refused { status: 503, body, .. }) if body.contains("OVERLOADED") => {
                return None;
            }
            Err(error) => panic!("a list of {}: {error}", shopper.user()),
        }
        if query.cursor.is_none() {
            return Some(all);
        }
    }
}

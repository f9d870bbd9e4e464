//! "My coupons" while its Redis loses keys: every answer holds what was committed before the coupon that
//! it was asked `after`, and none shows a coupon that was used or had ended before.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use chrono::{DateTime, Utc};
use coupon::{CouponId, TemplateId, UserId};
use devstack::{OwnView, TestServers};
use fastrand::Rng;
use futures::future::join_all;
use pipeline_tests::{World, until};
use redis_view::keys;
use serde_json::Value;
use shopper::{CouponQuery, NewTemplate, Shopper};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Users, each with a writer and a reader.
const USERS: i64 = 5;
/// Unused coupons of each, at most: they fit a page.
const UNUSED_MAX: usize = 30;
/// Losses, of six kinds in turn.
const LOSSES: u64 = 18;
/// Memory of the view's Redis: it fits all views, and not [`JUNK`] beside them.
const MEMORY: &str = "4mb";
/// Values of 20,000 bytes that crowd the views out.
const JUNK: usize = 200;
/// Answers between two losses: so that views are built and trusted in between.
const ANSWERS_BETWEEN: u64 = 25;

#[tokio::test]
async fn whatever_the_view_loses_each_answer_is_whole_and_shows_nothing_that_ended() {
    let server = OwnView::start("readers", &["--maxmemory", MEMORY]).await.unwrap();
    let servers = TestServers::shared().with_view(&server.url());
    let world = World::start_on(&servers, "readers", |options| options).await;
    let many = |new| NewTemplate { per_user_limit: 0, max_per_claim: 3, ..new };
    let lasting = world.template(100_000, many).await;
    let brief = |new| many(NewTemplate { valid_for_ms: 500, ..new });
    let brief = world.template(100_000, brief).await;
    let seed = fastrand::u64(..);
    println!("seed {seed}");

    let progress = Progress::default();
    let diaries: Vec<_> = (1..=USERS).map(|_| Diary::default()).collect();
    let (mut writers, mut readers) = (Vec::new(), Vec::new());
    for (user, diary) in (1..).zip(&diaries) {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let rng = Rng::with_seed(seed.wrapping_add(user.unsigned_abs()));
        writers.push(write(shopper.clone(), [lasting, brief], diary, &progress, rng));
        readers.push(read(shopper, &world, diary, &progress));
    }
    let losses = Losses {
        server,
        prefix: world.scope.key_prefix.clone(),
        progress: &progress,
        rng: Rng::with_seed(seed),
    };
    let (_, _, (server, happened)) =
        tokio::join!(join_all(writers), join_all(readers), losses.lose());

    let api = &world.platform.apis[0];
    let mut origins = Vec::new();
    for origin in ["view", "rebuild", "truth"] {
        let name = format!("api_my_coupons_total{{origin=\"{origin}\"}}");
        origins.push((origin, api.metric(&name).await.unwrap_or(0.0)));
    }
    println!("{} answers by {origins:?}; {happened}", progress.answers.load(Ordering::SeqCst));
    // Nothing is proved by views that were never trusted, or never lost.
    assert!(origins[0].1 > 0.0 && origins[1].1 > 10.0, "{origins:?}");
    // The verifier's own connection broke with the last restart, and is made anew.
    until(async || world.sources.view.users().await.is_ok(), |there| *there).await;
    world.assert_sound(None).await;
    world.end().await;
    drop(server);
}

/// How far all of them are.
#[derive(Default)]
struct Progress {
    /// Lists that readers got.
    answers: AtomicU64,
    /// Whether all is lost that shall be.
    over: AtomicBool,
}

/// What a user has done, in the order in which the answers came.
#[derive(Default)]
struct Diary {
    entries: Mutex<Vec<Did>>,
}

#[derive(Clone, Copy)]
enum Did {
    Claimed(CouponId, DateTime<Utc>),
    /// The request is on its way.
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
    progress: &Progress,
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
        let (key, quantity) = (format!("key-{number}"), rng.u32(1..=2));
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

async fn read(shopper: Shopper, world: &World, diary: &Diary, progress: &Progress) {
    while !progress.over.load(Ordering::SeqCst) {
        let (before, asked_at) = (diary.so_far(), world.clock.now());
        let token = before.iter().rposition(|did| matches!(did, Did::Claimed(..)));
        let after = token.map(|at| match before[at] {
            Did::Claimed(id, _) | Did::Using(id) | Did::Used(id) => id,
        });
        let query = CouponQuery { after, limit: Some(100), ..CouponQuery::default() };
        // Too many lists at once is an answer, too.
        let Ok(page) = shopper.coupons(&query).await else { continue };
        let (answered_at, since) = (world.clock.now(), diary.so_far());
        progress.answers.fetch_add(1, Ordering::SeqCst);
        assert!(page.next_cursor.is_none(), "one page holds all");
        let shown: HashSet<CouponId> = page.data.iter().map(|coupon| coupon.id).collect();
        let user = shopper.user();
        assert_eq!(shown.len(), page.data.len(), "a coupon of {user} is shown twice");
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
        let ended = page.data.iter().find(|coupon| coupon.valid_until <= asked_at);
        assert!(ended.is_none(), "{ended:?} of {user} had ended before {asked_at}");
    }
}

/// Everything that a view's Redis may lose.
struct Losses<'a> {
    server: OwnView,
    prefix: String,
    progress: &'a Progress,
    rng: Rng,
}

impl Losses<'_> {
    /// Loses them in turn; returns the server, and what happened.
    async fn lose(mut self) -> (OwnView, String) {
        let (mut keys_lost, mut evicted, mut views_evicted) = (0, 0, 0);
        for turn in 0..LOSSES {
            let answers = &self.progress.answers;
            let enough = answers.load(Ordering::SeqCst) + ANSWERS_BETWEEN;
            until(async || answers.load(Ordering::SeqCst), |seen| *seen >= enough).await;
            match turn % 6 {
                0 | 2 => {
                    let user = UserId(self.rng.i64(1..=USERS));
                    let keys = [keys::list, keys::coupons].map(|key| key(&self.prefix, user));
                    // One of them, or both.
                    let which = self.rng.usize(0..3);
                    let lost = if which == 2 { keys.join(" ") } else { keys[which].clone() };
                    keys_lost += self.number(&format!("DEL {lost}")).await;
                }
                1 | 3 => {
                    let (all, views) = self.crowd_out().await;
                    evicted += all;
                    views_evicted += views;
                }
                4 => drop(self.send("FLUSHALL").await),
                _ => {
                    self.server.server.kill().unwrap();
                    self.server.server.start().await.unwrap();
                }
            }
        }
        self.progress.over.store(true, Ordering::SeqCst);
        assert!(keys_lost > 0 && evicted > 0, "{keys_lost} {evicted}");
        let happened = format!(
            "{keys_lost} keys deleted, {evicted} evicted ({views_evicted} of views, at least)"
        );
        (self.server, happened)
    }

    /// Fills the memory, and tells how many keys were evicted for it, and how many of the users' were
    /// not there again at once.
    async fn crowd_out(&mut self) -> (i64, i64) {
        let junk = "x".repeat(20_000);
        let keys = (1..=USERS).flat_map(|user| {
            [keys::list, keys::coupons].map(|key| key(&self.prefix, UserId(user)))
        });
        let exist = format!("EXISTS {}", keys.collect::<Vec<_>>().join(" "));
        let (before, views_before) = (self.evicted().await, self.number(&exist).await);
        for number in 0..JUNK {
            self.send(&format!("SET junk:{number} {junk}")).await;
        }
        let views = views_before - self.number(&exist).await;
        (self.evicted().await - before, views.max(0))
    }

    async fn evicted(&self) -> i64 {
        let stats = self.send("INFO stats").await;
        let evicted = stats.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
        evicted.unwrap().trim().parse().unwrap()
    }

    async fn number(&self, command: &str) -> i64 {
        self.send(command).await.trim_start_matches(':').trim().parse().unwrap()
    }

    /// Sends a command as a plain line; its answer must fit one packet, and be none of an error.
    async fn send(&self, command: &str) -> String {
        let mut redis = TcpStream::connect(self.server.server.address()).await.unwrap();
        redis.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
        let mut answer = vec![0; 64 * 1024];
        let length = redis.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(!answer.starts_with('-'), "{command:.40}: {answer}");
        answer
    }
}

//! Clocks of the worker, the api or MySQL that are a day off: no coupon expires early by true time, none is used
//! after its deadline, whatever can continues, and a corrected clock repairs the rest.

use std::{fs, path::Path};

use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, TemplateId, UserId};
use devstack::{FakeClock, Options, Process, Servers, TestServers, project_root};
use mysql_store::verify as store;
use pipeline_tests::{REST_MAX, World, until};
use shopper::{Claimed, CouponQuery, NewTemplate, Shopper};
use topic::{Event, UserCouponRow};
use verifier::at_rest;

use crate::expiry::{events, is_early};

/// Seconds by which a clock is off.
const DAY: i64 = 24 * 60 * 60;

/// Below the limit of two seconds, so the worker continues, although it reports that it is not ready.
const LITTLE_MS: i64 = 1_800;

/// Above the limit, even when a slow connection to MySQL adds to the measured skew, so the worker stops flipping.
const MUCH_MS: i64 = 3_000;

/// Validity of tokens: longer than any clock is off.
const TOKEN_DAYS: i64 = 3;

/// A month, for coupons that outlive every timer.
const MONTH_MS: i64 = 30 * DAY * 1_000;

/// A template whose coupons end within the test, and one whose coupons would end only by a wrong clock.
struct Sale {
    brief: TemplateId,
    lasting: TemplateId,
}

#[tokio::test]
async fn a_worker_whose_clock_jumps_by_a_day_stops_flipping_says_so_and_goes_on_when_it_is_right() {
    let mut world = World::start("worker clock").await;
    let clock = own_clock(&mut world.platform.expiry_worker, &world.platform.options.dir).await;
    let sale = Sale::open(&world).await;
    for (user, jump) in [(1, DAY), (2, -DAY)] {
        let shopper = user_of(&world, user);
        // By the wrong clock this coupon has ended; the wake-up of the second one makes the worker check at once.
        let standing = claim(&user_of(&world, 10 + user), sale.lasting).await;
        clock.set(jump).unwrap();
        claim(&user_of(&world, 10 + user), sale.lasting).await;
        until_flipping(&world, false).await;
        let stands = user_of(&world, 10 + user).coupon(standing).await.unwrap();
        assert_eq!(stands.status, "unused");
        assert_says_so(&world.platform.expiry_worker).await;
        // Serving does not need the worker.
        let [used, kept, ended] = sale.serve(&shopper).await;
        sale.until_ended(&world, &shopper, ended).await;
        assert_eq!(world.count(sale.brief).await.expired, user - 1, "the worker does not flip");
        assert_shown(&shopper, &[kept]).await;
        assert_eq!(shopper.use_coupon(ended, "late").await.unwrap().status, 409);

        clock.set(0).unwrap();
        world.until(sale.brief, |counts| counts.expired == user).await;
        assert_eq!(shopper.coupon(used).await.unwrap().status, "used");
    }
    assert_eq!(world.count(sale.lasting).await.expired, 0);
    kill_and_start(&mut world.platform.expiry_worker).await;
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_worker_that_is_a_little_ahead_flips_nothing_before_mysqls_clock_says_so() {
    let mut world = World::start("worker ahead").await;
    let clock = own_clock(&mut world.platform.expiry_worker, &world.platform.options.dir).await;
    clock.set_millis(LITTLE_MS).unwrap();
    assert_eq!(ended_early(&world, 3_000, is_early).await, []);
    world.end().await;
}

#[tokio::test]
async fn a_worker_that_is_a_little_behind_flips_nothing_before_its_own_clock_says_so() {
    let mut world = World::start("worker behind").await;
    let clock = own_clock(&mut world.platform.expiry_worker, &world.platform.options.dir).await;
    clock.set_millis(-LITTLE_MS).unwrap();
    // MySQL's binlog has whole seconds.
    let early = |event: &Event<UserCouponRow>| {
        let row = event.after.as_ref().unwrap();
        let ended = row.status == CouponStatus::Expired.code();
        ended && event.source.ts_ms + 999 < row.valid_until + LITTLE_MS
    };
    assert_eq!(ended_early(&world, 1_000, early).await, []);
    world.end().await;
}

#[tokio::test]
async fn beyond_two_seconds_of_skew_flipping_stops_while_serving_goes_on_and_below_it_comes_back() {
    let mut world = World::start("skew limit").await;
    let clock = own_clock(&mut world.platform.expiry_worker, &world.platform.options.dir).await;
    let sale = Sale::open(&world).await;
    for (user, sign) in [(1, 1), (2, -1)] {
        let shopper = user_of(&world, user);
        clock.set_millis(sign * MUCH_MS).unwrap();
        until_flipping(&world, false).await;
        assert_says_so(&world.platform.expiry_worker).await;
        let [_, kept, ended] = sale.serve(&shopper).await;
        sale.until_ended(&world, &shopper, ended).await;
        assert_shown(&shopper, &[kept]).await;
        assert_eq!(world.count(sale.brief).await.expired, user - 1, "the worker does not flip");
        clock.set_millis(sign * LITTLE_MS).unwrap();
        until_flipping(&world, true).await;
        world.until(sale.brief, |counts| counts.expired == user).await;
    }
    clock.set(0).unwrap();
    kill_and_start(&mut world.platform.expiry_worker).await;
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn an_api_whose_clock_jumps_by_a_day_lets_nothing_be_used_after_its_end() {
    let mut world = World::start("api clock").await;
    let clock = own_clock(&mut world.platform.apis[0], &world.platform.options.dir).await;
    let sale = Sale::open(&world).await;
    for (user, jump) in [(1, DAY), (2, -DAY)] {
        // Without a worker, so that its flips do not hide the api's own check.
        world.platform.expiry_worker.stop().await.unwrap();
        let shopper = user_of(&world, user);
        let [used, kept, ended] = sale.serve(&shopper).await;
        sale.until_ended(&world, &shopper, ended).await;
        clock.set(jump).unwrap();
        until_skew(&world, jump).await;
        let late = shopper.use_coupon(ended, "late").await.unwrap();
        assert_eq!(late.status, 409, "{}", late.body);
        // The api still answers; with its clock ahead, it also rejects the other coupon, which is the safe side.
        assert_eq!(shopper.coupon(used).await.unwrap().status, "used");
        let other = shopper.use_coupon(kept, "order").await.unwrap();
        assert_eq!(other.status, 409, "{}", other.body);
        world.platform.expiry_worker.start().await.unwrap();
        world.until(sale.brief, |counts| counts.expired == user).await;

        clock.set(0).unwrap();
        let other = shopper.use_coupon(kept, "order").await.unwrap();
        assert_eq!(other.status, 200, "nothing has ended early: {}", other.body);
    }
    world.assert_sound(None).await;
    world.end().await;
}

/// Waits until the api reports that its clock is this many seconds ahead of MySQL's.
async fn until_skew(world: &World, seconds: i64) {
    let skew = async || world.platform.apis[0].metric("api_clock_skew_seconds").await;
    let is_reported =
        |skew: &Option<f64>| skew.is_some_and(|skew| (skew - seconds as f64).abs() < 60.0);
    until(skew, is_reported).await;
}

#[tokio::test]
async fn a_mysql_whose_clock_jumps_ends_nothing_early_and_a_month_passes_without_a_message() {
    let dir = project_root().join(".dev/test/mysql-clock");
    drop(fs::remove_dir_all(&dir));
    let mut servers = Servers::start(&dir, &Options::default()).await.unwrap();
    let clock = own_clock(&mut servers.database, &dir).await;
    let mut world =
        World::start_on(&TestServers::private(&servers), "mysql clock", |options| options).await;
    let sale = Sale::open(&world).await;
    for (user, jump) in [(1, DAY), (2, -DAY)] {
        let shopper = user_of(&world, user);
        clock.set(jump).unwrap();
        until_flipping(&world, false).await;
        assert_says_so(&world.platform.expiry_worker).await;
        let kept = claim(&shopper, sale.lasting).await;
        let ended = claim(&shopper, sale.brief).await;
        sale.until_ended(&world, &shopper, ended).await;
        assert_shown(&shopper, &[kept]).await;
        assert_eq!(shopper.use_coupon(ended, "late").await.unwrap().status, 409);
        assert_eq!(world.count(sale.brief).await.expired, user - 1, "the worker does not flip");
        assert_eq!(world.count(sale.lasting).await.expired, 0);

        clock.set(0).unwrap();
        world.until(sale.brief, |counts| counts.expired == user).await;
    }
    assert_eq!(world.count(sale.lasting).await.expired, 0);
    world.assert_sound(None).await;

    // Both clocks agree that a month has passed; by then only the deadline index knows the coupon.
    let month = world.template(1, |new| NewTemplate { valid_for_ms: MONTH_MS, ..new }).await;
    claim(&user_of(&world, 3), month).await;
    world.assert_sound(None).await;
    clock.give(&mut world.platform.expiry_worker);
    world.platform.expiry_worker.restart().await.unwrap();
    clock.set(29 * DAY).unwrap();
    world.until(sale.lasting, |counts| counts.unused == 0).await;
    assert_eq!(world.count(month).await.expired, 0);
    clock.set(31 * DAY).unwrap();
    world.until(month, |counts| counts.expired == 1).await;
    let mut connection = world.mysql().await;
    assert_eq!(store::bad_ends(&mut connection, world.clock.now()).await.unwrap(), []);
    drop(connection);
    clock.set(0).unwrap();
    kill_and_start(&mut world.platform.expiry_worker).await;
    world.end().await;
    servers.stop().await.unwrap();
    fs::remove_dir_all(dir).unwrap();
}

impl Sale {
    async fn open(world: &World) -> Self {
        let brief = world.template(10, |new| NewTemplate { valid_for_ms: 1_000, ..new }).await;
        let many = |new| NewTemplate { per_user_limit: 2, ..new };
        Self { brief, lasting: world.template(10, many).await }
    }

    /// Claims for a user: a coupon that is then used, an unused one, and one that ends soon.
    async fn serve(&self, shopper: &Shopper) -> [CouponId; 3] {
        let used = claim(shopper, self.lasting).await;
        let answer = shopper.use_coupon(used, "order").await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        [used, claim(shopper, self.lasting).await, claim(shopper, self.brief).await]
    }

    /// Waits until a coupon has ended by true time.
    async fn until_ended(&self, world: &World, shopper: &Shopper, id: CouponId) {
        let deadline: DateTime<Utc> = shopper.coupon(id).await.unwrap().valid_until;
        until(async || world.clock.now(), |now| *now >= deadline).await;
    }
}

/// Gives a process its own clock, correct for now, and restarts it.
async fn own_clock(process: &mut Process, dir: &Path) -> FakeClock {
    let clock = FakeClock::new(&dir.join("own-clock")).unwrap();
    clock.give(process);
    process.restart().await.unwrap();
    clock
}

/// Lets twenty users' coupons end; returns the events that `is_early` finds too early.
async fn ended_early(
    world: &World,
    valid_for_ms: i64,
    is_early: impl Fn(&Event<UserCouponRow>) -> bool,
) -> Vec<Event<UserCouponRow>> {
    let brief = world.template(20, |new| NewTemplate { valid_for_ms, ..new }).await;
    for user in 1..=20 {
        claim(&user_of(world, user), brief).await;
    }
    world.until(brief, |counts| counts.expired == 20).await;
    at_rest(&world.sources, &world.clock, REST_MAX).await.unwrap();
    events(world).await.into_iter().filter(is_early).collect()
}

fn user_of(world: &World, user: i64) -> Shopper {
    let life = chrono::TimeDelta::days(TOKEN_DAYS);
    world.api().shopper_until(UserId(user), life).unwrap()
}

async fn claim(shopper: &Shopper, template: TemplateId) -> CouponId {
    let key = fastrand::u64(..).to_string();
    let answer = shopper.claim(template, Some(&key), 1).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.json::<Claimed>().unwrap().coupons[0].id
}

async fn assert_shown(shopper: &Shopper, expected: &[CouponId]) {
    let query = CouponQuery { after: expected.first().copied(), ..CouponQuery::default() };
    let shown = shopper.coupons(&query).await.unwrap().data;
    assert_eq!(shown.iter().map(|coupon| coupon.id).collect::<Vec<_>>(), expected);
}

/// Kills and starts the worker. After its clock was wrong it works but may not end in order, because Kafka clients
/// that sleep by the time of day delay it.
async fn kill_and_start(worker: &mut Process) {
    worker.kill().unwrap();
    worker.start().await.unwrap();
}

/// Waits until the worker's metric reports whether it flips.
async fn until_flipping(world: &World, flipping: bool) {
    let worker = &world.platform.expiry_worker;
    let said = async || worker.metric("expiry_worker_flipping").await;
    until(said, |said| said.is_some_and(|said| (said > 0.5) == flipping)).await;
}

/// Asserts that the worker reports in its log and in `/readyz` that it does not flip.
async fn assert_says_so(worker: &Process) {
    let url = format!("http://{}/readyz", worker.address());
    let answer = reqwest::get(url).await.unwrap();
    assert_eq!(answer.status(), 503);
    let body = answer.text().await.unwrap();
    assert!(body.contains("ms ahead of MySQL's: nothing is flipped"), "{body}");
    let log = fs::read_to_string(worker.log()).unwrap();
    assert!(log.contains("nothing is flipped; set the clocks right"), "{log}");
}

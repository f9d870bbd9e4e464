//! A gate that loses its memory, or restarts with an older one, under load: it closes and recovers by itself;
//! nothing is oversold, and no user is served twice.

use std::{fs, path::Path, process::Command, time::Duration};

use chrono::TimeDelta;
use coupon::{Admission, Claim, ClaimId, CouponId, LandingMode, RequestId, TemplateId, UserId};
use devstack::{OwnRedis, PlatformOptions, TestServers};
use mysql_store::{
    landing::{self, Attempt, Landing},
    stock,
};
use pipeline_tests::{REST_MAX, STATE_MAX, World, histories, until};
use redis_gate::Meta;
use shopper::{Crowd, NewTemplate, Wish};
use testkit::server_of;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};
use verifier::at_rest;

use crate::claims::faults::is_stopped;

/// Coupons of one prepared transaction.
const CHUNK: i64 = 1_000;

/// First id of prepared claims and coupons: far below the ids that are generated from the clock.
const FIRST_ID: i64 = 1;

#[tokio::test]
async fn a_gate_of_5_000_users_that_is_flushed_under_load_is_back_by_itself() {
    let back = flush_under_load("flushed", 5_000, REST_MAX).await;
    println!("5,000 users: open {:.2} s after FLUSHALL", back.as_secs_f64());
}

#[tokio::test]
#[ignore = "minutes of preparation; ./dev soak a_gate_of_a_million_users"]
async fn a_gate_of_a_million_users_that_is_flushed_under_load_is_back_by_itself() {
    let back = flush_under_load("flushedmillion", 1_000_000, 10 * REST_MAX).await;
    println!("1,000,000 users: open {:.2} s after FLUSHALL", back.as_secs_f64());
}

/// Returns how long the gate was closed. `rest` is the longest time for the prepared rows to pass the pipeline.
async fn flush_under_load(name: &str, users: i64, rest: Duration) -> Duration {
    let (gate, mut world) = world_with_own_gate(name).await;
    let template = world.template(users + 1_000, |new| new).await;
    open_again(&world, template, 0).await;
    // The rows are prepared without the gate: an api would detect drift and reload it repeatedly.
    for api in &mut world.platform.apis {
        api.stop().await.unwrap();
    }
    hold_coupons(&world, template, users).await;
    flush(&gate).await;
    for api in &mut world.platform.apis {
        api.start().await.unwrap();
    }
    open_again(&world, template, users).await;
    at_rest(&world.sources, &world.clock, rest).await.unwrap();

    // New users compete for the remaining coupons; earlier ones ask for theirs again.
    let fresh = (1..=2_000).map(|user| Wish::one(template, UserId(users + user)));
    let old = (1..=1_000).map(|user| Wish::one(template, UserId(user * (users / 1_000))));
    let wishes = fresh.chain(old).collect();
    let crowd = world.crowd();
    let load = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
    world.until(template, |counts| counts.all() > users + 50).await;
    let began = Instant::now();
    flush(&gate).await;
    let refused = probe_until_refused(&world, template).await;
    assert!(refused, "a flushed gate refuses for now");
    open_again(&world, template, users).await;
    let back = began.elapsed();
    let run = load.await.unwrap();
    assert_eq!(run.given_up, 0);
    let replays = run.history.records.iter().filter(|record| record.replayed).count();
    assert!(replays >= 1_000, "every old user got the old coupon: {replays}");
    assert_eq!(world.count(template).await.all(), users + 1_000, "exactly the total");
    // The history does not contain the prepared claims, so I4 and I5 are not checked.
    world.assert_sound(None).await;
    world.end().await;
    back
}

#[tokio::test]
async fn a_gate_restarted_from_an_old_file_is_noticed_with_and_without_traffic() {
    let (mut gate, world) = world_with_own_gate("rewound").await;
    let template = world.template(400, |new| new).await;
    let mut runs = Vec::new();
    let mut first = 1;
    for traffic in [true, false] {
        runs.push(world.crowd().run(wave(template, first, 50)).await.unwrap());
        let copy = copy_of_gate_file(&mut gate).await;
        // Sales that the old file does not contain.
        runs.push(world.crowd().run(wave(template, first + 50, 100)).await.unwrap());
        let sold = world.count(template).await.all();
        let crowd = world.crowd();
        let wishes = if traffic { wave(template, first + 150, 50) } else { Vec::new() };
        let load = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
        if traffic {
            world.until(template, |counts| counts.all() > sold).await;
        }
        gate.server.kill().unwrap();
        restore(&copy, &gate);
        gate.server.start().await.unwrap();
        runs.push(load.await.unwrap());
        let sold = world.count(template).await.all();
        open_again(&world, template, sold).await;
        first += 200;
    }
    // A last wave of new users: exactly the total is sold.
    runs.push(world.crowd().run(wave(template, first, 200)).await.unwrap());
    assert!(runs.iter().all(|run| run.given_up == 0));
    assert_eq!(world.count(template).await.all(), 400);
    world.assert_sound(Some(&histories(runs))).await;
    world.end().await;
}

/// A real process resumes with a snapshot that is older than the gate.
#[tokio::test]
async fn a_process_stopped_in_a_rebuild_wakes_and_replaces_no_newer_gate() {
    let two_apis = |options| PlatformOptions { apis: 2, ..options };
    let mut world = World::start_with("woken", two_apis).await;
    let template = world.template(100, |new| new).await;
    let mut runs = vec![world.crowd().run(wave(template, 1, 10)).await.unwrap()];
    let stopped = &mut world.platform.apis[1];
    stopped.kill().unwrap();
    stopped.set_env("FAIL_POINTS", "rebuild.before_open=stop");
    stopped.start().await.unwrap();
    // Only the api that will stop may notice that the gate was lost.
    world.platform.apis[0].pause().unwrap();
    lose_gate(&world, template).await;
    until(async || is_stopped(&world.platform.apis[1]), |stopped| *stopped).await;
    let loading = world.sources.gate.meta(template).await.unwrap().unwrap();
    assert!(!loading.is_open(), "{loading:?}");

    world.platform.apis[0].resume().unwrap();
    open_again(&world, template, 10).await;
    let crowd = Crowd::new(vec![world.apis[0].clone()], 8, STATE_MAX);
    runs.push(crowd.run(wave(template, 11, 10)).await.unwrap());
    let newer = world.sources.gate.meta(template).await.unwrap().unwrap();
    assert!(newer.epoch > loading.epoch, "{newer:?}");

    world.platform.apis[1].resume().unwrap();
    // An api maintains its gates one after the other, so a new template's gate is loaded after that rebuild.
    let new = NewTemplate::simple("Another sale", 1, world.clock.now(), TimeDelta::hours(1));
    world.apis[1].publish_new(&new).await.unwrap();
    let now = world.sources.gate.meta(template).await.unwrap().unwrap();
    assert_eq!((now.epoch, now.is_open(), now.stock), (newer.epoch, true, 80));
    runs.push(world.crowd().run(wave(template, 11, 90)).await.unwrap());
    assert!(runs.iter().all(|run| run.given_up == 0));
    assert_eq!(world.count(template).await.all(), 100);
    world.assert_sound(Some(&histories(runs))).await;
    world.end().await;
}

/// Deletes the gate's metadata, by an inline command.
pub(crate) async fn lose_gate(world: &World, template: TemplateId) {
    let meta = format!("{}gate:1:{{{template}:0}}:meta", world.scope.key_prefix);
    let mut gate =
        TcpStream::connect(server_of(&world.scope.endpoints.gate_redis_url)).await.unwrap();
    gate.write_all(format!("DEL {meta}\r\n").as_bytes()).await.unwrap();
    let mut answer = [0; 4];
    gate.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b":1\r\n", "{meta}");
}

fn wave(template: TemplateId, first: i64, users: i64) -> Vec<Wish> {
    (first..first + users).map(|user| Wish::one(template, UserId(user))).collect()
}

/// Starts two apis on a gate that only this test uses and may break, and the shared other servers.
pub(crate) async fn world_with_own_gate(name: &str) -> (OwnRedis, World) {
    let gate = OwnRedis::gate(name).await.unwrap();
    let servers = TestServers::shared().with_gate(&gate.url());
    let two_apis = |options| PlatformOptions { apis: 2, ..options };
    let world = World::start_on(&servers, name, two_apis).await;
    (gate, world)
}

/// Gives the users 1..=`count` a coupon each, directly in MySQL.
async fn hold_coupons(world: &World, template: TemplateId, count: i64) {
    let mut connection = world.mysql().await;
    let now = world.clock.now();
    let landing = |user: i64, epoch| {
        let id = ClaimId(FIRST_ID + user);
        let key = "none";
        let claim = Claim {
            // No key was sent: with limit 1 the template itself is the key.
            request_id: RequestId::absent(),
            ..testkit::claim(id, template, UserId(user), key, 1, now)
        };
        let landed = testkit::landed(&claim, [(CouponId(FIRST_ID + user), 1)]);
        let admission = Admission { claim, epoch, numbers: vec![1] };
        Landing {
            admission,
            merchant_id: testkit::MERCHANT,
            terms: 1,
            landed,
            admitted_at: None,
            left_after: None,
        }
    };
    let epoch = stock::get(&mut connection, template).await.unwrap().unwrap().epoch;
    for first in (1..=count).step_by(usize::try_from(CHUNK).unwrap()) {
        let users = first..=count.min(first + CHUNK - 1);
        let landings: Vec<_> = users.map(|user| landing(user, epoch)).collect();
        let attempt = landing::land(&mut connection, LandingMode::Direct, &landings).await.unwrap();
        assert_eq!(attempt, Attempt::Landed);
    }
}

/// Makes the gate lose everything, by an inline command.
pub(crate) async fn flush(gate: &OwnRedis) {
    command(gate, "FLUSHALL").await;
}

/// Sends a command whose answer is `OK`.
pub(crate) async fn command(gate: &OwnRedis, command: &str) {
    let mut stream = TcpStream::connect(gate.server.address()).await.unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"+OK\r\n");
}

/// Waits until the gate is open and has at least this many users.
pub(crate) async fn open_again(world: &World, template: TemplateId, users: i64) {
    let look = async || world.sources.gate.meta(template).await.ok().flatten();
    let is_back = |meta: &Meta| meta.is_open() && meta.users >= users.unsigned_abs();
    until(look, |meta| meta.as_ref().is_some_and(is_back)).await;
}

/// Claims for a user who has a coupon until the answer is 503 with Retry-After; returns false if that never comes.
async fn probe_until_refused(world: &World, template: TemplateId) -> bool {
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let deadline = Instant::now() + STATE_MAX;
    while Instant::now() < deadline {
        let answer = shopper.claim(template, None, 1).await.unwrap();
        if answer.status == 503 {
            assert!(answer.retry_after.is_some(), "says when to come again: {}", answer.body);
            return true;
        }
    }
    false
}

/// Copies the gate's append-only files while it is stopped.
pub(crate) async fn copy_of_gate_file(gate: &mut OwnRedis) -> std::path::PathBuf {
    gate.server.stop().await.unwrap();
    let copy = gate.dir().join("gate-copy");
    drop(fs::remove_dir_all(&copy));
    copy_folder(&gate_file(gate), &copy);
    gate.server.start().await.unwrap();
    copy
}

pub(crate) fn restore(copy: &Path, gate: &OwnRedis) {
    let file = gate_file(gate);
    fs::remove_dir_all(&file).unwrap();
    copy_folder(copy, &file);
}

fn gate_file(gate: &OwnRedis) -> std::path::PathBuf {
    gate.dir().join("redis-gate/appendonlydir")
}

fn copy_folder(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

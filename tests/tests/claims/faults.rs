//! Faults at named points of a claim's path, as its client sees them: over HTTP, with real processes that die, stop
//! and hang. Cases that need no process of their own are tested in `landing`.

use std::{fs, time::Duration};

use coupon::{RequestId, TemplateId, TemplateState, UserId};
use devstack::{Flavor, OwnDatabase, PlatformOptions, Process, TestServers};
use fastrand::Rng;
use futures::{StreamExt as _, future::join_all, stream};
use mysql_store::template as templates;
use pipeline_tests::{STATE_MAX, World, until};
use redis_gate::RequestState;
use reqwest::Method;
use serde_json::Value;
use shopper::{Answer, NewTemplate, Shopper};
use testkit::{COMMIT, Proxy};
use tokio::time::{Instant, sleep, timeout};

/// Idempotency key of every claim.
const KEY: &str = "the-key";

fn two_apis(options: PlatformOptions) -> PlatformOptions {
    PlatformOptions { apis: 2, ..options }
}

fn several(new: NewTemplate) -> NewTemplate {
    NewTemplate { per_user_limit: 2, max_per_claim: 2, ..new }
}

/// Restarts a process with a variable changed.
pub(crate) async fn start_with(process: &mut Process, variable: &str, value: &str) {
    if process.is_running() {
        process.kill().unwrap();
    }
    process.set_env(variable, value);
    process.start().await.unwrap();
}

/// Sends the same claim until the answer is final.
pub(crate) async fn insist(shopper: &Shopper, template: TemplateId) -> Answer {
    let claim = async || shopper.claim(template, Some(KEY), 1).await;
    let is_final =
        |answer: &Result<Answer, _>| matches!(answer, Ok(answer) if !answer.is_passing());
    until(claim, is_final).await.unwrap()
}

/// Asserts that both apis answer each user's key alike, and that each user holds exactly one coupon.
async fn assert_one_each(world: &World, template: TemplateId, users: i64) {
    for user in 1..=users {
        let [one, other] = [0, 1].map(|api| world.apis[api].shopper(UserId(user)).unwrap());
        let first = insist(&one, template).await;
        let again = insist(&other, template).await;
        assert_eq!((first.status, again.status, again.replayed), (201, 201, true), "{user}");
        assert_eq!(first.body, again.body);
    }
    assert_eq!(world.count(template).await.all(), users);
    world.assert_sound(None).await;
    let stock = world.api().stock(template).await.unwrap();
    assert_eq!((stock.landed, stock.in_flight, stock.drift), (users, Some(0), Some(0)));
    assert_eq!(stock.gate_stock, Some(stock.total - users));
}

/// Whether a user's claim is still pending in the gate.
async fn is_pending(world: &World, template: TemplateId, user: i64) -> bool {
    let gate = &world.sources.gate;
    let epoch = gate.meta(template).await.unwrap().unwrap().epoch;
    let entry = gate.entry(template, epoch, UserId(user)).await.unwrap().unwrap_or_default();
    entry.requests.iter().any(|request| request.state == RequestState::Pending)
}

/// Changes the state in MySQL only: the gate continues to admit claims.
async fn change_state(world: &World, template: TemplateId, state: TemplateState) {
    let mut connection = world.mysql().await;
    let current = templates::get(&mut connection, template).await.unwrap().unwrap();
    let changed = templates::change_state(&mut connection, &current, state, world.clock.now());
    assert!(changed.await.unwrap());
}

/// Whether a whole process is stopped.
pub(crate) fn is_stopped(process: &Process) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid().unwrap())).unwrap();
    stat.contains(") T ")
}

#[tokio::test]
async fn an_api_killed_or_stopped_at_each_point_of_a_claims_way_loses_and_doubles_nothing() {
    devstack::quick_fault_test_of("api");
    let mut world = World::start_with("killed at each point", two_apis).await;
    let template = world.template(100, several).await;
    let mut user = 0;
    let points = [
        ("claims.after_gate", 0),
        ("landing.before_begin", 0),
        ("landing.after_insert", 0),
        ("landing.after_guard", 0),
        ("landing.before_commit", 0),
        ("landing.after_commit", 1),
        ("settler.before_settle", 1),
    ];
    let mut landed = 0;
    for (point, lands) in points {
        user += 1;
        start_with(&mut world.platform.apis[1], "FAIL_POINTS", &format!("{point}=kill")).await;
        let shopper = world.apis[1].shopper(UserId(user)).unwrap();
        let answer = shopper.claim(template, Some(KEY), 1).await;
        // Settling comes after the answer, which may have been sent already.
        assert!(answer.is_err() || point == "settler.before_settle", "{point}: {answer:?}");
        let ended = world.platform.apis[1].wait_exit(STATE_MAX).await;
        ended.unwrap_or_else(|error| panic!("{point}: {error}; answered {answer:?}"));
        // The open transaction was rolled back with its connection: none of its rows exist, and the stock row is
        // free.
        user += 1;
        let other = world.apis[0].shopper(UserId(user)).unwrap();
        assert_eq!(insist(&other, template).await.status, 201, "{point}");
        landed += lands + 1;
        assert_eq!(world.count(template).await.all(), landed, "{point}");
    }
    for point in ["claims.before_fence", "claims.before_release"] {
        user += 1;
        let hold = world.platform.options.dir.join("hold");
        fs::write(&hold, "").unwrap();
        let armed = format!("claims.after_gate=hold:{},{point}=kill", hold.display());
        start_with(&mut world.platform.apis[1], "FAIL_POINTS", &armed).await;
        let shopper = world.apis[1].shopper(UserId(user)).unwrap();
        let answer = tokio::spawn(async move { shopper.claim(template, Some(KEY), 1).await });
        until(async || is_pending(&world, template, user).await, |pending| *pending).await;
        change_state(&world, template, TemplateState::Paused).await;
        fs::remove_file(hold).unwrap();
        answer.await.unwrap().unwrap_err();
        world.platform.apis[1].wait_exit(STATE_MAX).await.unwrap();
        change_state(&world, template, TemplateState::Published).await;
    }
    user += 1;
    stopped_between_gate_and_landing(&mut world, template, user).await;
    assert_one_each(&world, template, user).await;
    world.end().await;
}

/// Other claims continue, the resolver of another api ends the stuck one, and the resumed process learns of it.
async fn stopped_between_gate_and_landing(world: &mut World, template: TemplateId, user: i64) {
    start_with(&mut world.platform.apis[1], "FAIL_POINTS", "claims.after_gate=stop").await;
    let shopper = world.apis[1].shopper(UserId(user)).unwrap();
    let answer = tokio::spawn(async move { shopper.claim(template, Some(KEY), 1).await });
    until(async || is_stopped(&world.platform.apis[1]), |stopped| *stopped).await;
    assert!(is_pending(world, template, user).await);
    assert_eq!(insist(&world.apis[0].shopper(UserId(1)).unwrap(), template).await.status, 201);
    until(async || is_pending(world, template, user).await, |pending| !pending).await;
    world.platform.apis[1].resume().unwrap();
    // By then the client has disconnected, or it gets 503: the claim did not land, or its outcome is unknown.
    let answer = answer.await.unwrap();
    assert!(answer.as_ref().map_or(true, |answer| answer.status == 503), "{answer:?}");
    start_with(&mut world.platform.apis[1], "FAIL_POINTS", "").await;
}

/// Longer than an api holds the lease of its worker number.
const MINUTES: Duration = Duration::from_secs(100);

/// MySQL dies, then hangs, each time for `longer` than a claim's client waits.
async fn mysql_away(name: &str, longer: Duration) {
    let own = name.replace(' ', "-");
    let mut database = OwnDatabase::start(&own, Flavor::Mariadb, &[]).await.unwrap();
    let shared = TestServers::shared().with_database(&database.url());
    let world = World::start_on(&shared, name, two_apis).await;
    let template = world.template(100, several).await;
    let opener = world.api().shopper(UserId(1)).unwrap();
    assert_eq!(insist(&opener, template).await.status, 201);
    for (user, dies) in [(2, true), (3, false)] {
        if dies { database.server.kill() } else { database.server.pause() }.unwrap();
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let answer = shopper.claim(template, Some(KEY), 1).await.unwrap();
        let code = answer.code();
        assert_eq!((answer.status, code.as_deref()), (503, Some("CLAIM_PENDING")), "{answer:?}");
        assert!(answer.retry_after.is_some());
        let poll = answer.json::<Value>().unwrap()["poll"].as_str().unwrap().to_owned();
        let look = async || shopper.send(shopper.request(Method::GET, &poll)).await.unwrap();
        assert_eq!(look().await.status, 503, "nothing is known");
        sleep(longer).await;
        if dies {
            database.server.start().await.unwrap();
        } else {
            database.server.resume().unwrap();
        }
        let polled = until(look, |polled| matches!(polled.status, 200 | 404)).await;
        let answer = insist(&shopper, template).await;
        assert_eq!(answer.status, 201);
        // It lands unless the outage outlasted the resolver's grace; then it is fenced.
        if polled.status == 200 {
            let polled: Value = polled.json().unwrap();
            assert_eq!(polled["claim"], answer.json::<Value>().unwrap());
        }
    }
    assert_one_each(&world, template, 3).await;
    world.end().await;
}

const CLIENTS: i64 = 1_000;

/// One client of so many waits for its answer.
const PATIENT_EACH: i64 = 50;

/// Shorter than the ten seconds after which a resolver ends an admission.
const BEFORE_RESOLVER: Duration = Duration::from_secs(8);

mod full {
    use super::*;

    #[tokio::test]
    async fn an_api_stopped_inside_its_transaction_frees_the_hot_row_in_seconds() {
        let mut world = World::start_with("hot row", two_apis).await;
        let template = world.template(100, several).await;
        let url = &world.scope.endpoints.database_url;
        let proxy = Proxy::before(url).await;
        let url = proxy.instead_of(url);
        start_with(&mut world.platform.apis[1], "DATABASE_URL", &url).await;
        // After this claim, all parts of the api have sent their start-up statements.
        let opener = world.apis[1].shopper(UserId(1)).unwrap();
        assert_eq!(insist(&opener, template).await.status, 201);
        let mut held = proxy.hold_request(COMMIT);
        let stuck = world.apis[1].shopper(UserId(2)).unwrap();
        let answer = tokio::spawn(async move { stuck.claim(template, Some(KEY), 1).await });
        held.reached().await;
        world.platform.apis[1].pause().unwrap();
        let began = Instant::now();
        assert_eq!(insist(&world.apis[0].shopper(UserId(3)).unwrap(), template).await.status, 201);
        let held_for = began.elapsed();
        println!("the hot row was free again after {held_for:?}");
        assert!(held_for > Duration::from_secs(1), "it was not held at all");
        assert!(held_for < Duration::from_secs(30), "{held_for:?}");
        assert_eq!(world.count(template).await.all(), 2, "the stopped one's is rolled back");
        // Its commit arrives on a closed connection.
        held.go_on();
        world.platform.apis[1].resume().unwrap();
        drop(answer.await.unwrap());
        assert_one_each(&world, template, 3).await;
        world.end().await;
    }

    #[tokio::test]
    async fn a_gate_whose_answer_is_lost_again_and_again_costs_the_client_nothing() {
        let mut world = World::start_with("gate answers", two_apis).await;
        let template = world.template(100, several).await;
        let url = &world.scope.endpoints.gate_redis_url;
        let proxy = Proxy::before(url).await;
        let url = proxy.instead_of(url);
        start_with(&mut world.platform.apis[1], "GATE_REDIS_URL", &url).await;
        let digest = RequestId::from_client(KEY).unwrap().digest();

        let lost = async |times: usize, user: i64| {
            let held: Vec<_> = (0..times).map(|_| proxy.hold_answer(&digest)).collect();
            let shopper = world.apis[1].shopper(UserId(user)).unwrap();
            let answer = tokio::spawn(async move { shopper.claim(template, Some(KEY), 1).await });
            for mut held in held {
                held.reached().await;
                held.cut();
            }
            answer.await.unwrap().unwrap()
        };
        let once = lost(1, 1).await;
        assert_eq!((once.status, once.replayed), (201, false), "{once:?}");
        let thrice = lost(3, 2).await;
        assert_eq!((thrice.status, thrice.replayed), (201, false), "{thrice:?}");
        assert_one_each(&world, template, 2).await;
        world.end().await;
    }

    #[tokio::test]
    async fn a_key_that_is_being_worked_on_elsewhere_is_in_progress_and_then_answered_alike() {
        let mut world = World::start_with("in progress", two_apis).await;
        let template = world.template(10, several).await;
        let hold = world.platform.options.dir.join("hold");
        fs::write(&hold, "").unwrap();
        let armed = format!("claims.after_gate=hold:{}", hold.display());
        start_with(&mut world.platform.apis[1], "FAIL_POINTS", &armed).await;
        let [other, same] = [0, 1].map(|api| world.apis[api].shopper(UserId(1)).unwrap());
        let claim = || {
            let same = same.clone();
            tokio::spawn(async move { same.claim(template, Some(KEY), 1).await.unwrap() })
        };
        let first = claim();
        until(async || is_pending(&world, template, 1).await, |pending| *pending).await;
        // The process that is handling the key makes a second request wait for the same answer.
        let second = claim();
        let outcome = |answer: &Answer| (answer.status, answer.code().unwrap_or_default());
        for (shopper, quantity) in [(&other, 1), (&same, 2)] {
            let answer = shopper.claim(template, Some(KEY), quantity).await.unwrap();
            assert_eq!(outcome(&answer), (409, "REQUEST_IN_PROGRESS".to_owned()), "{answer:?}");
            assert!(answer.retry_after.is_some(), "{answer:?}");
        }
        let reused = other.claim(template, Some(KEY), 2).await.unwrap();
        assert_eq!(outcome(&reused), (422, "IDEMPOTENCY_KEY_REUSED".to_owned()), "{reused:?}");
        assert_eq!(world.count(template).await.all(), 0, "nothing has landed yet");

        fs::remove_file(hold).unwrap();
        let first = first.await.unwrap();
        let second = second.await.unwrap();
        assert_eq!((first.status, first.replayed), (201, false), "{first:?}");
        let again = insist(&other, template).await;
        for answer in [second, again] {
            assert_eq!((answer.status, answer.replayed), (201, true), "{answer:?}");
            assert_eq!(answer.body, first.body);
        }
        assert_eq!(world.count(template).await.all(), 1);
        world.assert_sound(None).await;
        world.end().await;
    }

    #[tokio::test]
    async fn while_mysql_is_away_the_client_learns_where_to_look_and_the_claim_lands_later() {
        mysql_away("mysql away", Duration::ZERO).await;
    }

    #[tokio::test]
    #[ignore = "four minutes; ./dev soak while_mysql_is_away_for_minutes"]
    async fn while_mysql_is_away_for_minutes_nothing_is_lost_and_claims_land_when_it_is_back() {
        mysql_away("mysql away for minutes", MINUTES).await;
    }

    #[tokio::test]
    async fn a_thousand_clients_that_hang_up_at_random_moments_cancel_and_leak_nothing() {
        let world = World::start_with("hang up", two_apis).await;
        let template = world.template(CLIENTS + 100, |new| new).await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = Rng::with_seed(seed);
        let visits = (1..=CLIENTS).map(|user| {
            let shopper = world.apis[random.usize(..2)].shopper(UserId(user)).unwrap();
            // From 0.1 ms to 0.5 s, each order of magnitude equally often. A loaded machine answers nobody in that time.
            let patience = match user % PATIENT_EACH {
                0 => STATE_MAX,
                _ => Duration::from_micros(100 << random.u32(..13)).mul_f64(random.f64()),
            };
            async move { timeout(patience, shopper.claim(template, Some(KEY), 1)).await.is_ok() }
        });
        let visits: Vec<_> = visits.collect();
        let answered: Vec<bool> = stream::iter(visits).buffer_unordered(64).collect().await;
        let answered = answered.into_iter().filter(|answered| *answered).count();
        println!("{answered} of {CLIENTS} waited for their answer");
        assert!((1..CLIENTS.unsigned_abs() as usize).contains(&answered));
        let began = Instant::now();
        until(
            async || world.api().stock(template).await.unwrap(),
            |stock| stock.in_flight == Some(0),
        )
        .await;
        assert!(began.elapsed() < BEFORE_RESOLVER, "they were ended by the resolver");
        world.assert_sound(None).await;
        let stock = world.api().stock(template).await.unwrap();
        assert_eq!((stock.in_flight, stock.drift), (Some(0), Some(0)));
        assert_eq!(stock.gate_stock, Some(stock.total - stock.landed));
        // A returning client gets its claimed coupon, or claims now; none gets two.
        let again = (1..=CLIENTS).map(|user| {
            let shopper = world.api().shopper(UserId(user)).unwrap();
            async move { insist(&shopper, template).await.status }
        });
        assert!(join_all(again).await.into_iter().all(|status| status == 201));
        assert_eq!(world.count(template).await.all(), CLIENTS);
        world.assert_sound(None).await;
        world.end().await;
    }
}

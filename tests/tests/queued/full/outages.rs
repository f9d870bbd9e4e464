//! MySQL or the broker is away while claims go on: those that wait for neither are answered 202 and nothing else, and
//! all of them land when the server is back.

use std::{fs, time::Duration};

use coupon::TemplateId;
use devstack::{Options, Servers, TestServers, project_root};
use mysql_store::verify;
use pipeline_tests::{
    World,
    promises::{Ends, Promises},
    until,
};
use reqwest::Method;
use shopper::{Accepted, Answer};
use tokio::time::{Instant, sleep};

use crate::queued::{KEY, after_gate, after_topic, shopper, two_apis};

/// Beside the five seconds after which an api answers a claim whose outcome is unknown.
const SHORT: Duration = Duration::from_secs(2);

const LONG: Duration = Duration::from_secs(60);

/// What docs/operate/queued.md promises for an outage of MySQL, and some seconds.
const PROMISED: Duration = Duration::from_secs(610);

/// Queued templates that end while the broker is away, each of which waits for it.
const ENDING: i64 = 60;

/// Pause between the claims of an outage.
const APART: Duration = Duration::from_millis(200);

#[tokio::test]
async fn while_mysql_is_away_queued_claims_are_accepted_and_land_when_it_is_back() {
    mysql_away("queued mysql away", SHORT, SHORT).await;
}

#[tokio::test]
#[ignore = "a quarter of an hour; ./dev soak while_mysql_is_away_for_ten_minutes"]
async fn while_mysql_is_away_for_ten_minutes_queued_claims_are_accepted_and_land_when_it_is_back() {
    mysql_away("queued mysql away for ten minutes", PROMISED, LONG).await;
}

/// A lander leaves its partitions when MySQL has been silent for ten seconds. Then neither it nor another lander has
/// them.
#[tokio::test]
async fn while_mysql_is_silent_no_lander_says_that_nothing_waits() {
    let (mut servers, world) = start("queued mysql silent").await;
    let template = world.template(10, after_gate).await;
    servers.database.pause().unwrap();
    let mut promises = Promises::default();
    let answer = promises.claim(&shopper(&world, 0, 1), template, Some(KEY), 1).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let gauges = async || {
        let of = async |name| world.platform.lander.metric(name).await.unwrap();
        let [backlog, oldest] = ["claim_lander_backlog_messages", "claim_lander_oldest_seconds"];
        [of(backlog).await, of(oldest).await]
    };
    until(gauges, |gauges| gauges.iter().all(|gauge| gauge.is_nan())).await;

    servers.database.resume().unwrap();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(1));
    until(gauges, |gauges| *gauges == [0.0; 2]).await;
    world.assert_sound(None).await;
    end(world, &mut servers).await;
}

#[tokio::test]
async fn while_the_broker_is_away_the_outbox_takes_claims_and_those_after_the_topic_say_unknown() {
    broker_away("queued broker away", SHORT).await;
}

#[tokio::test]
#[ignore = "two minutes; ./dev soak while_the_broker_is_away_for_a_minute"]
async fn while_the_broker_is_away_for_a_minute_the_outbox_takes_claims_and_they_land() {
    broker_away("queued broker away for a minute", LONG).await;
}

/// Each of them renews a lease, and asks the broker and MySQL again and again.
#[tokio::test]
async fn while_the_broker_is_away_many_queues_that_close_keep_no_claim_and_no_probe_waiting() {
    let (mut servers, world) = start("queued many ends").await;
    let direct = world.template(1_000, |new| new).await;
    let mut ending = Vec::new();
    for _ in 0..ENDING {
        ending.push(world.template(10, after_gate).await);
    }
    servers.kafka.pause().unwrap();
    for template in ending {
        let end = format!("/v1/templates/{template}/end");
        let request = world.api().operator(Method::POST, &end).header("if-match", "*");
        let answer = world.api().send(request).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let mut mysql = world.mysql().await;
    let mut number = async |sql| verify::number(&mut mysql, sql).await.unwrap();
    let waiting = "select count(*) from lease \
                   where name like 'rebuild:%' and until > utc_timestamp(3)";
    until(async || number(waiting).await, |waiting| *waiting == ENDING).await;
    for user in 1..=20 {
        let anna = shopper(&world, usize::from(user % 2 == 0), user);
        let answer = anna.claim(direct, Some(KEY), 1).await.unwrap();
        assert_eq!(answer.status, 201, "user {user}: {answer:?}");
    }
    for api in &world.platform.apis {
        assert!(api.answer("/readyz").await.is_some(), "a probe is answered");
    }
    assert_eq!(number(waiting).await, ENDING, "nobody's lease has lapsed");
    servers.kafka.resume().unwrap();
    let closed = "select count(*) from template_stock where queue_closed = 1";
    until(async || number(closed).await, |closed| *closed == ENDING).await;
    assert_eq!(world.count(direct).await.all(), 20);
    world.assert_sound(None).await;
    end(world, &mut servers).await;
}

/// A platform on servers that only this test uses and may stop.
async fn start(name: &str) -> (Servers, World) {
    let dir = project_root().join(".dev/test").join(name.replace(' ', "-"));
    drop(fs::remove_dir_all(&dir));
    let servers = Servers::start(&dir, &Options::default()).await.unwrap();
    let world = World::start_on(&TestServers::private(&servers), name, two_apis).await;
    (servers, world)
}

async fn end(world: World, servers: &mut Servers) {
    world.end().await;
    let dir = servers.dir().to_path_buf();
    servers.stop().await.unwrap();
    fs::remove_dir_all(dir).unwrap();
}

/// Claims of new users, one after the other, each answered 202.
async fn accept(
    world: &World,
    promises: &mut Promises,
    template: TemplateId,
    users: &mut i64,
    back: Instant,
) {
    while Instant::now() < back {
        *users += 1;
        let anna = shopper(world, usize::from(*users % 2 == 0), *users);
        let answer = promises.claim(&anna, template, Some(KEY), 1).await;
        assert_eq!(answer.status, 202, "user {users}: {answer:?}");
        sleep(APART).await;
    }
}

/// MySQL dies, then hangs, for these times after the apis have noticed.
async fn mysql_away(name: &str, dead: Duration, hung: Duration) {
    let (mut servers, world) = start(name).await;
    let [topic, gate, spill] = [
        world.template(10_000, after_topic).await,
        world.template(10_000, after_gate).await,
        world.template(10_000, |new| new.in_mode("spill", "topic")).await,
    ];
    let mut lists = [Promises::default(), Promises::default(), Promises::default()];
    let mut users = [0, 0, 1];
    // While MySQL keeps up, the third answers 201.
    let direct = shopper(&world, 0, 1).claim(spill, Some(KEY), 1).await.unwrap();
    assert_eq!(direct.status, 201, "{direct:?}");
    for dies in [true, false] {
        if dies { servers.database.kill() } else { servers.database.pause() }.unwrap();
        // Claims that a lander had when MySQL went are unknown. From its first 202 on an api has no other answer.
        let first = async || {
            let [one, other] = [0, 1].map(|api| {
                users[2] += 1;
                shopper(&world, api, users[2])
            });
            let told =
                tokio::join!(one.claim(spill, Some(KEY), 1), other.claim(spill, Some(KEY), 1));
            let told = [(one, told.0.unwrap()), (other, told.1.unwrap())];
            told.map(|(anna, answer)| {
                let accepted = Accepted::read(&answer, spill, anna.user(), Some(KEY), 1);
                lists[2].claims.extend(accepted);
                answer.status
            })
        };
        until(first, |statuses| *statuses == [202; 2]).await;
        let back = Instant::now() + if dies { dead } else { hung };
        let [of_topic, of_gate, of_spill] = &mut lists;
        let [topic_users, gate_users, spill_users] = &mut users;
        tokio::join!(
            accept(&world, of_topic, topic, topic_users, back),
            accept(&world, of_gate, gate, gate_users, back),
            accept(&world, of_spill, spill, spill_users, back),
        );
        if dies {
            servers.database.start().await.unwrap();
        } else {
            servers.database.resume().unwrap();
        }
        for promises in &mut lists {
            let count = promises.claims.len();
            assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
        }
    }
    for (template, users) in [topic, gate].into_iter().zip(users) {
        assert_eq!(world.count(template).await.all(), users);
    }
    // Users who were told "unknown" send their keys once more.
    let mut again = Promises::default();
    for user in 1..=users[2] {
        let answer = again.insist(&shopper(&world, 0, user), spill, Some(KEY), 1).await;
        assert_eq!(answer.status, 201, "user {user}: {answer:?}");
    }
    assert_eq!(world.count(spill).await.all(), users[2]);
    world.assert_sound(None).await;
    end(world, &mut servers).await;
}

/// The broker hangs: what waits for it is told that its outcome is unknown, and lands later.
async fn broker_away(name: &str, longer: Duration) {
    let (mut servers, world) = start(name).await;
    let [topic, gate] =
        [world.template(10_000, after_topic).await, world.template(10_000, after_gate).await];
    let mut promises = Promises::default();
    let mut users = 0;
    let unknown = 5;
    servers.kafka.pause().unwrap();
    let back = Instant::now() + longer;
    let told = futures::future::join_all((1..=unknown).map(|user| {
        let anna = shopper(&world, 0, user);
        async move { anna.claim(topic, Some(KEY), 1).await }
    }));
    let (told, ()) = tokio::join!(told, accept(&world, &mut promises, gate, &mut users, back));
    for answer in told {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 503, "{answer:?}");
        let place = answer.location.clone().or_else(|| poll(&answer));
        assert!(place.is_some(), "it says where to look: {answer:?}");
        assert!(answer.retry_after.is_some(), "{answer:?}");
    }
    assert_eq!(world.count(gate).await.all(), 0, "nobody carries them");
    servers.kafka.resume().unwrap();
    let count = promises.claims.len();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
    for user in 1..=unknown {
        let answer = promises.insist(&shopper(&world, 1, user), topic, Some(KEY), 1).await;
        assert_eq!(answer.status, 201, "user {user}: {answer:?}");
    }
    assert_eq!(world.count(topic).await.all(), unknown);
    assert_eq!(world.count(gate).await.all(), users);
    world.assert_sound(None).await;
    end(world, &mut servers).await;
}

/// Where a problem says to look.
fn poll(answer: &Answer) -> Option<String> {
    let problem: serde_json::Value = answer.json().ok()?;
    Some(problem["poll"].as_str()?.to_owned())
}

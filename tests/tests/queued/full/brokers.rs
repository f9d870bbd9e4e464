//! Brokers of a cluster die under a queued sale: two of three, so that no message gets its copies, and the leader of
//! the claims, so that producers that are not idempotent send again.

use std::{cell::Cell, collections::BTreeSet, time::Duration};

use coupon::{ClaimId, TemplateId, UserId};
use devstack::{OwnBrokers, Scope, TestServers};
use futures::future::join_all;
use mysql_store::verify::copy_schema;
use pipeline_tests::{
    World,
    promises::{Ends, Promises},
    replay, until, until_within,
};
use shopper::{Claimed, Wish};
use testkit::sql;
use topic::{
    ONLY_BUCKET, TopicLayout, TopicNames, claims_partition, ensure_topics, topic_offsets,
    verify::{self, copies_in_sync},
};

use crate::{
    queued::{KEY, accepted, after_topic, assert_sold, decided, shopper, two_apis},
    tailer::full::brokers::{COPIES, until_in_sync},
};

/// Partitions of the keyed topics, as in other tests.
const PARTITIONS: i32 = 4;

/// Coupons of a template that does not sell out.
const PLENTY: i64 = 100_000;

/// Users who claim before two brokers are gone, and while they are.
const BEFORE: i64 = 20;
const WITHOUT: i64 = 8;

/// Users of a wave, of which several come while the leader changes.
const WAVE: i64 = 64;

/// Claims that the topic has when its leader dies.
const SOME: i64 = 40;

/// Longest time until claims land again: brokers that start and groups that form anew, on a busy machine.
const BACK_MAX: Duration = Duration::from_mins(3);

/// A platform on brokers of its own, with a copy of each topic on each.
async fn start(name: &str) -> (OwnBrokers, World) {
    let cluster = OwnBrokers::start(&name.replace(' ', "-")).await.unwrap();
    let mut scope = TestServers::shared().scope(name);
    scope.endpoints.kafka_brokers = cluster.brokers();
    // Topics that exist keep their copies; those that a world makes have one.
    let names = TopicNames::new(&scope.topic_prefix);
    let layout = TopicLayout { partitions: PARTITIONS, replication: 3 };
    ensure_topics(&cluster.brokers(), &names, &layout).await.unwrap();
    copy_schema(&scope.endpoints.database_url).await.unwrap();
    let replicated = COPIES.to_string();
    let options = |options| two_apis(options).with_env("TOPIC_REPLICATION", &replicated);
    let world = World::start_as_with(scope, options, |_| {}).await;
    until_in_sync(&world.scope).await;
    (cluster, world)
}

/// The ids of all claims of a template in MySQL, whatever became of them.
fn rows(world: &World, template: TemplateId) -> BTreeSet<ClaimId> {
    let select = format!("select id from claim where template_id = {template}");
    let rows = sql(&world.scope.endpoints.database_url, &select);
    rows.lines().map(|id| id.parse().unwrap()).collect()
}

/// Waits until brokers that were started again have everything.
async fn until_back(world: &World) {
    let Scope { endpoints, topic_prefix, .. } = &world.scope;
    let copies = async || copies_in_sync(&endpoints.kafka_brokers, topic_prefix).await;
    until_within(BACK_MAX, copies, |copies| copies.as_ref().is_ok_and(|copies| *copies == COPIES))
        .await
        .unwrap();
}

async fn until_landed(world: &World, template: TemplateId, claims: i64) {
    let ends = async || decided(world, template).await;
    until_within(BACK_MAX, ends, |(landed, _)| *landed >= claims).await;
}

/// The third broker has some claims alone, and no majority of controllers is left to make it the only copy that counts.
#[tokio::test]
async fn two_of_three_brokers_gone_refuse_topic_202s_and_lose_none() {
    let (mut cluster, mut world) = start("queued two brokers gone").await;
    let template = world.template(PLENTY, after_topic).await;
    let mut promises = Promises::default();
    // What is answered 202 waits in the topic when the brokers go.
    world.platform.lander.pause().unwrap();
    for user in 1..=BEFORE {
        accepted(&mut promises, &shopper(&world, usize::from(user % 2 == 0), user), template).await;
    }
    for lost in &mut cluster.servers[1..] {
        lost.kill().unwrap();
    }
    let all = BEFORE + WITHOUT;
    let told = join_all((BEFORE + 1..=all).map(|user| {
        let anna = shopper(&world, usize::from(user % 2 == 0), user);
        async move { anna.claim(template, Some(KEY), 1).await.unwrap() }
    }));
    for answer in told.await {
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.retry_after.is_some(), "{answer:?}");
    }
    assert_eq!(rows(&world, template), BTreeSet::new(), "nothing has landed so far");

    for back in &mut cluster.servers[1..] {
        back.spawn().unwrap();
    }
    until_back(&world).await;
    world.platform.lander.resume().unwrap();
    until_landed(&world, template, BEFORE).await;
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(promises.claims.len()));
    // The same keys again: those that were told "unknown" end, and the others have ended.
    let mut ids = BTreeSet::new();
    for user in 1..=all {
        let anna = shopper(&world, usize::from(user % 2 == 1), user);
        let answer = promises.insist(&anna, template, Some(KEY), 1).await;
        assert_eq!(answer.status, 201, "user {user}: {answer:?}");
        ids.insert(answer.json::<Claimed>().unwrap().id);
    }
    assert!(promises.claims.iter().all(|claim| ids.contains(&claim.id)), "{promises:?}");
    assert_sold(&world, template, all).await;
    assert_eq!(rows(&world, template), ids);
    world.end().await;
}

/// The leader dies while claims are published. What it had not acknowledged is sent again, by the client and by users
/// who send the same key again, and nobody tells whether it was written. One message also comes again by hand.
#[tokio::test]
async fn a_claim_published_twice_across_a_leader_change_lands_once() {
    let (mut cluster, mut world) = start("queued leader change").await;
    let template = world.template(PLENTY, after_topic).await;
    let brokers = cluster.brokers();
    let claims = world.sources.topics.claims();
    let partition = claims_partition(template, ONLY_BUCKET, PARTITIONS);
    let leader = async || verify::leader(&brokers, &claims, partition).await.ok().flatten();
    let first = until(leader, Option::is_some).await.unwrap();
    // All messages are in the topic before the first of them lands.
    world.platform.lander.pause().unwrap();

    let has_moved = Cell::new(false);
    let claiming = async {
        let mut runs = Vec::new();
        let mut users = 0;
        let mut is_last = false;
        while !is_last {
            is_last = has_moved.get();
            let wave = users + 1..=users + WAVE;
            users += WAVE;
            let wishes = wave.map(|user| Wish::one(template, UserId(user)).with_key(KEY));
            let run = world.crowd().leaving().run(wishes.collect()).await.unwrap();
            assert_eq!(run.given_up, 0, "each claim is accepted by the next leader at last");
            runs.push(run);
        }
        runs
    };
    let victim = usize::try_from(first - 1).unwrap();
    let moving = async {
        let published = async || {
            let held = topic_offsets(&brokers, &claims).await.unwrap_or_default();
            held.iter().map(|partition| partition.end).sum::<i64>()
        };
        until(published, |published| *published >= SOME).await;
        cluster.servers[victim].kill().unwrap();
        until(leader, |now| now.is_some_and(|now| now != first)).await;
        has_moved.set(true);
    };
    let (runs, ()) = tokio::join!(claiming, moving);
    cluster.servers[victim].spawn().unwrap();
    until_back(&world).await;

    let messages = replay::published(&brokers, &claims).await.unwrap();
    let one = &messages[..1];
    replay::deliver(&brokers, one).await.unwrap();
    world.platform.lander.resume().unwrap();
    let mut promises = Promises::of(&runs);
    let ids: BTreeSet<ClaimId> = promises.claims.iter().map(|claim| claim.id).collect();
    let all = WAVE * i64::try_from(runs.len()).unwrap();
    assert_eq!(i64::try_from(ids.len()).unwrap(), all, "one claim of each user");
    until_landed(&world, template, all).await;
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(promises.claims.len()));
    // Once more, after it has landed.
    replay::deliver(&brokers, one).await.unwrap();
    assert_sold(&world, template, all).await;
    assert_eq!(rows(&world, template), ids);
    assert_eq!(decided(&world, template).await, (all, 0));
    world.end().await;
}

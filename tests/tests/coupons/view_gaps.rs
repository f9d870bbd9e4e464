//! Changes that never reach the consumer: the topic deletes them unread, and no earlier view is trusted any more.
//! Control records of the tailers' transactions look like such gaps but drop no view.

use std::collections::{BTreeSet, HashMap};

use coupon::{CouponId, CouponStatus, TemplateId, UserId};
use mysql_store::verify::topic_rows;
use pipeline_tests::{World, until};
use shopper::{Claimed, NewTemplate, Shopper, Wish};
use topic::{TableReader, topic_offsets};

use crate::expiry::{broken, events};

/// Users with a view each, enough for every partition.
const USERS: i64 = 24;
/// Coupons read from MySQL at once: all there are.
const ROWS: u32 = 10_000;
/// How often a tailer is killed: each start ends the previous transaction and begins others.
const KILLS: i64 = 3;

/// What keeps the consumer from reading.
#[derive(Clone, Copy)]
enum Away {
    /// It resumes at its group's committed offset.
    Stopped,
    /// It resumes at the offset in its memory.
    Paused,
}

#[tokio::test]
async fn changes_that_the_topic_forgot_while_the_consumer_was_stopped_are_missing_on_no_list() {
    devstack::quick_fault_test_of("sync-consumer");
    forget_unread("forgotten stopped", Away::Stopped).await;
}

async fn forget_unread(name: &str, away: Away) {
    let mut world = World::start(name).await;
    let many = |new| NewTemplate { per_user_limit: 0, max_per_claim: 3, ..new };
    let template = world.template(10_000, many).await;
    for user in 1..=USERS {
        claim(&world, template, user, "first", 3).await;
    }
    world.warm_views(1..=USERS).await;
    world.assert_sound(None).await;
    assert_eq!(gaps(&world).await, 0);

    away.leave(&mut world).await;
    let mut unheard = BTreeSet::new();
    for user in 1..=USERS {
        let used = unused_of(&world, user).await.pop_first().unwrap();
        let answer = shopper(&world, user).use_coupon(used, "order").await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        unheard.insert((used.0, 2));
        unheard.insert((claim(&world, template, user, "unheard", 1).await, 1));
    }
    until_published(&world, &unheard).await;
    forget_messages(&world).await;
    away.come_back(&mut world).await;
    // Every user gets a change, in each partition.
    let mut heard = BTreeSet::new();
    for user in 1..=USERS {
        heard.insert((claim(&world, template, user, "heard", 1).await, 1));
    }
    until_published(&world, &heard).await;
    until_consumed(&world).await;
    assert!(gaps(&world).await > 0, "it has not seen that something is missing");
    for user in 1..=USERS {
        assert_eq!(listed_for(&world, user).await, unused_of(&world, user).await, "user {user}");
    }
    for invariant in ["I8", "I11"] {
        assert_eq!(broken(&world, world.clock.now(), invariant).await, [""; 0], "{invariant}");
    }

    // Views built since then are kept.
    let before = gaps(&world).await;
    for user in 1..=USERS {
        let used = unused_of(&world, user).await.pop_first().unwrap();
        assert_eq!(shopper(&world, user).use_coupon(used, "order").await.unwrap().status, 200);
        let left = unused_of(&world, user).await;
        until(async || listed_for(&world, user).await, |listed| *listed == left).await;
    }
    assert_eq!(gaps(&world).await, before);
    world.end().await;
}

impl Away {
    async fn leave(self, world: &mut World) {
        let consumer = &mut world.platform.sync_consumer;
        match self {
            Self::Stopped => assert!(consumer.stop().await.unwrap().is_some()),
            Self::Paused => consumer.pause().unwrap(),
        }
    }

    async fn come_back(self, world: &mut World) {
        let consumer = &mut world.platform.sync_consumer;
        match self {
            Self::Stopped => consumer.start().await.unwrap(),
            Self::Paused => consumer.resume().unwrap(),
        }
    }
}

fn shopper(world: &World, user: i64) -> Shopper {
    world.api().shopper(UserId(user)).unwrap()
}

/// Claims coupons; returns the id of the first.
async fn claim(world: &World, template: TemplateId, user: i64, key: &str, quantity: u32) -> i64 {
    let answer = shopper(world, user).claim(template, Some(key), quantity).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.json::<Claimed>().unwrap().coupons[0].id.0
}

/// Returns the user's coupons as shown on all pages.
async fn listed_for(world: &World, user: i64) -> BTreeSet<CouponId> {
    let listed = shopper(world, user).all_coupons().await.unwrap();
    listed.into_iter().map(|coupon| coupon.id).collect()
}

/// Returns a user's unused coupons from MySQL.
async fn unused_of(world: &World, user: i64) -> BTreeSet<CouponId> {
    let mut connection = world.mysql().await;
    let page = topic_rows::coupons_from(&mut connection, 0, ROWS).await.unwrap();
    let own = page
        .rows
        .into_iter()
        .filter(|row| row.user_id.0 == user && row.status == CouponStatus::Unused);
    own.map(|row| row.id).collect()
}

/// Returns how often the consumer has noticed missing messages since its start.
async fn gaps(world: &World) -> i64 {
    let consumer = &world.platform.sync_consumer;
    consumer.metric("sync_consumer_gaps_total").await.unwrap() as i64
}

/// Waits until the topic holds these versions of these coupons.
async fn until_published(world: &World, versions: &BTreeSet<(i64, i64)>) {
    let held = async || {
        let rows = events(world).await.into_iter().filter_map(|event| event.after);
        rows.map(|row| (row.id, row.version)).collect::<BTreeSet<_>>()
    };
    until(held, |held| versions.is_subset(held)).await;
}

/// Waits until the consumer has processed all messages of the topic.
async fn until_consumed(world: &World) {
    let topics = &world.sources.topics;
    let group = format!("{}.sync-consumer", topics.prefix());
    let topic = topics.user_coupon();
    let lag = async || world.sources.offsets.committed_lag(&group, &topic).await.unwrap();
    until(lag, |lag| *lag == 0).await;
}

/// Makes the broker delete every coupon change that it holds by now.
async fn forget_messages(world: &World) {
    let brokers = &world.sources.brokers;
    let topic = world.sources.topics.user_coupon();
    topic::verify::forget_messages(brokers, &topic).await.unwrap();
    let left = topic_offsets(brokers, &topic).await.unwrap();
    assert!(left.iter().all(|held| held.start == held.end), "{left:?}");
}

/// Counts a topic's offsets without a message.
async fn offsets_without_message(world: &World, topic: &str) -> i64 {
    let brokers = &world.sources.brokers;
    let spans = topic_offsets(brokers, topic).await.unwrap();
    let messages =
        TableReader::open_to_end(brokers, topic).await.unwrap().read_to_end().await.unwrap();
    // Messages that came after the offsets were read do not count.
    let ends: HashMap<i32, i64> = spans.iter().map(|held| (held.partition, held.end)).collect();
    let counted = messages.iter().filter(|message| message.offset < ends[&message.partition]);
    let offsets: i64 = spans.iter().map(|held| held.end - held.start).sum();
    offsets - counted.count() as i64
}

mod full {
    use super::*;

    #[tokio::test]
    async fn changes_that_the_topic_forgot_while_the_consumer_was_paused_are_missing_on_no_list() {
        forget_unread("forgotten paused", Away::Paused).await;
    }

    #[tokio::test]
    async fn the_marks_of_the_tailers_transactions_are_gaps_in_nothing_that_views_are_made_of() {
        let mut world = World::start("marks").await;
        let template = world.template(USERS * KILLS, |new| new).await;
        world.warm_views(1..=USERS).await;
        for kill in 0..KILLS {
            let wishes = (1..=USERS).map(|user| Wish::one(template, UserId(kill * USERS + user)));
            let crowd = world.crowd();
            let wishes: Vec<Wish> = wishes.collect();
            let wave = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
            world.until(template, |counts| counts.all() > kill * USERS).await;
            world.platform.cdc_tailer.kill().unwrap();
            world.platform.cdc_tailer.start().await.unwrap();
            assert_eq!(wave.await.unwrap().given_up, 0);
        }
        world.assert_sound(None).await;
        // The tailer's own topic has control records: offsets without a message.
        let topics = &world.sources.topics;
        let marks = offsets_without_message(&world, &topics.checkpoint()).await;
        assert!(marks > 0, "nothing is proved where there were no transactions");
        assert_eq!(offsets_without_message(&world, &topics.user_coupon()).await, 0);
        let dropped = "sync_consumer_dropped_views_total{reason=\"gap\"}";
        let dropped = world.platform.sync_consumer.metric(dropped).await;
        assert_eq!((gaps(&world).await, dropped), (0, Some(0.0)));
        for user in 1..=USERS {
            let view = world.sources.view.contents(UserId(user)).await.unwrap();
            assert!(view.trusted && view.list.len() == 1, "user {user}: {view:?}");
        }
        world.end().await;
    }
}

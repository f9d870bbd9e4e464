//! The gate loses its memory, or resumes with an older one, while holds are returned; and the topic that informs it is
//! away.

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::{OwnBroker, TestServers};
use mysql_store::verify::{self, BULK_ROWS};
use pipeline_tests::{World, until};
use shopper::{NewTemplate, Wish};

use crate::{
    claims::full::epochs::{
        copy_of_gate_file, lose_gate, open_again, restore, world_with_own_gate,
    },
    holds::{LONG, claimed, number, stock},
};

/// The hold of these coupons: a whole wave can claim on a busy machine before the first of it lapses.
const HOLD: TimeDelta = TimeDelta::seconds(8);

/// Coupons of each sale.
const STOCK: i64 = 60;

/// The first id of coupons, claims and users that are inserted: far above a limit, as real ones are, since the id is
/// the number of a coupon that came back.
const FIRST: i64 = 1_000_001;

/// Distance between the user ids of two waves.
const APART: i64 = 1_000;

fn wave(template: TemplateId, first: i64, users: i64) -> Vec<Wish> {
    (first..first + users).map(|user| Wish::one(template, UserId(user)).with_key("a")).collect()
}

/// Lets `users` users claim, and asserts that MySQL then has `all` coupons of the template.
async fn sold(world: &World, template: TemplateId, first: i64, users: i64, all: i64) {
    let run = world.crowd().run(wave(template, first, users)).await.unwrap();
    assert_eq!(run.given_up, 0);
    assert_eq!(world.count(template).await.all(), all);
}

/// The old file still has the units that one sale has sold since, and lacks those that came back to the other.
#[tokio::test]
async fn a_gate_restarted_from_an_old_file_sells_what_came_back_since_once_and_what_is_held_never()
{
    let (mut gate, world) = world_with_own_gate("hold-rewound").await;
    let back = world.template(STOCK, |new| new.held_for(HOLD)).await;
    let held = world.template(STOCK, |new| new.held_for(LONG)).await;
    sold(&world, back, 1, STOCK, STOCK).await;
    let copy = copy_of_gate_file(&mut gate).await;
    sold(&world, held, 1, STOCK, STOCK).await;
    world.until(back, |counts| counts.lapsed == STOCK).await;
    assert_eq!(
        (stock(&world, back).await, stock(&world, held).await),
        ((STOCK, STOCK), (STOCK, 0))
    );
    gate.server.kill().unwrap();
    restore(&copy, &gate);
    gate.server.start().await.unwrap();

    let more = STOCK + STOCK / 2;
    sold(&world, held, APART, more, STOCK).await;
    sold(&world, back, APART, more, 2 * STOCK).await;
    // A user whose hold lapsed gets the old claim again under the old key.
    let again = world.api().shopper(UserId(1)).unwrap().claim(back, Some("a"), 1).await.unwrap();
    assert_eq!((again.status, again.replayed), (201, true), "{again:?}");
    assert_eq!(world.count(back).await.all(), 2 * STOCK);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_gate_rebuilt_while_ten_thousand_holds_lapse_has_each_unit_that_came_back_once() {
    rebuilt_while_holds_lapse("many holds", BULK_ROWS).await;
}

#[tokio::test]
#[ignore = "minutes; ./dev soak a_gate_rebuilt_while_a_hundred_thousand_holds_lapse"]
async fn a_gate_rebuilt_while_a_hundred_thousand_holds_lapse_has_each_unit_that_came_back_once() {
    rebuilt_while_holds_lapse("most holds", 10 * BULK_ROWS).await;
}

/// This many holds, a multiple of [`BULK_ROWS`], are over at once. Their gate is rebuilt from MySQL three times while
/// they come back.
async fn rebuilt_while_holds_lapse(name: &str, holds: i64) {
    let mut world = World::start(name).await;
    world.platform.expiry_worker.stop().await.unwrap();
    let now = world.clock.now();
    let new = NewTemplate::simple("Many", holds, now, TimeDelta::days(1));
    let new = new.held_for(TimeDelta::minutes(1));
    let template = world.api().create(&new).await.unwrap().id;
    let mut connection = world.mysql().await;
    for bulk in 0..holds / BULK_ROWS {
        let first = FIRST + bulk * BULK_ROWS;
        verify::hold_bulk(&mut connection, template, first, now).await.unwrap();
    }
    world.api().turn(template, "publish").await.unwrap();
    open_again(&world, template, holds).await;
    assert_eq!(stock(&world, template).await, (holds, 0));

    world.platform.expiry_worker.start().await.unwrap();
    for quarter in 1..=3 {
        world.until(template, |counts| counts.lapsed >= quarter * holds / 4).await;
        open_again(&world, template, 0).await;
        lose_gate(&world, template).await;
    }
    world.until(template, |counts| counts.lapsed == holds).await;
    let offered = async || world.sources.gate.meta(template).await.ok().flatten();
    let all = until(offered, |meta| {
        meta.as_ref().is_some_and(|meta| meta.is_open() && meta.stock == holds)
    });
    assert_eq!(all.await.unwrap().users, holds.unsigned_abs(), "everybody who had one is known");
    assert_eq!(stock(&world, template).await, (holds, holds));
    // A user whose coupon came back may have another one, once.
    let (shopper, _) = claimed(&world, template, FIRST, "b", 1).await;
    let second = shopper.claim(template, Some("c"), 1).await.unwrap();
    assert_eq!(second.code().as_deref(), Some("LIMIT_REACHED"));
    world.assert_sound(None).await;
    world.end().await;
}

/// The worker sees the deadlines in MySQL, and the gate's keeper the movements.
#[tokio::test]
async fn while_the_topic_is_down_holds_are_paid_for_given_up_and_lapse_and_their_units_are_sold_again()
 {
    let mut broker = OwnBroker::start("hold-broker").await.unwrap();
    let mut scope = TestServers::shared().scope("hold topic");
    scope.endpoints.kafka_brokers = broker.brokers();
    verify::copy_schema(&scope.endpoints.database_url).await.unwrap();
    let world = World::start_as(scope, |_| ()).await;
    let api = world.api();
    let kept = world.template(2, |new| new.held_for(LONG)).await;
    let back = world.template(STOCK, |new| new.held_for(HOLD)).await;
    let (_, paid) = claimed(&world, kept, 1, "a", 1).await;
    let (user, given_up) = claimed(&world, kept, 2, "a", 1).await;
    sold(&world, back, 1, STOCK, STOCK).await;
    broker.server.kill().unwrap();

    assert_eq!(api.confirm(paid.id, "pay-1", None).await.unwrap().status, 200);
    assert_eq!(user.cancel(given_up.id, None).await.unwrap().status, 200);
    claimed(&world, kept, 3, "a", 1).await;
    world.until(back, |counts| counts.lapsed == STOCK).await;
    let offered = async || world.sources.gate.meta(back).await.ok().flatten();
    until(offered, |meta| meta.as_ref().is_some_and(|meta| meta.stock == STOCK)).await;
    sold(&world, back, APART, STOCK + 10, 2 * STOCK).await;
    let counts = world.count(kept).await;
    assert_eq!((counts.unused, counts.held, counts.cancelled), (1, 1, 1));

    broker.server.start().await.unwrap();
    assert_eq!(number(&world, "select count(*) from coupon_payment").await, 1);
    world.assert_sound(None).await;
    world.end().await;
}

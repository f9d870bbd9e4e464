//! A gate whose numbers can be read and are wrong, after damage, foreign data, or a failover of MySQL that lost its newest
//! transactions: it is rebuilt from MySQL in a few attempts, and meanwhile nothing is oversold.

use std::sync::Arc;

use coupon::{Epoch, UserId};
use landing::{
    claims::Answer,
    gates::{Gates, PRELOAD},
    keeper::Keeper,
    queue::NoQueue,
};
use redis_gate::{Meta, Refusal, Unloaded};
use runtime::FailPoints;
use testkit::until_true;

use crate::harness::{Process, Rows, TEMPLATE, USER, World, claim, now};

/// Stock of the template.
const STOCK: i64 = 10;

/// Texts that Lua, or a lenient parser, would read as numbers, and some that nothing would.
const NO_NUMBERS: [&str; 15] = [
    "", "x", " 5", "5 ", "+5", "05", "-0", "5.0", "0x10", "1e3", "1e400", "nan", "inf", "-inf",
    "\u{663}",
];

/// The ends of what 64 bits hold, and of what Lua's numbers hold exactly.
const FAR: [i64; 6] = [i64::MIN, i64::MAX, 1 << 53, -(1 << 53), (1 << 53) - 1, i64::MIN + 1];

fn keeper(world: &World) -> (Gates, Keeper) {
    let pool = world.pool.clone();
    let gate = world.gate.clone();
    Gates::new(pool, gate, Arc::new(NoQueue), "keeper", PRELOAD, FailPoints::default())
}

/// What a gate knows, apart from its epoch.
fn apart_from_epoch(meta: Meta) -> Meta {
    Meta { epoch: Epoch::UNKNOWN, ..meta }
}

async fn epoch_of_mysql(world: &World) -> i64 {
    world.number("select epoch from template_stock").await
}

/// Looks until the gate is again as it was, under MySQL's epoch, and returns by how much that has risen.
async fn mended(world: &World, keeper: &mut Keeper, good: &Meta) -> i64 {
    let before = epoch_of_mysql(world).await;
    until_true(async || {
        keeper.look(now()).await.unwrap();
        let Ok(Some(meta)) = world.gate.meta(TEMPLATE).await else { return false };
        meta.epoch.0 == epoch_of_mysql(world).await && apart_from_epoch(meta) == *good
    })
    .await;
    // A look that finds it right.
    keeper.look(now()).await.unwrap();
    epoch_of_mysql(world).await - before
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_a_gate_that_is_wrong_or_none_is_mended_by_one_rebuild() {
    let world = World::open("wrong numbers", STOCK, 2).await;
    let (_gates, mut keeper) = keeper(&world);
    let process = Process::without_keeper(&world, "a").await;
    process.land(&claim(USER, "a", 1)).await;
    world.settled().await;
    keeper.look(now()).await.unwrap();
    let good = apart_from_epoch(world.meta().await);
    let wrong: [(&str, &[&str]); 9] = [
        ("users", &["0", "2", "1000000"]),
        ("stock", &["0", "-3", "8", "10", "999999999"]),
        ("movement", &["0", "2", "1000"]),
        ("limit", &["0", "1", "200"]),
        ("starts", &["0", "3999999999999"]),
        ("ends", &["0", "4999999999999"]),
        ("lapses_allowed", &["1"]),
        ("version", &["100"]),
        ("epoch", &["0", "1"]),
    ];
    for (field, values) in wrong {
        let far = FAR.map(|number| number.to_string());
        let far = far.iter().map(String::as_str);
        for value in values.iter().copied().chain(NO_NUMBERS).chain(far) {
            world.set_meta(field, value).await;
            let raised = mended(&world, &mut keeper, &good).await;
            assert_eq!(raised, 1, "{field} = {value:?}");
        }
    }
    for (field, value) in
        [("mode", "queued"), ("mode", "x"), ("state", "ended"), ("state", "paused")]
    {
        world.set_meta(field, value).await;
        assert_eq!(mended(&world, &mut keeper, &good).await, 1, "{field} = {value}");
    }
    world.assert_gate_equals_mysql().await;
    assert_eq!(world.rows().await, Rows { landed: 1, fences: 0, coupons: 1 });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_is_replaced_by_the_next_epoch_even_if_the_gate_is_not_wanted_any_more()
 {
    let world = World::open("wrong types", STOCK, 2).await;
    let (_gates, mut keeper) = keeper(&world);
    keeper.unload_after = std::time::Duration::ZERO;
    let good = apart_from_epoch(world.meta().await);
    for part in ["meta", "users", "inflight", "queued", "outbox", "refusing"] {
        let epoch = epoch_of_mysql(&world).await;
        let key = match part {
            "users" | "inflight" | "queued" => format!("{part}:{epoch}"),
            part => part.to_owned(),
        };
        world.replace(&key).await;
        mended(&world, &mut keeper, &good).await;
    }
    world.replace(&format!("inflight:{}", epoch_of_mysql(&world).await)).await;
    world.change_state(TEMPLATE, coupon::TemplateState::Ended).await;
    until_true(async || {
        keeper.look(now()).await.unwrap();
        world.gate.meta(TEMPLATE).await.unwrap().is_none()
    })
    .await;
}

/// Claims ask for look after look, and each would raise the epoch.
#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_made_wrong_again_and_again_costs_an_epoch_now_and_then() {
    let world = World::open("wrong again", STOCK, 2).await;
    let (_gates, mut keeper) = keeper(&world);
    let before = epoch_of_mysql(&world).await;
    let started = std::time::Instant::now();
    let mut looks = 0;
    while started.elapsed().as_secs() < 1 || looks < 20 {
        world.set_meta("stock", "1000").await;
        keeper.look(now()).await.unwrap();
        looks += 1;
    }
    // The second rebuild comes a second after the first, the third two seconds after that.
    let most = 2 + i64::try_from(started.elapsed().as_secs()).unwrap();
    let raised = epoch_of_mysql(&world).await - before;
    assert!(raised <= most, "{raised} epochs in {looks} looks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_whose_epoch_is_above_mysqls_gives_every_coupon_once_it_is_mended() {
    for (name, above) in [("a little above", 1), ("above", 500_000), ("far above", 1_i64 << 50)] {
        let world = World::open(name, STOCK, 1).await;
        let process = Process::start(&world, "a").await;
        process.land(&claim(USER, "a", 1)).await;
        world.settled().await;
        let before = epoch_of_mysql(&world).await;
        world.set_meta("epoch", &(before + above).to_string()).await;
        for user in 100..100 + STOCK - 1 {
            let answer = process.retry(&claim(UserId(user), "a", 1)).await;
            assert!(matches!(answer, Answer::Landed { .. }), "{name}: {answer:?}");
        }
        let sold_out = process.retry(&claim(UserId(99), "a", 1)).await;
        assert_eq!(sold_out, Answer::Refused(Refusal::SoldOut), "{name}");
        // A process that has just started knows no epoch.
        let fresh = Process::start(&world, "b").await;
        let answer = fresh.retry(&claim(UserId(98), "a", 1)).await;
        assert_eq!(answer, Answer::Refused(Refusal::SoldOut), "{name}");
        world.settled().await;
        let leap = if above > Epoch::LEAP_MAX { 0 } else { above };
        let raised = epoch_of_mysql(&world).await - before;
        assert!(raised <= leap + 2, "{name}: {raised} epochs");
        assert_eq!(world.rows().await.coupons, STOCK, "{name}");
        world.assert_gate_equals_mysql().await;
    }
}

/// The gate was rebuilt in the transactions that a failover of MySQL lost, and sold a coupon in them.
#[tokio::test(flavor = "multi_thread")]
async fn a_mysql_that_lost_its_newest_transactions_gets_an_epoch_above_the_gates() {
    let world = World::open("failover", STOCK, 1).await;
    let process = Process::start(&world, "a").await;
    let before = epoch_of_mysql(&world).await;
    world.rebuild().await;
    process.retry(&claim(USER, "a", 1)).await;
    world.settled().await;
    let back = format!(
        "delete from user_coupon where template_id = {TEMPLATE}; delete from claim; \
         update template_stock set epoch = {before}, queued_epoch = {before}, stock = total"
    );
    world.execute(&back).await;
    let winner = process.retry(&claim(UserId(71), "a", 1)).await;
    assert!(matches!(winner, Answer::Landed { .. }), "{winner:?}");
    // The gate remembers a landing that MySQL does not have any more.
    let lost = process.retry(&claim(USER, "a", 1)).await;
    assert!(matches!(lost, Answer::Landed { .. }), "{lost:?}");
    world.settled().await;
    world.assert_gate_equals_mysql().await;
    assert_eq!(world.rows().await.coupons, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_with_too_high_a_limit_or_none_gives_nobody_more_than_the_limit() {
    for limit in ["5", "0"] {
        let world = World::open(&format!("limit {limit} in the gate"), STOCK, 1).await;
        let process = Process::start(&world, "a").await;
        process.land(&claim(USER, "a", 1)).await;
        world.settled().await;
        world.set_meta("limit", limit).await;
        let answer = process.retry(&claim(USER, "b", 1)).await;
        assert_eq!(answer, Answer::Refused(Refusal::Limit { taken: 1 }), "{limit}");
        let other = process.retry(&claim(UserId(71), "a", 1)).await;
        assert!(matches!(other, Answer::Landed { .. }), "{other:?}");
        world.resolve().await;
        world.settled().await;
        assert_eq!(world.rows().await.coupons, 2);
        world.assert_gate_equals_mysql().await;
    }
}

/// Nothing computes with it before it is checked.
#[tokio::test(flavor = "multi_thread")]
async fn the_ends_of_64_bits_in_a_gate_end_no_process() {
    let world = World::open("ends of numbers", STOCK, 1).await;
    let (gates, mut keeper) = keeper(&world);
    for number in FAR {
        let far = world.gate.unload(TEMPLATE, Epoch(number), now()).await.unwrap();
        assert_eq!(far, Unloaded::OtherEpoch, "{number}");
        for field in ["stock", "movement", "epoch"] {
            let epoch = world.meta().await.epoch;
            world.set_meta(field, &number.to_string()).await;
            gates.catch_up(TEMPLATE).await.unwrap();
            world.resolver().look(now()).await.unwrap();
            until_true(async || {
                keeper.look(now()).await.unwrap();
                let meta = world.meta().await;
                meta.is_open() && meta.epoch.0 == epoch.0 + 1
            })
            .await;
            // A look that finds it right.
            keeper.look(now()).await.unwrap();
        }
    }
    world.assert_gate_equals_mysql().await;
}

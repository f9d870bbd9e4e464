//! One user who reads a list without results over many connections: everybody else is answered meanwhile.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use coupon::UserId;
use futures::future::join_all;
use pipeline_tests::World;
use shopper::CouponQuery;

use crate::coupons::view_hot::give;

/// Connections of the one user, as in the attack.
const CONNECTIONS: usize = 32;

/// Coupons of that user, none of which has ended.
const COUPONS: i64 = 20_000;

/// Templates that an operator creates meanwhile.
const OPERATORS_CALLS: i64 = 10;

/// Reads these users' lists, which are cold, one after another. A refusal is an error here.
async fn p99_of_lists(world: &World, users: Range<i64>) -> Duration {
    let mut took = Vec::new();
    for user in users {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let began = Instant::now();
        assert_eq!(shopper.all_coupons().await.unwrap().len(), 3);
        took.push(began.elapsed());
    }
    took.sort_unstable();
    took[(took.len() - 1) * 99 / 100]
}

#[tokio::test]
async fn who_reads_over_thirty_two_connections_takes_neither_lists_nor_operators_from_others() {
    let world = World::start_with("crowded", |options| {
        options.with_env("READS_PER_USER_MINUTE", "0").with_env("READS_PER_USER_SECOND", "0")
    })
    .await;
    let (quiet, others) = (100..140, 200..240);
    give(&world, 1..2, COUPONS).await;
    for some in [quiet.clone(), others.clone()] {
        give(&world, some, 3).await;
    }
    let greedy = world.api().shopper(UserId(1)).unwrap();
    let query = CouponQuery { status: Some("expired"), ..CouponQuery::default() };
    let are_done = AtomicBool::new(false);
    let alone = p99_of_lists(&world, quiet).await;
    let reading = (0..CONNECTIONS).map(|_| async {
        let mut answered = 0_u32;
        while !are_done.load(Ordering::Relaxed) {
            // It may be refused itself.
            if let Ok(page) = greedy.coupons(&query).await {
                assert!(page.data.is_empty(), "none has ended");
                answered += 1;
            }
        }
        answered
    });
    let meanwhile = async {
        let lists = p99_of_lists(&world, others);
        let operator = async {
            for stock in 1..=OPERATORS_CALLS {
                let template = world.template(stock, |new| new).await;
                assert_eq!(world.api().stock(template).await.unwrap().total, stock);
            }
        };
        let (crowded, ()) = tokio::join!(lists, operator);
        are_done.store(true, Ordering::Relaxed);
        crowded
    };
    let (answers, crowded) = tokio::join!(join_all(reading), meanwhile);
    // A duration says nothing of a machine that does other things too; a ratio says how much the crowd takes.
    let ratio = crowded.as_secs_f64() / alone.as_secs_f64();
    println!(
        "others' cold lists: p99 {alone:?} alone, {crowded:?} beside the crowd, {ratio:.1} times"
    );
    assert_eq!(answers.len(), CONNECTIONS);
    assert!(answers.iter().sum::<u32>() > 0, "the load met nobody: {answers:?}");
    world.end().await;
}

//! One user who reads a list without results over many connections: everybody else is answered meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

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

#[tokio::test]
async fn who_reads_over_thirty_two_connections_takes_neither_lists_nor_operators_from_others() {
    let world = World::start_with("crowded", |options| {
        options.with_env("READS_PER_USER_MINUTE", "0").with_env("READS_PER_USER_SECOND", "0")
    })
    .await;
    let others = 100..140;
    give(&world, 1..2, COUPONS).await;
    give(&world, others.clone(), 3).await;
    let greedy = world.api().shopper(UserId(1)).unwrap();
    let query = CouponQuery { status: Some("expired"), ..CouponQuery::default() };
    let are_done = AtomicBool::new(false);
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
        let lists = async {
            for user in others {
                let shopper = world.api().shopper(UserId(user)).unwrap();
                // The list is cold. A refusal is an error here.
                assert_eq!(shopper.all_coupons().await.unwrap().len(), 3);
            }
        };
        let operator = async {
            for stock in 1..=OPERATORS_CALLS {
                let template = world.template(stock, |new| new).await;
                assert_eq!(world.api().stock(template).await.unwrap().total, stock);
            }
        };
        tokio::join!(lists, operator);
        are_done.store(true, Ordering::Relaxed);
    };
    let (answers, ()) = tokio::join!(join_all(reading), meanwhile);
    assert_eq!(answers.len(), CONNECTIONS);
    assert!(answers.iter().sum::<u32>() > 0, "the load met nobody: {answers:?}");
    world.end().await;
}

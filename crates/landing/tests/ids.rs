//! Ids: unique, rising, and never made under a number that another process may hold.

use std::{collections::BTreeSet, sync::Arc};

use landing::ids::{IdError, Ids};
use tokio_util::sync::CancellationToken;

use crate::harness::{World, now};

#[tokio::test(flavor = "multi_thread")]
async fn processes_make_distinct_and_rising_ids() {
    let world = World::without_gate("ids", 1, 1).await;
    let (one, other) =
        tokio::join!(Ids::lease(world.pool.clone(), "a"), Ids::lease(world.pool.clone(), "b"));
    let one = one.unwrap();
    let other = other.unwrap();
    let mut all = BTreeSet::new();
    for ids in [&one, &other] {
        let made: Vec<i64> = (0..10_000).map(|_| ids.coupon().unwrap().0).collect();
        assert!(made.is_sorted() && made[0] > 0);
        all.extend(made);
    }
    assert_eq!(all.len(), 20_000);
}

#[tokio::test]
async fn what_a_process_may_have_made_is_recorded_before_it_makes_any() {
    let world = World::without_gate("ids recorded", 1, 1).await;
    let _ids = Ids::lease(world.pool.clone(), "a").await.unwrap();
    // The process may crash, or MySQL go away, before its first renewal counts.
    let ahead = "select cast(last_ms / 1000 - unix_timestamp() as signed) from worker_lease";
    assert!(world.number(ahead).await > 120);
}

#[tokio::test]
async fn a_process_that_gave_its_number_back_makes_no_more_ids() {
    let world = World::without_gate("ids given back", 1, 1).await;
    let ids = Arc::new(Ids::lease(world.pool.clone(), "a").await.unwrap());
    let stop = CancellationToken::new();
    stop.cancel();
    ids.keep(now, stop).await;
    let free = "select count(*) from worker_lease where until <= utc_timestamp(3)";
    assert_eq!(world.number(free).await, 1);
    assert!(matches!(ids.claim(), Err(IdError::LeaseLost)));
}

/// MySQL fails over and has lost that the number was taken, and another process takes it.
#[tokio::test]
async fn a_process_whose_number_another_one_holds_takes_another_and_repeats_no_id() {
    let world = World::without_gate("ids taken twice", 1, 1).await;
    let ids = Ids::lease(world.pool.clone(), "a").await.unwrap();
    let mut all: BTreeSet<i64> = (0..1_000).map(|_| ids.claim().unwrap().0).collect();
    world.execute("update worker_lease set holder = 'another'").await;
    ids.renew(now()).await.unwrap();
    all.extend((0..1_000).map(|_| ids.claim().unwrap().0));
    assert_eq!(all.len(), 2_000);
    let numbers = "select count(*) from worker_lease where until > utc_timestamp(3)";
    assert_eq!(world.number(numbers).await, 2);
}

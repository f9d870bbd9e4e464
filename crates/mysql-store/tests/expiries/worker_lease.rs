//! Worker numbers: never two holders of one, and never the same id from a later holder.

use std::{collections::BTreeSet, time::Duration};

use mysql_store::worker_lease::{self, WORKERS};

use crate::harness::{Store, execute, number};

/// A reach that accepts every worker number.
const NEVER: i64 = i64::MAX;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn processes_that_start_at_once_get_distinct_numbers() {
    let store = Store::new("workers at once").await;
    let mut tasks = Vec::new();
    for n in 0..12 {
        let mut connection = store.another().await;
        tasks.push(tokio::spawn(async move {
            worker_lease::take(&mut connection, &format!("holder-{n}"), LONG, NEVER).await.unwrap()
        }));
    }
    let mut numbers = BTreeSet::new();
    for task in tasks {
        numbers.insert(task.await.unwrap().expect("there are numbers enough").worker);
    }
    assert_eq!(numbers, (0..12).collect());
}

#[tokio::test]
async fn the_lowest_free_number_is_taken_with_what_its_last_holder_left() {
    let mut store = Store::new("worker again").await;
    let connection = &mut store.connection;
    for (n, holder) in ["a", "b", "c"].into_iter().enumerate() {
        let lease = worker_lease::take(connection, holder, LONG, NEVER).await.unwrap().unwrap();
        assert_eq!((usize::from(lease.worker), lease.last_ms), (n, 0));
    }
    assert!(worker_lease::renew(connection, 1, "b", LONG, 900).await.unwrap());
    assert!(worker_lease::renew(connection, 1, "b", LONG, 800).await.unwrap(), "never falls");
    assert_eq!(number(connection, "select last_ms from worker_lease where worker = 1").await, 900);
    // A holder that stops in order knows its last id exactly.
    worker_lease::release(connection, 1, "b", 850).await.unwrap();
    let lease = worker_lease::take(connection, "d", LONG, NEVER).await.unwrap().unwrap();
    assert_eq!((lease.worker, lease.last_ms), (1, 850));
    assert!(!worker_lease::renew(connection, 1, "b", LONG, 999).await.unwrap(), "d has it");
    worker_lease::release(connection, 1, "b", 999).await.unwrap();
    assert!(worker_lease::renew(connection, 1, "d", LONG, 860).await.unwrap());
}

#[tokio::test]
async fn a_lease_that_ran_out_is_free_and_its_holder_hears_of_it() {
    let mut store = Store::new("worker lost").await;
    let connection = &mut store.connection;
    worker_lease::take(connection, "a", Duration::ZERO, NEVER).await.unwrap().unwrap();
    // No other holder took it, so it can still be renewed.
    assert!(worker_lease::renew(connection, 0, "a", Duration::ZERO, 5).await.unwrap());
    let lease = worker_lease::take(connection, "b", LONG, NEVER).await.unwrap().unwrap();
    assert_eq!((lease.worker, lease.last_ms), (0, 5));
    assert!(!worker_lease::renew(connection, 0, "a", LONG, 6).await.unwrap());
}

#[tokio::test]
async fn a_number_whose_holder_was_years_ahead_is_left_to_those_who_are_too() {
    let mut store = Store::new("worker ahead").await;
    let connection = &mut store.connection;
    worker_lease::take(connection, "ahead", LONG, 1_000).await.unwrap().unwrap();
    worker_lease::release(connection, 0, "ahead", 9_000).await.unwrap();
    let lease = worker_lease::take(connection, "right", LONG, 8_999).await.unwrap().unwrap();
    assert_eq!((lease.worker, lease.last_ms), (1, 0), "its ids would have to wait");
    let lease = worker_lease::take(connection, "ahead", LONG, 9_000).await.unwrap().unwrap();
    assert_eq!((lease.worker, lease.last_ms), (0, 9_000), "for this clock they need not");
}

#[tokio::test]
async fn there_are_no_more_numbers_than_an_id_has_room_for() {
    let mut store = Store::new("workers all").await;
    let connection = &mut store.connection;
    let values: Vec<String> = (0..WORKERS)
        .map(|worker| format!("({worker}, 'x', utc_timestamp(3) + interval 1 hour, 0)"))
        .collect();
    let insert = format!("insert into worker_lease values {}", values.join(","));
    execute(connection, &insert).await;
    assert_eq!(worker_lease::take(connection, "a", LONG, NEVER).await.unwrap(), None);
    execute(connection, "update worker_lease set until = utc_timestamp(3) where worker = 5").await;
    let lease = worker_lease::take(connection, "a", LONG, NEVER).await.unwrap().unwrap();
    assert_eq!(lease.worker, 5);
}

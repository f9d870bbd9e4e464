//! Worker numbers: never two holders of one, and never the same id from a later holder.

use std::{collections::BTreeSet, time::Duration};

use mysql_store::{
    MySqlConnection,
    worker_lease::{self, Taking, WORKERS, WorkerLease},
};

use crate::harness::{Store, execute, number};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

const LONG_MS: i64 = 600_000;

/// What a process asks for whose ids' clock shows `now_ms`.
fn taking(holder: &str, now_ms: i64) -> Taking<'_> {
    let wait_max = Duration::from_millis(1_000);
    Taking { holder, time: LONG, now_ms, wait_max, first: 7 }
}

async fn take(connection: &mut MySqlConnection, taking: Taking<'_>) -> Option<WorkerLease> {
    worker_lease::take(connection, &taking).await.unwrap()
}

#[tokio::test]
async fn processes_that_start_at_once_get_distinct_numbers() {
    let store = Store::new("workers at once").await;
    let mut tasks = Vec::new();
    for n in 0..12 {
        let mut connection = store.another().await;
        tasks.push(tokio::spawn(async move {
            take(&mut connection, taking(&format!("holder-{n}"), 0)).await
        }));
    }
    let mut numbers = BTreeSet::new();
    for task in tasks {
        numbers.insert(task.await.unwrap().expect("there are numbers enough").worker);
    }
    assert_eq!(numbers.len(), 12, "{numbers:?}");
}

#[tokio::test]
async fn a_number_is_taken_with_the_times_of_its_last_holder_and_those_of_the_next() {
    let mut store = Store::new("worker again").await;
    let connection = &mut store.connection;
    let lease = take(connection, taking("a", 100)).await.unwrap();
    assert_eq!(lease, WorkerLease { worker: 7, before_ms: 0, last_ms: 100 + LONG_MS });
    let far = 900 + LONG_MS;
    assert_eq!(
        worker_lease::renew(connection, 7, "a", LONG, far).await.unwrap(),
        Some(100 + LONG_MS)
    );
    assert_eq!(worker_lease::renew(connection, 7, "a", LONG, 800).await.unwrap(), Some(far));
    assert_eq!(number(connection, "select last_ms from worker_lease").await, far, "never falls");
    // A holder that stops in order knows its last id exactly.
    worker_lease::release(connection, 7, "a", 850).await.unwrap();
    let lease = take(connection, taking("b", 800)).await.unwrap();
    assert_eq!(lease, WorkerLease { worker: 7, before_ms: 850, last_ms: 850 + LONG_MS });
    assert_eq!(worker_lease::renew(connection, 7, "a", LONG, far).await.unwrap(), None, "b has it");
    worker_lease::release(connection, 7, "a", 999).await.unwrap();
    assert!(worker_lease::renew(connection, 7, "b", LONG, 0).await.unwrap().is_some());
}

#[tokio::test]
async fn a_lease_that_ran_out_is_free_and_its_holder_hears_of_it() {
    let mut store = Store::new("worker lost").await;
    let connection = &mut store.connection;
    let short = Taking { time: Duration::ZERO, ..taking("a", 5) };
    assert_eq!(take(connection, short).await.unwrap().last_ms, 5);
    // No other holder took it, so it can still be renewed.
    let renewed = worker_lease::renew(connection, 7, "a", Duration::ZERO, 6).await.unwrap();
    assert_eq!(renewed, Some(5));
    let lease = take(connection, taking("b", 6)).await.unwrap();
    assert_eq!((lease.worker, lease.before_ms), (7, 6));
    assert_eq!(worker_lease::renew(connection, 7, "a", LONG, 7).await.unwrap(), None);
}

#[tokio::test]
async fn a_number_whose_holder_was_years_ahead_is_left_to_those_who_are_too() {
    let mut store = Store::new("worker ahead").await;
    let connection = &mut store.connection;
    take(connection, taking("ahead", 9_000)).await.unwrap();
    worker_lease::release(connection, 7, "ahead", 9_000).await.unwrap();
    let lease = take(connection, taking("right", 7_999)).await.unwrap();
    assert_eq!((lease.worker, lease.before_ms), (8, 0), "its ids would have to wait");
    let lease = take(connection, taking("ahead", 8_000)).await.unwrap();
    assert_eq!((lease.worker, lease.before_ms), (7, 9_000), "for this clock they wait a second");
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
    assert_eq!(take(connection, taking("a", 0)).await, None);
    execute(connection, "update worker_lease set until = utc_timestamp(3) where worker = 5").await;
    assert_eq!(take(connection, taking("a", 0)).await.unwrap().worker, 5);
}

//! Named leases.

use std::time::Duration;

use mysql_store::lease;

use crate::harness::Store;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_lease_has_one_holder_who_may_renew_and_release_it() {
    let mut store = Store::new("lease").await;
    let connection = &mut store.connection;
    assert!(lease::take(connection, "x", "a", LONG).await.unwrap());
    assert!(!lease::take(connection, "x", "b", LONG).await.unwrap());
    assert!(lease::take(connection, "y", "b", LONG).await.unwrap(), "another name");
    assert!(lease::take(connection, "x", "a", LONG).await.unwrap(), "renewed");
    lease::release(connection, "x", "b").await.unwrap();
    assert!(!lease::take(connection, "x", "b", LONG).await.unwrap(), "b could not release it");
    lease::release(connection, "x", "a").await.unwrap();
    assert!(lease::take(connection, "x", "b", LONG).await.unwrap());
}

#[tokio::test]
async fn a_lease_that_ran_out_may_be_taken() {
    let mut store = Store::new("lease ran out").await;
    let connection = &mut store.connection;
    assert!(lease::take(connection, "x", "a", Duration::ZERO).await.unwrap());
    assert!(lease::take(connection, "x", "b", LONG).await.unwrap());
    assert!(!lease::take(connection, "x", "a", LONG).await.unwrap());
}

#[tokio::test]
async fn of_many_who_want_a_lease_at_once_one_gets_it() {
    let store = Store::new("lease at once").await;
    let mut tasks = Vec::new();
    for n in 0..8 {
        let mut connection = store.another().await;
        tasks.push(tokio::spawn(async move {
            lease::take(&mut connection, "x", &format!("holder-{n}"), LONG).await.unwrap()
        }));
    }
    let mut holders = 0;
    for task in tasks {
        holders += i32::from(task.await.unwrap());
    }
    assert_eq!(holders, 1);
}

#[tokio::test]
async fn many_leases_are_renewed_at_once_and_those_of_others_are_left() {
    let mut store = Store::new("leases renewed").await;
    let connection = &mut store.connection;
    let mut names: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    for name in &names {
        lease::take(connection, name, "a", Duration::ZERO).await.unwrap();
    }
    assert!(lease::take(connection, "0", "b", LONG).await.unwrap());
    assert!(lease::take(connection, "1", "b", Duration::ZERO).await.unwrap());
    names.push("absent".to_owned());
    lease::renew_all(connection, &names, "a", LONG).await.unwrap();
    let mut of_another = Vec::new();
    for name in &names {
        if lease::take(connection, name, "c", LONG).await.unwrap() {
            of_another.push(name.as_str());
        }
    }
    assert_eq!(of_another, ["absent"], "one that has run out is renewed too");
    assert!(lease::take(connection, "0", "b", LONG).await.unwrap());
    assert!(lease::take(connection, "1", "a", LONG).await.unwrap());
}

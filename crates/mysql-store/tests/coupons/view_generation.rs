//! The generations of the views on servers.

use mysql_store::{
    MySqlConnection,
    verify::number,
    view_generation::{generations_of, known_generations, renumber},
};

use crate::harness::{Store, execute};

/// Returns the generation of a server that has every slot.
async fn generation(connection: &mut MySqlConnection, run: &str) -> i64 {
    let served = [(0..=16_383, run.to_owned())];
    let found = generations_of(connection, &served).await.unwrap();
    assert_eq!(found, [(0..=16_383, found[0].1)]);
    found[0].1
}

#[tokio::test]
async fn the_views_generation_rises_with_each_other_run_and_only_then() {
    let mut store = Store::new("generation").await;
    for (run, expected) in [("a", 1), ("a", 1), ("b", 2), ("b", 2), ("a", 3)] {
        assert_eq!(generation(&mut store.connection, run).await, expected, "{run}");
    }
}

/// A failover forgets raises, so their numbers would be given twice.
#[tokio::test]
async fn a_server_of_mysql_that_was_promoted_gives_no_generation_that_its_predecessor_may_have_given()
 {
    let mut store = Store::new("generation of a replica").await;
    let connection = &mut store.connection;
    assert_eq!(generation(connection, "a").await, 1);
    execute(connection, "update view_generation set server = 'another'").await;
    let served = [(0..=16_383, "a".to_owned())];
    let now = number(connection, "select cast(unix_timestamp() as signed)").await.unwrap();
    renumber(connection).await.unwrap();
    let known = known_generations(connection, &served).await.unwrap().unwrap();
    let first = known[0].1;
    assert!(first >= now, "of no other second, and also views of the same Redis are cold: {first}");
    assert_eq!(generation(connection, "b").await, first + 1);
    execute(connection, "update view_generation set server = 'another'").await;
    assert_eq!(generation(connection, "c").await, first + 1_002);
    let two = [(0..=8_000, "c".to_owned()), (8_001..=16_383, "d".to_owned())];
    let before = generations_of(connection, &two).await.unwrap();
    execute(connection, "update view_generation set server = 'another'").await;
    let after = generations_of(connection, &two).await.unwrap();
    let highest = before.iter().map(|(_, generation)| *generation).max().unwrap();
    assert!(after.iter().all(|(_, generation)| *generation > highest), "{before:?} {after:?}");
    // An earlier version gave them.
    execute(connection, "update view_generation set server = null").await;
    assert_eq!(generations_of(connection, &two).await.unwrap(), after);
}

#[tokio::test]
async fn a_slot_that_another_master_has_now_rises_alone_above_all() {
    let mut store = Store::new("generation of slots").await;
    let mut generations = async |served: &[(u16, u16, &str)]| {
        let served: Vec<_> =
            served.iter().map(|&(first, last, run)| (first..=last, run.to_owned())).collect();
        generations_of(&mut store.connection, &served).await.unwrap()
    };
    let two = [(0, 8_000, "a"), (8_001, 16_383, "b")];
    assert_eq!(generations(&two).await, [(0..=8_000, 1), (8_001..=16_383, 1)]);
    let over = [(0, 8_000, "a"), (8_001, 16_383, "c")];
    assert_eq!(generations(&over).await, [(0..=8_000, 1), (8_001..=16_383, 2)]);
    let moved = [(0, 7_999, "a"), (8_000, 16_383, "c")];
    let expected = [(0..=7_999, 1), (8_000..=8_000, 3), (8_001..=16_383, 2)];
    assert_eq!(generations(&moved).await, expected);
    assert_eq!(generations(&moved).await, expected);
    // A single server again.
    assert_eq!(generations(&[(0, 16_383, "d")]).await, [(0..=16_383, 4)]);
    assert_eq!(generations(&[(0, 16_383, "d")]).await, [(0..=16_383, 4)]);
    assert_eq!(generations(&two).await, [(0..=8_000, 5), (8_001..=16_383, 5)]);
}

#[tokio::test]
async fn processes_that_meet_a_new_run_at_once_agree_on_its_generation() {
    let mut store = Store::new("generation at once").await;
    for run in ["a", "b", "c"] {
        let mut tasks = Vec::new();
        for _ in 0..6 {
            let mut connection = store.another().await;
            tasks.push(tokio::spawn(async move { generation(&mut connection, run).await }));
        }
        let mut found = Vec::new();
        for task in tasks {
            found.push(task.await.unwrap());
        }
        assert_eq!(found, vec![generation(&mut store.connection, run).await; 6]);
    }
    assert_eq!(generation(&mut store.connection, "c").await, 3);
}

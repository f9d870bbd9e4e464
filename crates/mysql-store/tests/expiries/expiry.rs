//! The deadline index: due coupons, their flip, and that both use the index.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::CouponId;
use mysql_store::{
    MySqlConnection,
    expiry::{self, FLIP_MAX},
    settings,
};
use sqlx::Row;
use testkit::{CouponRow, insert_coupons, sql_time};

use crate::harness::{Store, execute, id_of, number, waits_for_a_row};

/// Shard of every coupon in these tests.
const SHARD: u8 = 6;

/// Inserts coupons of [`SHARD`] with ids from `first` and these deadlines.
async fn insert(connection: &mut MySqlConnection, first: i64, deadlines: &[DateTime<Utc>]) {
    let rows = (first..).zip(deadlines).map(|(id, until)| {
        let valid_until = sql_time(*until);
        CouponRow { expiry_shard: SHARD.into(), valid_until, ..CouponRow::unused(id, 70) }
    });
    execute(connection, &insert_coupons(rows)).await;
}

fn ids(due: &[expiry::Due]) -> Vec<i64> {
    due.iter().map(|due| due.id.0).collect()
}

#[tokio::test]
async fn the_earliest_is_due_first_and_flipped_coupons_are_due_no_more() {
    let mut store = Store::new("due").await;
    let connection = &mut store.connection;
    let now = settings::server_time(connection).await.unwrap();
    let second = TimeDelta::seconds(1);
    let deadlines = [now - second, now - second * 3, now - second * 2, now + second * 3600];
    insert(connection, 1, &deadlines).await;
    assert_eq!(expiry::next_deadline(connection, SHARD).await.unwrap(), Some(now - second * 3));
    assert_eq!(expiry::next_deadline(connection, SHARD + 1).await.unwrap(), None);
    assert_eq!(expiry::overdue(connection, SHARD, now, 100).await.unwrap(), 3);
    assert_eq!(expiry::overdue(connection, SHARD, now, 2).await.unwrap(), 2);

    let due = expiry::due(connection, SHARD, None, now, 2).await.unwrap();
    assert_eq!(ids(&due), [2, 3]);
    assert_eq!(due[0].valid_until, now - second * 3);
    let flipped = [CouponId(3), CouponId(2)];
    assert_eq!(expiry::flip(connection, &flipped, now).await.unwrap(), 2);
    assert_eq!(expiry::flip(connection, &flipped, now).await.unwrap(), 0, "each once");
    assert_eq!(ids(&expiry::due(connection, SHARD, None, now, 2).await.unwrap()), [1]);
    assert_eq!(expiry::next_deadline(connection, SHARD).await.unwrap(), Some(now - second));
    let done = "select count(*) from user_coupon where status = 2 and version = 2";
    assert_eq!(number(connection, done).await, 2);
}

#[tokio::test]
async fn neither_clock_alone_can_end_a_coupon() {
    let mut store = Store::new("both clocks").await;
    let connection = &mut store.connection;
    let now = settings::server_time(connection).await.unwrap();
    let hour = TimeDelta::hours(1);
    insert(connection, 1, &[now + hour, now - hour]).await;
    let ahead = now + hour * 2;
    let behind = now - hour * 2;
    // With our clock ahead, the server's keeps coupon 1. With our clock behind, it keeps coupon 2
    // by itself.
    assert_eq!(ids(&expiry::due(connection, SHARD, None, ahead, 10).await.unwrap()), [2]);
    assert_eq!(ids(&expiry::due(connection, SHARD, None, behind, 10).await.unwrap()), [0; 0]);
    let both = [CouponId(1), CouponId(2)];
    assert_eq!(expiry::flip(connection, &both, behind).await.unwrap(), 0);
    assert_eq!(expiry::flip(connection, &both, ahead).await.unwrap(), 1);
    assert_eq!(number(connection, "select id from user_coupon where status = 2").await, 2);
}

#[tokio::test]
async fn a_coupon_is_due_at_its_very_deadline_and_not_a_millisecond_before() {
    let mut store = Store::new("very deadline").await;
    let connection = &mut store.connection;
    let deadline = settings::server_time(connection).await.unwrap() - TimeDelta::seconds(1);
    insert(connection, 1, &[deadline]).await;
    let before = deadline - TimeDelta::milliseconds(1);
    assert_eq!(expiry::flip(connection, &[CouponId(1)], before).await.unwrap(), 0);
    assert_eq!(expiry::flip(connection, &[CouponId(1)], deadline).await.unwrap(), 1);
}

#[tokio::test]
async fn a_coupon_used_meanwhile_stays_used() {
    let mut store = Store::new("used meanwhile").await;
    let connection = &mut store.connection;
    let now = settings::server_time(connection).await.unwrap();
    insert(connection, 1, &[now, now]).await;
    execute(connection, "update user_coupon set status = 1, version = 2 where id = 1").await;
    let both = [CouponId(1), CouponId(2)];
    assert_eq!(expiry::flip(connection, &both, now).await.unwrap(), 1);
    assert_eq!(number(connection, "select status from user_coupon where id = 1").await, 1);
}

#[tokio::test]
async fn a_large_chunk_is_flipped_whole() {
    let mut store = Store::new("large chunk").await;
    let connection = &mut store.connection;
    let now = settings::server_time(connection).await.unwrap();
    insert(connection, 1, &vec![now; 2_500]).await;
    let due = expiry::due(connection, SHARD, None, now, 1_500).await.unwrap();
    let ids: Vec<_> = due.iter().map(|due| due.id).collect();
    assert_eq!(expiry::flip(connection, &ids, now).await.unwrap(), 1_500);
    assert_eq!(expiry::overdue(connection, SHARD, now, 10_000).await.unwrap(), 1_000);
}

#[tokio::test]
async fn a_flip_that_waits_for_one_coupon_holds_none_of_the_statements_before() {
    let mut store = Store::new("no lock kept").await;
    let now = settings::server_time(&mut store.connection).await.unwrap();
    let count = i64::try_from(FLIP_MAX).unwrap() * 2;
    insert(&mut store.connection, 1, &vec![now; FLIP_MAX * 2]).await;
    let mut user = store.another().await;
    let mut worker = store.another().await;
    execute(&mut user, "begin").await;
    execute(&mut user, &format!("select id from user_coupon where id = {count} for update")).await;
    let worker_id = id_of(&mut worker).await;
    let ids: Vec<_> = (1..=count).map(CouponId).collect();
    let flip = tokio::spawn(async move { expiry::flip(&mut worker, &ids, now).await.unwrap() });
    waits_for_a_row(&mut store.connection, worker_id).await;
    // A use of a coupon from the first statement does not wait.
    let flipped = format!("select count(*) from user_coupon where status = 2 and id <= {FLIP_MAX}");
    assert_eq!(number(&mut store.connection, &flipped).await, count / 2);
    let lock = format!("select id from user_coupon where id < {FLIP_MAX} for update nowait");
    execute(&mut store.connection, &lock).await;
    execute(&mut user, "rollback").await;
    assert_eq!(flip.await.unwrap(), count.unsigned_abs());
}

#[tokio::test]
async fn unannounced_are_those_that_end_before_all_that_is_known_and_changed_long_ago() {
    let mut store = Store::new("unannounced").await;
    let connection = &mut store.connection;
    let now = settings::server_time(connection).await.unwrap();
    let hour = TimeDelta::hours(1);
    insert(connection, 1, &[now - hour, now + hour, now + hour * 2, now + hour * 3]).await;
    execute(
        connection,
        "update user_coupon set changed_at = utc_timestamp(3), version = 2 where id = 2",
    )
    .await;
    let unannounced = async |connection: &mut MySqlConnection, known| {
        expiry::unannounced(connection, SHARD, known, now - hour, 10).await.unwrap()
    };
    assert_eq!(unannounced(connection, None).await, 3, "nothing is known: all but the young one");
    assert_eq!(unannounced(connection, Some(now + hour * 3)).await, 2);
    assert_eq!(unannounced(connection, Some(now - hour)).await, 0);
    assert_eq!(expiry::unannounced(connection, SHARD, None, now, 2).await.unwrap(), 2, "at most");
    assert_eq!(expiry::unannounced(connection, SHARD + 1, None, now, 2).await.unwrap(), 0);
}

/// Checks the plans of copies of the statements in [`expiry`].
#[tokio::test]
async fn looking_goes_by_the_deadline_index_and_flipping_by_the_primary_key() {
    let mut store = Store::new("plans").await;
    let connection = &mut store.connection;
    let now = settings::server_time(connection).await.unwrap();
    // Enough rows, most of them not due, that a scan would be the worse plan.
    let deadlines: Vec<_> = (0..4_000).map(|n| now + TimeDelta::seconds(n - 100)).collect();
    insert(connection, 1, &deadlines).await;
    execute(connection, "analyze table user_coupon").await;

    let least = "least(cast(utc_timestamp(3) as datetime(3)), utc_timestamp(3))";
    let due = format!(
        "select id, valid_until from user_coupon where expiry_shard = {SHARD} and status = 0 \
         and valid_until <= {least} order by valid_until, id limit 1000"
    );
    let plan = explain(connection, &due).await;
    assert_eq!(plan.key.as_deref(), Some("ix_deadline"), "{plan:?}");
    assert!(!plan.extra.contains("filesort"), "{plan:?}");

    let next = format!(
        "select min(valid_until) from user_coupon where expiry_shard = {SHARD} and status = 0 \
         and valid_until > '1970-01-01'"
    );
    let plan = explain(connection, &next).await;
    assert!(plan.extra.contains("optimized away"), "one seek: {plan:?}");

    let holds = format!(
        "select id, template_id, valid_until from user_coupon where expiry_shard = {SHARD} \
         and status = 4 and valid_until >= '2026-01-01' and valid_until <= {least} \
         and (valid_until > '2026-01-01' or id > 7) order by valid_until, id limit 1000"
    );
    let plan = explain(connection, &holds).await;
    assert_eq!(plan.key.as_deref(), Some("ix_deadline"), "{plan:?}");
    assert!(!plan.extra.contains("filesort"), "{plan:?}");

    let unannounced = format!(
        "select 1 from user_coupon where expiry_shard = {SHARD} and status = 0 \
         and valid_until < coalesce(cast('2026-01-01' as datetime(3)), '9999-12-31') \
         and changed_at <= '2026-01-01' limit 1000"
    );
    let plan = explain(connection, &unannounced).await;
    assert_eq!(plan.key.as_deref(), Some("ix_deadline"), "{plan:?}");

    let ids: Vec<String> = (1..=512).map(|id| id.to_string()).collect();
    let flip = format!(
        "update user_coupon set status = 2, version = version + 1 where id in ({}) and status = 0 \
         and valid_until <= {least}",
        ids.join(", ")
    );
    let plan = explain(connection, &flip).await;
    assert_eq!(plan.key.as_deref(), Some("PRIMARY"), "{plan:?}");
}

#[derive(Debug)]
struct Plan {
    key: Option<String>,
    extra: String,
}

async fn explain(connection: &mut MySqlConnection, statement: &str) -> Plan {
    // MySQL's own default is a tree.
    let sql = format!("explain format=traditional {statement}");
    let row = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_one(connection).await.unwrap();
    let extra: Option<String> = row.try_get("Extra").unwrap();
    Plan { key: row.try_get("key").unwrap(), extra: extra.unwrap_or_default().to_lowercase() }
}

//! Reports on expiry for operators.

use chrono::{DateTime, TimeDelta, Utc};
use mysql_store::{MySqlConnection, expiry_report as report};
use testkit::{CouponRow, insert_coupons, sql_time};

use crate::harness::{Store, execute, now};

/// Inserts a coupon in the state after a flip or a claim.
async fn insert(
    connection: &mut MySqlConnection,
    id: i64,
    status: u8,
    until: DateTime<Utc>,
    changed: DateTime<Utc>,
) {
    let [valid_until, changed_at] = [until, changed].map(sql_time);
    let row =
        CouponRow { claim_no: 1, status, changed_at, valid_until, ..CouponRow::unused(id, id) };
    execute(connection, &insert_coupons([row])).await;
}

#[tokio::test]
async fn deadlines_of_all_shards_are_counted_between_two_times_unused_ones_only() {
    let mut store = Store::new("expiryreport").await;
    let connection = &mut store.connection;
    let now = now();
    let hour = TimeDelta::hours(1);
    assert_eq!(report::earliest_deadline(connection).await.unwrap(), None);
    let ends = [now - hour, now, now + hour - TimeDelta::milliseconds(1), now + hour];
    for (id, until) in (1..).zip(ends) {
        insert(connection, id, 0, until, now).await;
        insert(connection, id + 63, 0, until, now).await;
        insert(connection, id + 1_000, 1, until, now).await;
        insert(connection, id + 2_000, 2, until, now).await;
    }
    assert_eq!(report::earliest_deadline(connection).await.unwrap(), Some(now - hour));
    for (from, until, count) in [
        (DateTime::UNIX_EPOCH, now, 2),
        (now, now + hour, 4),
        (now + hour, now + hour * 2, 2),
        (now + hour * 2, now + hour * 3, 0),
    ] {
        assert_eq!(report::ending_between(connection, from, until).await.unwrap(), count);
    }
}

#[tokio::test]
async fn lateness_is_that_of_the_latest_hundred_flips_of_each_shard_of_a_day() {
    let mut store = Store::new("lateness").await;
    let connection = &mut store.connection;
    let now = now();
    let ms = TimeDelta::milliseconds;
    assert!(report::lateness(connection, now).await.unwrap().is_empty());
    // One shard. Its 101st flip is not reported; the earlier the deadline, the later the flip.
    for number in 0..=100 {
        let until = now - ms(number);
        insert(connection, 64 * (number + 1), 2, until, until + ms(number)).await;
    }
    // One of another shard; one too long ago; one that is not a flip.
    insert(connection, 1, 2, now - ms(1), now + ms(499)).await;
    let long_ago = now - TimeDelta::hours(24);
    insert(connection, 2, 2, long_ago, long_ago + ms(700)).await;
    insert(connection, 3, 1, now - ms(1), now + ms(700)).await;
    let late = report::lateness(connection, now).await.unwrap();
    assert_eq!(late.len(), 101);
    assert_eq!((late[0], late[99], late[100]), (ms(0), ms(99), ms(500)));
}

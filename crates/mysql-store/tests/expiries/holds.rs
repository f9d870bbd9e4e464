//! Held coupons in the deadline index, beside unused ones.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponId, ReturnedStock, TemplateId};
use mysql_store::{MySqlConnection, expiry, expiry_report as report, settings};
use testkit::{CouponRow, insert_coupons, sql_time};

use crate::harness::{Store, TEMPLATE, execute, now, number};

/// Shard of every coupon in these tests.
const SHARD: u8 = 6;

const UNUSED: u8 = 0;
const HELD: u8 = 4;
const LAPSED: u8 = 5;

async fn insert(connection: &mut MySqlConnection, rows: &[(i64, u8, DateTime<Utc>)]) {
    let rows = rows.iter().map(|(id, status, until)| CouponRow {
        status: *status,
        expiry_shard: SHARD.into(),
        valid_until: sql_time(*until),
        ..CouponRow::unused(*id, 64 * id + i64::from(SHARD))
    });
    execute(connection, &insert_coupons(rows)).await;
}

#[tokio::test]
async fn the_next_deadline_is_that_of_the_first_unused_or_held_coupon() {
    let mut store = Store::new("next of both").await;
    let connection = &mut store.connection;
    let now = now();
    let second = TimeDelta::seconds(1);
    assert_eq!(expiry::next_deadline(connection, SHARD).await.unwrap(), None);
    insert(connection, &[(1, UNUSED, now + second * 5), (2, LAPSED, now)]).await;
    assert_eq!(expiry::next_deadline(connection, SHARD).await.unwrap(), Some(now + second * 5));
    insert(connection, &[(3, HELD, now + second * 3), (4, HELD, now + second * 9)]).await;
    assert_eq!(expiry::next_deadline(connection, SHARD).await.unwrap(), Some(now + second * 3));
    for (after, next) in [(2, Some(3)), (3, Some(5)), (5, Some(9)), (9, None)] {
        let found = expiry::next_deadline_after(connection, SHARD, now + second * after).await;
        assert_eq!(found.unwrap(), next.map(|next| now + second * next), "after {after}");
    }
    assert_eq!(expiry::next_deadline(connection, SHARD + 1).await.unwrap(), None);
    let earliest = report::earliest_deadline(connection).await.unwrap();
    assert_eq!(earliest, Some(now + second * 3));
    let ending = report::ending_between(connection, now, now + second * 6).await;
    assert_eq!(ending.unwrap(), 2);
}

#[tokio::test]
async fn holds_are_due_by_both_clocks_and_are_read_on_behind_the_last_one() {
    let mut store = Store::new("due holds").await;
    let connection = &mut store.connection;
    let now = settings::server_time(connection).await.unwrap();
    let hour = TimeDelta::hours(1);
    let second = TimeDelta::seconds(1);
    let over = [(1, HELD, now - hour), (2, UNUSED, now - hour), (9, HELD, now - second)];
    insert(connection, &over).await;
    insert(connection, &[(5, HELD, now - second), (6, HELD, now + hour)]).await;
    let ids = |due: Vec<expiry::DueHold>| due.iter().map(|one| one.id.0).collect::<Vec<_>>();
    for (clock, limit, due) in [
        (now + hour * 2, 10, vec![1, 5, 9]),
        (now - hour / 2, 10, vec![1]),
        (now - hour * 2, 10, vec![]),
        (now, 2, vec![1, 5]),
    ] {
        let found = expiry::due_holds(connection, SHARD, None, clock, limit).await.unwrap();
        assert_eq!(ids(found), due);
    }
    let all = expiry::due_holds(connection, SHARD, None, now, 10).await.unwrap();
    assert_eq!(all[0].template_id, TemplateId(10));
    for (index, rest) in [(0, vec![5, 9]), (1, vec![9]), (2, vec![])] {
        let found = expiry::due_holds(connection, SHARD, Some(all[index]), now, 10).await;
        assert_eq!(ids(found.unwrap()), rest);
    }
    // A flip leaves holds alone.
    let all: Vec<CouponId> = (1..10).map(CouponId).collect();
    assert_eq!(expiry::flip(connection, &all, now).await.unwrap(), 1);
    let held = "select count(*) from user_coupon where status = 4";
    assert_eq!(number(connection, held).await, 4);
}

#[tokio::test]
async fn held_coupons_are_counted_as_overdue_and_unannounced_like_unused_ones() {
    let mut store = Store::new("held counts").await;
    let connection = &mut store.connection;
    let now = settings::server_time(connection).await.unwrap();
    let hour = TimeDelta::hours(1);
    let rows = [
        (1, HELD, now - hour),
        (2, UNUSED, now - hour),
        (3, HELD, now + hour),
        (4, LAPSED, now - hour),
        (5, HELD, now - hour),
    ];
    insert(connection, &rows).await;
    assert_eq!(expiry::overdue(connection, SHARD, now, 10).await.unwrap(), 3);
    assert_eq!(expiry::overdue(connection, SHARD, now, 1).await.unwrap(), 2, "one of each status");
    for (known, lost) in [(None, 4), (Some(now), 3), (Some(now - hour), 0)] {
        let found = expiry::unannounced(connection, SHARD, known, now - hour, 10).await;
        assert_eq!(found.unwrap(), lost, "{known:?}");
    }
}

#[tokio::test]
async fn lateness_is_reported_of_lapses_too() {
    let mut store = Store::new("lapse lateness").await;
    let connection = &mut store.connection;
    let now = now();
    let ms = TimeDelta::milliseconds;
    for (id, status, late) in [(1, 2, 30), (2, LAPSED, 10), (3, LAPSED, 20), (4, HELD, 99)] {
        let row = CouponRow {
            status,
            valid_until: sql_time(now),
            changed_at: sql_time(now + ms(late)),
            ..CouponRow::unused(id, id)
        };
        execute(connection, &insert_coupons([row])).await;
    }
    assert_eq!(report::lateness(connection, now + ms(1)).await.unwrap(), [ms(10), ms(20), ms(30)]);
}

#[tokio::test]
async fn what_becomes_of_returned_stock_is_read_from_the_template() {
    let mut store = Store::with_template("returned stock", 10).await;
    let connection = &mut store.connection;
    let read = expiry::returned_stock(connection, TEMPLATE).await;
    assert_eq!(read.unwrap(), Some(ReturnedStock::Resell));
    assert_eq!(expiry::returned_stock(connection, TemplateId(99)).await.unwrap(), None);
    for (code, is_known) in [(1, true), (7, false)] {
        let set = format!(
            "update coupon_template set returned_stock = {code}, version = version + 1 where id = {TEMPLATE}"
        );
        execute(connection, &set).await;
        let read = expiry::returned_stock(connection, TEMPLATE).await;
        match (is_known, read) {
            (true, read) => assert_eq!(read.unwrap(), Some(ReturnedStock::Retire)),
            (false, read) => assert!(read.unwrap_err().is_unreadable()),
        }
    }
}

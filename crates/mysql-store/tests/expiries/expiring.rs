//! The cursor over coupons that end soon.

use chrono::{DateTime, TimeDelta};
use coupon::CouponId;
use mysql_store::expiring::{self, Cursor};
use testkit::{CouponRow, insert_coupons, sql_time};

use crate::harness::{Store, execute, now};

const SHARD: u8 = 6;
const LEAD: u32 = 3_600;

#[tokio::test]
async fn a_cursor_walks_each_unused_coupon_of_its_shard_once_and_never_goes_back() {
    let mut store = Store::new("expiring").await;
    let connection = &mut store.connection;
    let now = now();
    let second = TimeDelta::seconds(1);
    // Id, shard, status and deadline in seconds from now; two end at the same moment.
    let rows = [(9, 6, 0, 1), (3, 6, 0, 2), (5, 6, 0, 2), (4, 6, 0, 9), (6, 6, 1, 2), (7, 5, 0, 2)];
    for (id, expiry_shard, status, ends_in) in rows {
        let valid_until = sql_time(now + second * ends_in);
        let row = CouponRow { expiry_shard, status, valid_until, ..CouponRow::unused(id, 70) };
        execute(connection, &insert_coupons([row])).await;
    }
    assert_eq!(expiring::cursor(connection, SHARD, LEAD).await.unwrap(), None);
    let mut at = Cursor { valid_until: DateTime::UNIX_EPOCH, id: CouponId(0) };
    let mut seen = Vec::new();
    loop {
        let next = expiring::behind(connection, SHARD, at, now + second * 8, 1).await.unwrap();
        let [one] = next[..] else { break };
        seen.push(one.id.0);
        at = Cursor { valid_until: one.valid_until, id: one.id };
        expiring::advance(connection, SHARD, LEAD, at).await.unwrap();
        assert_eq!(expiring::cursor(connection, SHARD, LEAD).await.unwrap(), Some(at));
    }
    assert_eq!(seen, [9, 3, 5]);

    let further = Cursor { valid_until: now + second * 3, id: CouponId(1) };
    let earlier = Cursor { valid_until: now + second, id: CouponId(99) };
    for to in [further, at, earlier] {
        expiring::advance(connection, SHARD, LEAD, to).await.unwrap();
        assert_eq!(expiring::cursor(connection, SHARD, LEAD).await.unwrap(), Some(further));
    }
    assert_eq!(expiring::cursor(connection, SHARD, LEAD + 1).await.unwrap(), None);
}

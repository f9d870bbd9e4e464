//! Coupons that end soon are announced once for each lead time, across restarts.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use coupon::CouponId;
use expiry_worker::{Config, Leads};
use mysql_store::expiring::Cursor;

use crate::harness::{Harness, SHARD};

const HOUR: u32 = 3_600;
const DAY: u32 = 86_400;

fn leads<const N: usize>(leads: [u32; N]) -> impl FnOnce(&mut Config) {
    move |config| config.expiring_leads = Leads(leads.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coupon_is_announced_once_for_each_lead_time_and_a_restart_repeats_nothing() {
    let mut test = Harness::new("announce").await;
    let now = test.now().await;
    let within = |minutes| now + TimeDelta::minutes(minutes);
    let at = |id, minutes| Cursor { valid_until: within(minutes), id: CouponId(id) };
    test.insert(1, within(30)).await;
    test.insert_of(2, 7, within(90)).await;
    test.insert(3, within(3 * 24 * 60)).await;
    test.insert(4, within(-1)).await;
    // Its whole validity is shorter than the lead time, so it ends soon from its claim on.
    test.insert_claimed(5, now, within(20)).await;
    // A used coupon needs no reminder.
    test.insert(7, within(25)).await;
    test.use_up(7).await;
    let worker = test.start_with(leads([HOUR]));
    test.until_announced_up_to(SHARD, HOUR, at(1, 30)).await;
    worker.stop().await.unwrap();
    assert_eq!(test.announced().await, BTreeSet::from([(1, HOUR, within(30))]));

    // A new lead time announces all coupons within it; the other one resumes where it was.
    test.insert(6, within(40)).await;
    let worker = test.start_with(leads([HOUR, DAY]));
    test.until_announced_up_to(SHARD, HOUR, at(6, 40)).await;
    test.until_announced_up_to(SHARD, DAY, at(6, 40)).await;
    test.until_announced_up_to(7, DAY, at(2, 90)).await;
    worker.stop().await.unwrap();
    let expected: [(i64, u32, DateTime<Utc>); 5] = [
        (1, HOUR, within(30)),
        (6, HOUR, within(40)),
        (1, DAY, within(30)),
        (6, DAY, within(40)),
        (2, DAY, within(90)),
    ];
    assert_eq!(test.announced().await, BTreeSet::from(expected));
}

//! What "my coupons" reads of the truth.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponId, CouponStatus};
use mysql_store::{
    MySqlConnection, user_coupon,
    user_view::{self, Ended},
};

use crate::harness::{Store, TEMPLATE, USER, execute, landing, landing_of, now};

/// Five coupons of the user, by number; the second and third used, the fourth flipped to expired.
async fn five(name: &str) -> (Store, Vec<CouponId>) {
    let mut store = Store::with_template(name, 10).await;
    let landing = landing("a", &[1, 2, 3, 4, 5]);
    let ids: Vec<CouponId> = landing.landed.coupons.iter().map(|coupon| coupon.id).collect();
    let others = landing_of(TEMPLATE, coupon::UserId(71), "a", &[1]);
    store.land(&[landing, others]).await;
    for (id, seconds) in [(ids[1], 1), (ids[2], 2)] {
        let at = now() + TimeDelta::seconds(seconds);
        user_coupon::use_for_order(&mut store.connection, USER, id, "o", at).await.unwrap();
    }
    let flip = format!(
        "update user_coupon set status = 2, version = 2, changed_at = changed_at - interval 1 day \
         where id = {}",
        ids[3]
    );
    execute(&mut store.connection, &flip).await;
    (store, ids)
}

#[tokio::test]
async fn a_rebuild_reads_what_is_unused_and_whatever_changed_lately() {
    let (mut store, ids) = five("rows for rebuild").await;
    let since = now() + TimeDelta::seconds(2);
    let rows = user_view::rows_for_rebuild(&mut store.connection, USER, since).await.unwrap();
    let mut found: Vec<_> = rows.iter().map(|row| (row.id, row.status)).collect();
    found.sort_by_key(|(id, _)| *id);
    let (unused, used) = (CouponStatus::Unused, CouponStatus::Used);
    assert_eq!(found, [(ids[0], unused), (ids[2], used), (ids[4], unused)]);
}

/// A page's ids.
async fn page(
    connection: &mut MySqlConnection,
    ended: Ended,
    before: Option<CouponId>,
    limit: u32,
    at: DateTime<Utc>,
) -> Vec<CouponId> {
    let rows = user_view::ended_page(connection, USER, ended, before, limit, at).await.unwrap();
    rows.iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn ended_coupons_are_paged_the_newest_first() {
    let (mut store, ids) = five("ended pages").await;
    let connection = &mut store.connection;
    assert_eq!(page(connection, Ended::Used, None, 10, now()).await, [ids[2], ids[1]]);
    assert_eq!(page(connection, Ended::Used, None, 1, now()).await, [ids[2]]);
    assert_eq!(page(connection, Ended::Used, Some(ids[2]), 10, now()).await, [ids[1]]);
    assert_eq!(page(connection, Ended::Expired, None, 10, now()).await, [ids[3]]);
    // Due, though no worker has flipped them.
    let due = now() + TimeDelta::days(1);
    assert_eq!(page(connection, Ended::Expired, None, 2, due).await, [ids[4], ids[3]]);
    assert_eq!(page(connection, Ended::Expired, Some(ids[3]), 10, due).await, [ids[0]]);
}

/// Coupons are used, and due ones flipped, while somebody walks over the pages.
#[tokio::test]
async fn a_walk_over_ended_coupons_sees_each_that_was_there_throughout_exactly_once() {
    let mut store = Store::with_template("ended walks", 100).await;
    let landing = landing("a", &(1..=60).collect::<Vec<u8>>());
    let ids: Vec<CouponId> = landing.landed.coupons.iter().map(|coupon| coupon.id).collect();
    store.land(&[landing]).await;
    let seed = fastrand::u64(..);
    println!("walks of the seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut unused = ids;
    rng.shuffle(&mut unused);
    let connection = &mut store.connection;
    let due = now() + TimeDelta::days(1);
    for round in 0..6 {
        let ended = if round % 2 == 0 { Ended::Used } else { Ended::Expired };
        let throughout = page(connection, ended, None, 100, due).await;
        let (limit, mut seen, mut before) = (rng.u32(1..7), Vec::new(), None);
        loop {
            let found = page(connection, ended, before, limit, due).await;
            seen.extend(found.iter().copied());
            before = found.last().copied();
            if found.len() < limit as usize {
                break;
            }
            let Some(id) = unused.pop() else { continue };
            if ended == Ended::Used || rng.u8(0..4) == 0 {
                user_coupon::use_for_order(connection, USER, id, "o", now()).await.unwrap();
            } else {
                let flip = "update user_coupon set status = 2, version = version + 1 where id";
                execute(connection, &format!("{flip} = {id}")).await;
            }
        }
        let distinct: BTreeSet<CouponId> = seen.iter().copied().collect();
        assert_eq!(distinct.len(), seen.len(), "seed {seed}: {seen:?}");
        // Used meanwhile, it is not among the expired any more.
        let still: BTreeSet<_> =
            page(connection, ended, None, 100, due).await.into_iter().collect();
        let missing: Vec<_> =
            throughout.iter().filter(|id| still.contains(id) && !distinct.contains(id)).collect();
        assert_eq!(missing, [] as [&CouponId; 0], "seed {seed}");
    }
}

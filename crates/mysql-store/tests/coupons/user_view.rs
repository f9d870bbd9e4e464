//! Reads for "my coupons".

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponId, CouponStatus, UserId};
use mysql_store::{
    MySqlConnection, connect, user_coupon,
    user_coupon::UserCoupon,
    user_view::{self, End, ListPosition, Overdue, Walk},
};

use crate::harness::{
    Store, TEMPLATE, USER, execute, landing, landing_of, now, read, session_status,
};

/// Owner of a long list.
pub(crate) const HOT: UserId = UserId(700);

/// Number of [`HOT`]'s coupons of each of the [`KINDS`].
pub(crate) const OF_EACH: i64 = 4_000;

/// What [`HOT`] has: status and end. Those of the last two are due and not flipped yet.
pub(crate) const KINDS: [(CouponStatus, &str); 7] = [
    (CouponStatus::Unused, "+ interval 1 day"),
    (CouponStatus::Used, ""),
    (CouponStatus::Expired, ""),
    (CouponStatus::Held, "+ interval 1 day"),
    (CouponStatus::Lapsed, ""),
    (CouponStatus::Unused, "- interval 1 day"),
    (CouponStatus::Held, "- interval 1 day"),
];

/// Most coupons of a page of a long list.
pub(crate) const LIMIT: u32 = 20;

/// Most rows that the server reads for a page: those of each part of a statement, of their merge, and of the sort. A
/// page has at most four parts.
pub(crate) const READS_MAX: i64 = 12 * LIMIT as i64;

/// Five coupons of the user, by number; the second and third used, the fourth flipped to expired.
async fn five(name: &str) -> (Store, Vec<CouponId>) {
    let mut store = Store::with_template(name, 10).await;
    let landing = landing("a", &[1, 2, 3, 4, 5]);
    let ids: Vec<CouponId> = landing.landed.coupons.iter().map(|coupon| coupon.id).collect();
    let others = landing_of(TEMPLATE, UserId(71), "a", &[1]);
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

/// Inserts coupons of [`HOT`]: [`OF_EACH`] of each of the [`KINDS`], ten per millisecond, of two merchants in turn.
pub(crate) async fn hot(name: &str) -> Store {
    let mut store = Store::new(name).await;
    let digits = "(select 0 d union all select 1 union all select 2 union all select 3 union all select 4 \
                  union all select 5 union all select 6 union all select 7 union all select 8 union all select 9)";
    for (kind, (status, ends)) in KINDS.into_iter().enumerate() {
        let status = status.code();
        let sql = format!(
            "insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, status, version, \
             expiry_shard, claimed_at, changed_at, valid_from, valid_until) \
             select {kind} * 100000 + n, 10 + n % 3, {HOT}, {kind} * 100000 + n, n, 1 + n % 2, {status}, 1, 0, \
             at + interval (n div 10) * 1000 microsecond, at, at, at {ends} + interval (n div 10) * 1000 microsecond \
             from (select a.d + 10 * b.d + 100 * c.d + 1000 * e.d as n, \
             cast('{}' as datetime(3)) as at from {digits} a, {digits} b, {digits} c, {digits} e) numbers where n < {OF_EACH}",
            now().format("%F %T%.3f"),
        );
        execute(&mut store.connection, &sql).await;
    }
    execute(&mut store.connection, "analyze table user_coupon").await;
    store
}

/// Returns the number of rows and index entries that the server has read for this connection.
pub(crate) async fn rows_read(connection: &mut MySqlConnection) -> i64 {
    session_status(connection, "handler_read%").await
}

#[tokio::test]
async fn a_rebuild_reads_what_is_unused_and_whatever_changed_lately() {
    let (mut store, ids) = five("rows for rebuild").await;
    let since = now() + TimeDelta::seconds(2);
    let connection = &mut store.connection;
    let rows = user_view::rows_of_few(connection, USER, since, 3).await.unwrap().unwrap();
    let mut found: Vec<_> = rows.iter().map(|row| (row.id, row.status)).collect();
    found.sort_by_key(|(id, _)| *id);
    let unused = CouponStatus::Unused;
    let used = CouponStatus::Used;
    assert_eq!(found, [(ids[0], unused), (ids[2], used), (ids[4], unused)]);
    let too_many = user_view::rows_of_few(connection, USER, since, 1).await.unwrap();
    assert_eq!(too_many, None, "two are unused, and two used");

    let pool = connect::pool(&store.url, 2).await.unwrap();
    for limit in [1, 2, 3, 100] {
        let mut walk = Walk::begin(&pool, USER, since).await.unwrap();
        let mut walked = Vec::new();
        while let Some(piece) = walk.next(limit).await.unwrap() {
            assert!(piece.len() <= limit as usize);
            walked.extend(piece);
        }
        walked.sort_by_key(|row| row.id);
        let mut rows = rows.clone();
        rows.sort_by_key(|row| row.id);
        assert_eq!(walked, rows, "pieces of {limit}");
    }
}

/// A coupon claimed after the walk has passed its position and one used after that both look as at the beginning.
#[tokio::test]
async fn all_pieces_of_a_walk_are_of_the_moment_at_which_it_began() {
    let (mut store, ids) = five("one moment").await;
    let pool = connect::pool(&store.url, 2).await.unwrap();
    let since = now() - TimeDelta::days(2);
    let connection = &mut store.connection;
    let before = user_view::rows_of_few(connection, USER, since, 10).await.unwrap().unwrap();
    let mut walk = Walk::begin(&pool, USER, since).await.unwrap();
    let mut walked = walk.next(1).await.unwrap().unwrap();
    for id in [ids[0], ids[4]] {
        user_coupon::use_for_order(connection, USER, id, "late", now()).await.unwrap();
    }
    store.land(&[landing("b", &[6])]).await;
    while let Some(piece) = walk.next(1).await.unwrap() {
        walked.extend(piece);
    }
    let key = |row: &UserCoupon| row.id;
    let mut before = before;
    before.sort_by_key(key);
    walked.sort_by_key(key);
    assert_eq!(walked, before);
    drop(walk);
    // The connection returns without the transaction, and sees the current state.
    let mut connection = connect::acquire(&pool).await.unwrap();
    let rows = user_view::rows_of_few(&mut connection, USER, since, 10).await.unwrap().unwrap();
    assert_eq!(rows.len(), before.len() + 1);
}

/// A page of the user's used coupons.
async fn used_page(
    connection: &mut MySqlConnection,
    behind: Option<ListPosition>,
    limit: u32,
) -> Vec<UserCoupon> {
    read(user_view::page(connection, USER, CouponStatus::Used, behind, limit).await.unwrap())
}

async fn expired_page(
    connection: &mut MySqlConnection,
    behind: Option<End>,
    limit: u32,
    at: DateTime<Utc>,
) -> Vec<UserCoupon> {
    let expired = Overdue::Expired;
    read(user_view::overdue_page(connection, USER, expired, behind, limit, at).await.unwrap())
}

fn ids_of(rows: &[UserCoupon]) -> Vec<CouponId> {
    rows.iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn ended_coupons_are_paged_the_newest_first() {
    let (mut store, ids) = five("ended pages").await;
    let connection = &mut store.connection;
    let used = used_page(connection, None, 10).await;
    assert_eq!(ids_of(&used), [ids[2], ids[1]]);
    assert_eq!(ids_of(&used_page(connection, None, 1).await), [ids[2]]);
    let behind = Some(ListPosition::of(&used[0]));
    assert_eq!(ids_of(&used_page(connection, behind, 10).await), [ids[1]]);
    assert_eq!(ids_of(&expired_page(connection, None, 10, now()).await), [ids[3]]);
    // Due, but not flipped yet.
    let due = now() + TimeDelta::days(1);
    let expired = expired_page(connection, None, 2, due).await;
    assert_eq!(ids_of(&expired), [ids[4], ids[3]]);
    let behind = Some(End::of(&expired[1]));
    assert_eq!(ids_of(&expired_page(connection, behind, 10, due).await), [ids[0]]);
}

/// Positions that a client made up, at the ends of time.
#[tokio::test]
async fn a_place_that_no_coupon_can_be_at_is_an_end_of_the_list() {
    let (mut store, ids) = five("places").await;
    let connection = &mut store.connection;
    for (time, all) in [(DateTime::<Utc>::MAX_UTC, true), (DateTime::UNIX_EPOCH, false)] {
        let place =
            ListPosition { claimed_at: time, template_id: TEMPLATE, id: CouponId(i64::MAX) };
        let used = used_page(connection, Some(place), 10).await;
        assert_eq!(ids_of(&used), if all { vec![ids[2], ids[1]] } else { vec![] });
        let end = End { valid_until: time, id: CouponId(0) };
        let expired = expired_page(connection, Some(end), 10, now()).await;
        assert_eq!(ids_of(&expired), if all { vec![ids[3]] } else { vec![] });
    }
}

/// Coupons are used, and due ones flipped, while the pages are read.
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
        let is_used = round % 2 == 0;
        let all = async |connection: &mut MySqlConnection| {
            let all = if is_used {
                used_page(connection, None, 100).await
            } else {
                expired_page(connection, None, 100, due).await
            };
            ids_of(&all)
        };
        let throughout = all(connection).await;
        let limit = rng.u32(1..7);
        let mut seen: Vec<CouponId> = Vec::new();
        let mut behind: Option<UserCoupon> = None;
        loop {
            let found = if is_used {
                used_page(connection, behind.as_ref().map(ListPosition::of), limit).await
            } else {
                expired_page(connection, behind.as_ref().map(End::of), limit, due).await
            };
            seen.extend(ids_of(&found));
            if found.len() < limit as usize {
                break;
            }
            behind = found.into_iter().next_back();
            let Some(id) = unused.pop() else { continue };
            if is_used || rng.u8(0..4) == 0 {
                user_coupon::use_for_order(connection, USER, id, "o", now()).await.unwrap();
            } else {
                let flip = "update user_coupon set status = 2, version = version + 1 where id";
                execute(connection, &format!("{flip} = {id}")).await;
            }
        }
        let distinct: BTreeSet<CouponId> = seen.iter().copied().collect();
        assert_eq!(distinct.len(), seen.len(), "seed {seed}: {seen:?}");
        // Coupons used meanwhile are no longer among the expired.
        let still: BTreeSet<_> = all(connection).await.into_iter().collect();
        let missing: Vec<_> =
            throughout.iter().filter(|id| still.contains(id) && !distinct.contains(id)).collect();
        assert_eq!(missing, [] as [&CouponId; 0], "seed {seed}");
    }
}

/// Counted at the server: a page of twenty-eight thousand coupons costs as much as one of a hundred, in every list and
/// at every position. A search for overdue coupons among all others would cost more.
#[tokio::test]
async fn a_page_reads_a_page_however_long_the_list_is() {
    let mut store = hot("bounded reads").await;
    let connection = &mut store.connection;
    let cost = rows_read(connection).await;
    let own = rows_read(connection).await - cost;
    for status in [CouponStatus::Unused, CouponStatus::Used, CouponStatus::Held] {
        let mut behind = None;
        let mut walked = Vec::new();
        loop {
            let before = rows_read(connection).await;
            let rows = user_view::page(connection, HOT, status, behind, LIMIT).await;
            let rows = crate::harness::read(rows.unwrap());
            let read = rows_read(connection).await - before - own;
            assert!(read <= READS_MAX, "{read} rows for a page of {status:?} behind {behind:?}");
            behind = rows.last().map(ListPosition::of);
            walked.extend(rows.iter().map(|row| (row.claimed_at, row.template_id, row.id)));
            if rows.len() < LIMIT as usize {
                break;
            }
        }
        let of_status = KINDS.iter().filter(|(kind, _)| *kind == status).count() as i64 * OF_EACH;
        assert_eq!(walked.len() as i64, of_status, "{status:?}");
        assert!(walked.is_sorted_by(|left, right| left > right), "{status:?}");
    }
    for list in [Overdue::Expired, Overdue::Lapsed] {
        let mut behind = None;
        let mut walked = Vec::new();
        loop {
            let before = rows_read(connection).await;
            let rows = user_view::overdue_page(connection, HOT, list, behind, LIMIT, now());
            let rows = crate::harness::read(rows.await.unwrap());
            let read = rows_read(connection).await - before - own;
            assert!(read <= READS_MAX, "{read} rows for a page of {list:?} behind {behind:?}");
            behind = rows.last().map(End::of);
            walked.extend(rows.iter().map(|row| (row.valid_until, row.id)));
            if rows.len() < LIMIT as usize {
                break;
            }
        }
        assert_eq!(walked.len() as i64, 2 * OF_EACH, "{list:?}, flipped or not");
        assert!(walked.is_sorted_by(|left, right| left > right), "{list:?}");
    }

    // A rebuild notices at once that the list is long, and reads no more than a piece for each piece.
    let before = rows_read(connection).await;
    let few = user_view::rows_of_few(connection, HOT, now(), 100).await.unwrap();
    let read = rows_read(connection).await - before - own;
    let pieces = CouponStatus::ALL.len() as i64;
    assert!(
        few.is_none() && read <= 3 * pieces * 101 + 20,
        "{read} rows to see that there are many"
    );
}

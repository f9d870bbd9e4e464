//! Pages: order, cursors, expiry at the deadline, the caller's own claim.

use std::collections::BTreeSet;

use chrono::DateTime;
use coupon::{CouponId, CouponStatus};
use devstack::{OwnRedis, TestServers};
use redis_view::{Change, Origin, Page, PageAnswer, PageRequest, ViewReader};

use crate::{
    harness::{NOW_MS, TestView, USER, first, now, unused, used},
    mysql::MySql,
};

/// Reads a page from MySQL, by asking for a coupon that the view does not know.
async fn page_of_mysql(reader: &ViewReader<MySql>, request: &PageRequest) -> Page {
    let request = PageRequest { after: Some(CouponId(i64::MAX)), ..request.clone() };
    let answer = reader.my_coupons(USER, &request).await.unwrap();
    assert_eq!(answer.origin, Origin::Truth);
    answer.page
}

async fn page(view: &TestView, request: &PageRequest) -> Page {
    match view.store.page(USER, request).await.unwrap() {
        PageAnswer::Page(page) => page,
        other => panic!("{other:?}"),
    }
}

/// Returns the ids of all pages in order.
async fn walk(view: &TestView, limit: usize) -> Vec<i64> {
    let mut ids = Vec::new();
    let mut request = first(limit);
    loop {
        let page = page(view, &request).await;
        assert!(page.coupons.len() <= limit);
        ids.extend(page.coupons.iter().map(|coupon| coupon.id.0));
        let Some(next) = page.next else { return ids };
        request.cursor = Some(next.to_string().parse().unwrap());
    }
}

#[tokio::test]
async fn pages_hold_every_coupon_once_the_latest_claim_first() {
    let view = TestView::new("pages").await;
    view.rebuild(&(1..=25).map(unused).collect::<Vec<_>>()).await;
    let all: Vec<_> = (1..=25).rev().collect();
    for limit in [1, 4, 5, 24, 25, 26, 100] {
        assert_eq!(walk(&view, limit).await, all, "limit {limit}");
    }
}

/// Members of one score sort by their bytes: `1_10` before `1_9`.
#[tokio::test]
async fn coupons_claimed_in_one_millisecond_are_paged_like_all_others() {
    let view = TestView::new("one millisecond").await;
    let same = |id| {
        let mut change = unused(id);
        change.coupon.claimed_at = now();
        change
    };
    let rows: Vec<_> = (1..=120).map(same).collect();
    view.rebuild(&rows).await;
    let mut all: Vec<i64> = (1..=120).collect();
    all.sort_by_key(|id| std::cmp::Reverse(id.to_string()));
    assert_eq!(walk(&view, 7).await, all);
}

#[tokio::test]
async fn a_cursor_stays_in_place_while_coupons_come_and_go() {
    let view = TestView::new("cursor").await;
    view.rebuild(&(1..=30).map(unused).collect::<Vec<_>>()).await;
    let mut expected = (1..=30).rev().collect::<Vec<i64>>();
    let mut next_new = 100;
    let mut shown = Vec::new();
    let mut request = first(5);
    loop {
        let page = page(&view, &request).await;
        shown.extend(page.coupons.iter().map(|coupon| coupon.id.0));
        let Some(next) = page.next else { break };
        request.cursor = Some(next);
        // A newer coupon is added; the one at the cursor and the next one are removed.
        let at_cursor = shown[shown.len() - 1];
        let behind = expected[shown.len()];
        view.store.apply(USER, &[unused(next_new), used(at_cursor), used(behind)]).await.unwrap();
        expected.retain(|id| *id != behind);
        next_new += 1;
    }
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_coupon_is_not_shown_from_its_very_deadline_on() {
    let view = TestView::new("deadline").await;
    let until = |id, ms| {
        let mut change = unused(id);
        change.coupon.valid_until = DateTime::from_timestamp_millis(ms).unwrap();
        change
    };
    let rows = [until(1, NOW_MS - 1), until(2, NOW_MS), until(3, NOW_MS + 1)];
    view.rebuild(&rows).await;
    assert_eq!(view.shown().await, [3]);
    let reader = ViewReader::new(view.store.clone(), MySql::with(USER, rows.to_vec()));
    assert_eq!(page_of_mysql(&reader, &first(10)).await.coupons, [rows[2].coupon]);
}

#[tokio::test]
async fn a_page_looks_at_a_bounded_number_of_coupons_and_loses_none() {
    let view = TestView::new("looks").await;
    let ended = |id| {
        let mut change = unused(id);
        change.coupon.valid_until = now();
        change
    };
    let mut rows: Vec<Change> = (2..=2_000).map(ended).collect();
    rows.push(unused(1));
    view.rebuild(&rows).await;
    let mut request = first(10);
    let mut calls = 0;
    loop {
        let page = page(&view, &request).await;
        calls += 1;
        match page.next {
            Some(next) => {
                assert!(page.coupons.is_empty());
                request.cursor = Some(next);
            }
            None => {
                assert_eq!(page.coupons[0].id, CouponId(1));
                break;
            }
        }
    }
    assert!((2..=5).contains(&calls), "{calls} calls");
}

/// Lists of every kind: many claims in one millisecond, ended coupons that are not flipped yet, and more of them in a
/// row than one page examines. A cursor of one source must continue in the other.
#[tokio::test]
async fn a_page_of_mysql_is_the_page_of_the_view() {
    let view = TestView::new("the same pages").await;
    let seed = fastrand::u64(..);
    println!("lists of the seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut short_pages = 0;
    for coupons in [0, 1, 20, 99, 100, 101, 300, 1_200] {
        view.store.drop_view(USER).await.unwrap();
        let milliseconds = rng.i64(1..50);
        let ended_percent = rng.u8(0..100);
        let mut rows = Vec::new();
        for id in 1..=coupons {
            let mut row = if rng.u8(0..10) == 0 { used(id) } else { unused(id) };
            row.coupon.claimed_at =
                DateTime::from_timestamp_millis(rng.i64(0..milliseconds)).unwrap();
            let run_of_ended = coupons == 1_200 && (100..1_100).contains(&id);
            if run_of_ended || rng.u8(0..100) < ended_percent {
                row.coupon.valid_until = now();
                row.coupon.claimed_at = row.coupon.claimed_at.min(now());
            }
            rows.push(row);
        }
        view.rebuild(&rows).await;
        let reader = ViewReader::new(view.store.clone(), MySql::with(USER, rows));
        for limit in [1, 7, 20, 100] {
            let mut request = first(limit);
            loop {
                let ours = page_of_mysql(&reader, &request).await;
                assert_eq!(ours, page(&view, &request).await, "seed {seed}: {request:?}");
                let Some(next) = ours.next else { break };
                short_pages += usize::from(ours.coupons.len() < limit);
                request.cursor = Some(next.to_string().parse().unwrap());
            }
        }
    }
    assert!(short_pages > 0, "no page met more ended coupons than it looks at");
}

/// Coupons are added and removed while lists with many claims in one millisecond are paged.
#[tokio::test]
async fn a_walk_sees_every_coupon_that_was_there_throughout_exactly_once() {
    let view = TestView::new("walks").await;
    let seed = fastrand::u64(..);
    println!("walks of the seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..30 {
        view.store.drop_view(USER).await.unwrap();
        let mut rows = Vec::new();
        for id in 1..=rng.i64(1..80) {
            let mut row = unused(id);
            row.coupon.claimed_at = DateTime::from_timestamp_millis(rng.i64(0..6)).unwrap();
            rows.push(row);
        }
        view.rebuild(&rows).await;
        let mut throughout: BTreeSet<i64> = rows.iter().map(|row| row.coupon.id.0).collect();
        let mut seen = Vec::new();
        let mut request = first(rng.usize(1..9));
        loop {
            let page = page(&view, &request).await;
            seen.extend(page.coupons.iter().map(|coupon| coupon.id.0));
            let Some(next) = page.next else { break };
            request.cursor = Some(next.to_string().parse().unwrap());
            let gone = rng.choice(&rows).unwrap();
            let mut new = unused(100 + seen.len() as i64);
            new.coupon.claimed_at = DateTime::from_timestamp_millis(rng.i64(0..6)).unwrap();
            let gone = Change { status: CouponStatus::Used, version: 2, ..*gone };
            view.store.apply(USER, &[gone, new]).await.unwrap();
            throughout.remove(&gone.coupon.id.0);
        }
        let distinct: BTreeSet<i64> = seen.iter().copied().collect();
        assert_eq!(distinct.len(), seen.len(), "seed {seed}: {seen:?}");
        assert!(throughout.is_subset(&distinct), "seed {seed}: {throughout:?} in {seen:?}");
    }
}

#[tokio::test]
async fn a_view_that_does_not_know_the_callers_claim_says_so() {
    let view = TestView::new("after").await;
    view.rebuild(&[unused(1)]).await;
    let after = |id| PageRequest { after: Some(CouponId(id)), ..first(10) };
    assert!(matches!(view.store.page(USER, &after(1)).await.unwrap(), PageAnswer::Page(_)));
    assert_eq!(view.store.page(USER, &after(2)).await.unwrap(), PageAnswer::Unknown);
    // A coupon that was used meanwhile is known.
    view.store.apply(USER, &[used(2)]).await.unwrap();
    assert!(matches!(view.store.page(USER, &after(2)).await.unwrap(), PageAnswer::Page(_)));
}

mod full {
    use super::*;

    /// The cost of a page is measured at the server. It must not grow with the list, whatever its order.
    #[tokio::test]
    async fn a_page_of_ten_thousand_coupons_reads_no_more_than_one_of_a_hundred() {
        const COUPONS: i64 = 10_000;
        const LIMIT: usize = 100;
        let name = TestServers::shared().scope("ten thousand").database;
        let server = OwnRedis::view(&name, &[]).await.unwrap();
        let view = TestView::on(server.url(), String::new()).await;
        let in_one_millisecond = |id| {
            let mut change = unused(id);
            change.coupon.claimed_at = now();
            change
        };
        for row in [unused, in_one_millisecond] {
            view.store.drop_view(USER).await.unwrap();
            view.rebuild(&(1..=COUPONS).map(row).collect::<Vec<_>>()).await;
            let mut ids = Vec::new();
            let mut request = first(LIMIT);
            loop {
                let before = view.costs().await;
                let page = page(&view, &request).await;
                let after = view.costs().await;
                // A binary search for the cursor, then the page, then the markers.
                let lists = after.list_reads - before.list_reads;
                assert!(
                    lists <= 1 + u64::from(COUPONS.ilog2()) + 1 + 1,
                    "{lists} reads of the list"
                );
                let hashes = after.hash_reads - before.hash_reads;
                assert!(hashes <= 2, "{hashes} reads of the hash");
                let bytes = after.bytes_sent - before.bytes_sent;
                assert!(bytes < 20_000, "{bytes} bytes for {LIMIT} coupons");
                ids.extend(page.coupons.iter().map(|coupon| coupon.id.0));
                let Some(next) = page.next else { break };
                request.cursor = Some(next);
            }
            ids.sort_unstable();
            assert_eq!(ids, (1..=COUPONS).collect::<Vec<_>>());
        }
    }
}

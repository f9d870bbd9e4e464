//! Pages: order, cursors, the law of expiry, one's own claim.

use std::time::{Duration, Instant};

use chrono::DateTime;
use coupon::CouponId;
use redis_view::{Change, Page, PageAnswer, PageRequest};

use crate::harness::{NOW_MS, TestView, USER, first, now, unused, used};

async fn page(view: &TestView, request: &PageRequest) -> Page {
    match view.store.page(USER, request).await.unwrap() {
        PageAnswer::Page(page) => page,
        other => panic!("{other:?}"),
    }
}

/// All pages one after the other, as ids.
async fn walk(view: &TestView, limit: usize) -> Vec<i64> {
    let (mut ids, mut request) = (Vec::new(), first(limit));
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
    // The page that MySQL's rows give is the same one.
    let mut request = first(7);
    loop {
        let (ours, theirs) = (Page::of_rows(&rows, &request), page(&view, &request).await);
        assert_eq!(ours, theirs);
        let Some(next) = ours.next else { break };
        request.cursor = Some(next);
    }
}

#[tokio::test]
async fn a_cursor_stays_in_place_while_coupons_come_and_go() {
    let view = TestView::new("cursor").await;
    view.rebuild(&(1..=30).map(unused).collect::<Vec<_>>()).await;
    let (mut expected, mut next_new) = ((1..=30).rev().collect::<Vec<i64>>(), 100);
    let (mut shown, mut request) = (Vec::new(), first(5));
    loop {
        let page = page(&view, &request).await;
        shown.extend(page.coupons.iter().map(|coupon| coupon.id.0));
        let Some(next) = page.next else { break };
        request.cursor = Some(next);
        // A newer coupon comes; the one at the cursor and the one right behind it go.
        let (at_cursor, behind) = (shown[shown.len() - 1], expected[shown.len()]);
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
    assert_eq!(Page::of_rows(&rows, &first(10)).coupons[0].id, CouponId(3));
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
    let (mut request, mut calls) = (first(10), 0);
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

#[tokio::test]
async fn ten_thousand_coupons_of_one_user_page_in_bounded_time() {
    let view = TestView::new("ten thousand").await;
    view.rebuild(&(1..=10_000).map(unused).collect::<Vec<_>>()).await;
    let start = Instant::now();
    let ids = walk(&view, 100).await;
    assert_eq!(ids.len(), 10_000);
    // A hundred pages; each would take this long if one page grew with the whole list.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_view_that_does_not_know_the_callers_claim_says_so() {
    let view = TestView::new("after").await;
    view.rebuild(&[unused(1)]).await;
    let after = |id| PageRequest { after: Some(CouponId(id)), ..first(10) };
    assert!(matches!(view.store.page(USER, &after(1)).await.unwrap(), PageAnswer::Page(_)));
    assert_eq!(view.store.page(USER, &after(2)).await.unwrap(), PageAnswer::Unknown);
    // One that was used meanwhile is known.
    view.store.apply(USER, &[used(2)]).await.unwrap();
    assert!(matches!(view.store.page(USER, &after(2)).await.unwrap(), PageAnswer::Page(_)));
}

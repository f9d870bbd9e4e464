//! Versioned writes, and reading them back.

use std::sync::atomic::Ordering;

use coupon::CouponId;
use redis_view::{Applied, PageAnswer, ViewError};

use crate::harness::{TestView, USER, first, rebuild, unused, used};

#[tokio::test]
async fn a_change_is_applied_once_and_an_older_one_never() {
    let view = TestView::new("apply if newer").await;
    view.rebuild(&[]).await;
    let changes = [unused(1), unused(2), unused(1), used(2), unused(2)];
    let applied = view.store.apply(USER, &changes).await.unwrap();
    use Applied::{Applied as Done, NotNewer};
    assert_eq!(applied, [Done, Done, NotNewer, Done, NotNewer]);
    assert_eq!(view.shown().await, [1]);
}

#[tokio::test]
async fn a_tombstone_keeps_a_replayed_insert_away_even_if_the_insert_was_never_seen() {
    let view = TestView::new("tombstone").await;
    view.rebuild(&[]).await;
    assert_eq!(view.store.apply(USER, &[used(1)]).await.unwrap(), [Applied::Applied]);
    assert_eq!(view.store.apply(USER, &[unused(1)]).await.unwrap(), [Applied::NotNewer]);
    assert_eq!(view.shown().await, [0; 0]);
}

#[tokio::test]
async fn replayed_duplicated_and_shuffled_changes_leave_the_keys_byte_equal() {
    let view = TestView::new("replay").await;
    view.rebuild(&[]).await;
    let mut changes: Vec<_> = (1..=60).map(unused).collect();
    changes.extend((1..=60).filter(|id| id % 3 == 0).map(used));
    view.store.apply(USER, &changes).await.unwrap();
    let keys = [view.list(), view.coupons()];
    let before = [view.dump(&keys[0]).await, view.dump(&keys[1]).await];
    let whole = async || {
        let contents = view.store.contents(USER).await.unwrap();
        (contents.trusted, contents.list, contents.coupons)
    };
    let contents = whole().await;

    fastrand::seed(42);
    for _ in 0..20 {
        let mut again = [changes.clone(), changes.clone()].concat();
        fastrand::shuffle(&mut again);
        view.store.apply(USER, &again).await.unwrap();
        assert_eq!(view.store.read_back(USER, &again).await.unwrap(), 0);
        assert_eq!([view.dump(&keys[0]).await, view.dump(&keys[1]).await], before);
    }

    // Starting from an empty view, any order leads to the same members, scores and entries, byte
    // for byte.
    for _ in 0..20 {
        view.store.drop_view(USER).await.unwrap();
        view.rebuild(&[]).await;
        fastrand::shuffle(&mut changes);
        view.store.apply(USER, &changes).await.unwrap();
        assert_eq!(whole().await, contents);
    }
}

/// A reader that has not learned of the next generation yet would still trust the view.
#[tokio::test]
async fn a_change_leaves_nothing_of_a_view_that_it_does_not_reach() {
    let view = TestView::new("not reached").await;
    view.rebuild(&[unused(1)]).await;
    let behind = view.store.clone();
    view.generation.store(2, Ordering::SeqCst);
    let ahead = view.another().await;
    assert_eq!(ahead.apply(USER, &[used(1)]).await.unwrap(), [Applied::Cold]);
    assert_eq!(behind.page(USER, &first(10)).await.unwrap(), PageAnswer::Cold);

    // A view that it rebuilds before it learns is dropped by the next change.
    rebuild(&behind, &[unused(2)]).await;
    assert_eq!(ahead.apply(USER, &[used(2)]).await.unwrap(), [Applied::Cold]);
    assert_eq!(behind.page(USER, &first(10)).await.unwrap(), PageAnswer::Cold);

    // A writer with an old generation drops a newer view, and learns the new generation from it.
    rebuild(&ahead, &[unused(3)]).await;
    assert_eq!(behind.apply(USER, &[used(3)]).await.unwrap(), [Applied::Cold]);
    assert_eq!(ahead.page(USER, &first(10)).await.unwrap(), PageAnswer::Cold);
    rebuild(&ahead, &[unused(3)]).await;
    assert_eq!(behind.apply(USER, &[used(3)]).await.unwrap(), [Applied::Applied]);
}

/// The other key may come back, for example when a slot moves.
#[tokio::test]
async fn a_change_leaves_nothing_of_a_view_that_has_lost_a_key() {
    let view = TestView::new("half").await;
    for lost in 0..2 {
        view.rebuild(&[unused(1)]).await;
        let keys = [view.list(), view.coupons()];
        view.send(&["DEL", &keys[lost]]).await;
        assert_eq!(view.store.apply(USER, &[used(1)]).await.unwrap(), [Applied::Cold]);
        assert_eq!(view.dump(&keys[1 - lost]).await, None);
    }
}

#[tokio::test]
async fn a_cold_view_stays_cold_and_gets_no_keys() {
    let view = TestView::new("cold").await;
    assert_eq!(view.store.apply(USER, &[unused(1)]).await.unwrap(), [Applied::Cold]);
    assert_eq!(view.store.read_back(USER, &[unused(1)]).await.unwrap(), 0);
    assert_eq!(view.dump(&view.list()).await, None);
    assert_eq!(view.dump(&view.coupons()).await, None);
    assert_eq!(view.ask().await, PageAnswer::Cold);
}

#[tokio::test]
async fn more_changes_than_fit_one_call_are_all_applied() {
    let view = TestView::new("many").await;
    view.rebuild(&[]).await;
    let changes: Vec<_> = (1..=450).map(unused).collect();
    let applied = view.store.apply(USER, &changes).await.unwrap();
    assert_eq!(applied, [Applied::Applied; 450]);
    assert_eq!(view.store.read_back(USER, &changes).await.unwrap(), 0);
    assert_eq!(view.store.contents(USER).await.unwrap().list.len(), 450);
}

#[tokio::test]
async fn a_member_lost_between_write_and_read_back_is_written_again_and_counted() {
    let view = TestView::new("read back").await;
    view.rebuild(&[]).await;
    let changes = [unused(1), unused(2), unused(3)];
    view.store.apply(USER, &changes).await.unwrap();
    view.send(&["ZREM", &view.list(), "1_2"]).await;
    view.send(&["ZADD", &view.list(), "99", "1_3"]).await;
    assert_eq!(view.store.read_back(USER, &changes).await.unwrap(), 2);
    assert_eq!(view.shown().await, [3, 2, 1]);
    assert_eq!(view.store.read_back(USER, &changes).await.unwrap(), 0);
}

/// V2 of the model: between the write and reading it back, a rebuild put a tombstone there.
#[tokio::test]
async fn a_member_that_left_meanwhile_is_not_written_again() {
    let view = TestView::new("read back after use").await;
    view.rebuild(&[]).await;
    view.store.apply(USER, &[unused(1)]).await.unwrap();
    view.store.drop_view(USER).await.unwrap();
    view.rebuild(&[used(1)]).await;
    assert_eq!(view.store.read_back(USER, &[unused(1)]).await.unwrap(), 0);
    assert_eq!(view.shown().await, [0; 0]);

    // A view without its list gets no member either.
    view.store.apply(USER, &[unused(2)]).await.unwrap();
    view.send(&["DEL", &view.list()]).await;
    assert_eq!(view.store.read_back(USER, &[unused(2)]).await.unwrap(), 0);
    assert_eq!(view.dump(&view.list()).await, None);
}

#[tokio::test]
async fn a_key_of_the_wrong_type_is_named_and_dropping_the_view_mends_it() {
    let view = TestView::new("wrong type").await;
    for damaged in [view.list(), view.coupons()] {
        view.store.drop_view(USER).await.unwrap();
        view.rebuild(&[unused(1)]).await;
        view.send(&["SET", &damaged, "x"]).await;
        let error = view.store.apply(USER, &[unused(2)]).await.unwrap_err();
        assert!(matches!(error, ViewError::WrongType { user } if user == USER), "{error}");
        let error = view.store.page(USER, &first(1)).await.unwrap_err();
        assert_eq!(error.damage(), Some((USER, "wrong_type")));
        view.store.drop_view(USER).await.unwrap();
        assert_eq!(view.store.apply(USER, &[unused(2)]).await.unwrap(), [Applied::Cold]);
    }
}

/// The caller learns which view to drop, instead of repeating an operation that must fail again.
#[tokio::test]
async fn text_that_cannot_be_read_is_named_and_dropping_the_view_mends_it() {
    let view = TestView::new("unreadable").await;
    let long = format!("{}|0|1|1|1|1|0|1", "9".repeat(20));
    for (field, text) in
        [("1", "garbage"), ("1", ""), ("1", &long), ("~token", "garbage"), ("~state", "x")]
    {
        view.store.drop_view(USER).await.unwrap();
        view.rebuild(&[unused(1)]).await;
        view.send(&["HSET", &view.coupons(), field, text]).await;
        let error = view.store.apply(USER, &[used(1)]).await.unwrap_err();
        assert_eq!(error.damage(), Some((USER, "unreadable")), "{field} {text:?}: {error}");
        view.store.drop_view(USER).await.unwrap();
        assert_eq!(view.store.apply(USER, &[used(1)]).await.unwrap(), [Applied::Cold]);
    }
}

/// Damage to one user's view must not block the changes of others.
#[tokio::test]
async fn a_score_that_is_no_whole_number_is_written_again() {
    let view = TestView::new("broken score").await;
    view.rebuild(&[unused(1)]).await;
    for score in ["1.5", "inf"] {
        view.send(&["ZADD", &view.list(), score, "1_1"]).await;
        assert_eq!(view.store.read_back(USER, &[unused(1)]).await.unwrap(), 1);
        assert_eq!(view.shown().await, [1]);
    }
}

/// For example by restoring a backup under other names.
#[tokio::test]
async fn keys_that_were_copied_from_another_user_are_cold() {
    let view = TestView::new("copied").await;
    let thief = coupon::UserId(8);
    view.rebuild(&[unused(1)]).await;
    for (from, to) in [view.list(), view.coupons()].iter().zip(view.keys_of(thief)) {
        view.send(&["COPY", from, &to]).await;
    }
    assert_eq!(view.store.page(thief, &first(10)).await.unwrap(), PageAnswer::Cold);
    assert!(!view.store.contents(thief).await.unwrap().trusted);
    assert_eq!(view.store.apply(thief, &[unused(2)]).await.unwrap(), [Applied::Cold]);
    assert_eq!(view.store.users().await.unwrap(), [USER]);
    assert_eq!(view.shown().await, [1]);
}

#[tokio::test]
async fn details_of_a_listed_coupon_are_whole() {
    let view = TestView::new("details").await;
    let mut row = unused(1);
    row.coupon.id = CouponId(i64::MAX);
    view.rebuild(&[row]).await;
    let contents = view.store.contents(USER).await.unwrap();
    assert!(contents.trusted);
    assert_eq!(contents.details(&CouponId(i64::MAX).to_string()).unwrap(), row.coupon);
    assert_eq!(view.store.users().await.unwrap(), [USER]);
}

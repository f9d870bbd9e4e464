//! Completeness: markers, nonces, generations. V1 to V4 are variants of the protocol that failed in the model; each
//! has a test.

use std::sync::atomic::Ordering;

use chrono::TimeDelta;
use redis_view::{Applied, Begun, Nonce, PageAnswer};

use crate::harness::{TestView, USER, first, now, unused, used};

async fn begin(view: &TestView) -> Nonce {
    match view.store.begin(USER, now()).await.unwrap() {
        Begun::Begun(nonce) => nonce,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_loss_of_any_one_key_makes_the_view_cold_and_a_rebuild_mends_it() {
    let view = TestView::new("eviction").await;
    for lost in [view.list(), view.coupons()] {
        view.store.drop_view(USER).await.unwrap();
        view.rebuild(&[unused(1), unused(2)]).await;
        assert_eq!(view.shown().await, [2, 1]);
        view.send(&["DEL", &lost]).await;
        assert_eq!(view.ask().await, PageAnswer::Cold);
        // A change must not make it look whole.
        assert_eq!(view.store.apply(USER, &[unused(3)]).await.unwrap(), [Applied::Cold]);
        assert_eq!(view.ask().await, PageAnswer::Cold);
        view.rebuild(&[unused(1), unused(2), unused(3)]).await;
        assert_eq!(view.shown().await, [3, 2, 1]);
    }
}

#[tokio::test]
async fn an_empty_list_is_a_view_too() {
    let view = TestView::new("empty").await;
    view.rebuild(&[]).await;
    assert_eq!(view.shown().await, [0; 0]);
}

#[tokio::test]
async fn a_view_under_rebuild_is_not_trusted_and_takes_changes() {
    let view = TestView::new("loading").await;
    let nonce = begin(&view).await;
    assert_eq!(view.ask().await, PageAnswer::Cold);
    assert_eq!(view.store.apply(USER, &[used(1)]).await.unwrap(), [Applied::Applied]);
    // These rows were read before the use was committed.
    assert!(view.store.load(USER, nonce, &[unused(1), unused(2)], now()).await.unwrap());
    assert!(view.store.complete(USER, nonce).await.unwrap());
    assert_eq!(view.shown().await, [2]);
}

/// V1: a lagging consumer applies the insert of a coupon that is already used. The rebuild reads every coupon changed
/// within the topic's retention, so the tombstone is there.
#[tokio::test]
async fn a_lagging_consumer_brings_no_used_coupon_back() {
    let view = TestView::new("V1").await;
    let nonce = begin(&view).await;
    view.store.apply(USER, &[unused(1)]).await.unwrap();
    assert!(view.store.load(USER, nonce, &[used(1)], now()).await.unwrap());
    assert!(view.store.complete(USER, nonce).await.unwrap());
    assert_eq!(view.shown().await, [0; 0]);
}

/// V3: with the nonce in the hash alone, a list lost before `complete` would become a trusted empty list.
#[tokio::test]
async fn a_key_lost_during_the_rebuild_keeps_it_from_completing() {
    let view = TestView::new("V3").await;
    for lost in [view.list(), view.coupons()] {
        view.store.drop_view(USER).await.unwrap();
        let nonce = begin(&view).await;
        assert!(view.store.load(USER, nonce, &[unused(1)], now()).await.unwrap());
        view.send(&["DEL", &lost]).await;
        assert!(!view.store.load(USER, nonce, &[unused(2)], now()).await.unwrap());
        assert!(!view.store.complete(USER, nonce).await.unwrap());
        assert_eq!(view.ask().await, PageAnswer::Cold);
    }
}

/// V4: without deletion, the hash would know coupons whose members are gone. Then nothing is newer, and they never
/// return.
#[tokio::test]
async fn begin_forgets_what_the_keys_held_before() {
    let view = TestView::new("V4").await;
    view.rebuild(&[unused(1)]).await;
    view.send(&["DEL", &view.list()]).await;
    view.rebuild(&[unused(1)]).await;
    assert_eq!(view.shown().await, [1]);
}

#[tokio::test]
async fn a_young_rebuild_is_left_alone_and_an_old_one_is_taken_over() {
    let view = TestView::new("young nonce").await;
    let dead = begin(&view).await;
    let later = now() + TimeDelta::seconds(1);
    assert_eq!(view.store.begin(USER, later).await.unwrap(), Begun::Busy);
    let later = now() + TimeDelta::seconds(6);
    let Begun::Begun(nonce) = view.store.begin(USER, later).await.unwrap() else { panic!() };
    assert!(!view.store.load(USER, dead, &[unused(1)], now()).await.unwrap());
    assert!(!view.store.complete(USER, dead).await.unwrap());
    assert!(view.store.complete(USER, nonce).await.unwrap());
    assert_eq!(view.shown().await, [0; 0]);
    assert_eq!(view.store.begin(USER, later).await.unwrap(), Begun::Complete);
}

#[tokio::test]
async fn a_higher_generation_makes_old_views_cold_and_their_readers_build_none() {
    let view = TestView::new("generation").await;
    view.rebuild(&[unused(1)]).await;
    view.generation.store(2, Ordering::SeqCst);
    let newer = view.another().await;
    let request = crate::harness::first(10);
    assert_eq!(newer.page(USER, &request).await.unwrap(), PageAnswer::Cold);
    assert_eq!(newer.apply(USER, &[unused(2)]).await.unwrap(), [Applied::Cold]);
    let Begun::Begun(nonce) = newer.begin(USER, now()).await.unwrap() else { panic!() };
    assert!(newer.load(USER, nonce, &[unused(3)], now()).await.unwrap());
    assert!(newer.complete(USER, nonce).await.unwrap());

    assert_eq!(view.ask().await, PageAnswer::Cold);
    assert_eq!(view.store.begin(USER, now()).await.unwrap(), Begun::Outdated);
    assert!(matches!(newer.page(USER, &request).await.unwrap(), PageAnswer::Page(_)));
}

#[tokio::test]
async fn a_lost_connection_is_made_anew_and_asks_for_the_generation_again() {
    let view = TestView::new("reconnect").await;
    view.rebuild(&[unused(1)]).await;
    let (store, proxy) = view.through_a_proxy().await;
    let request = crate::harness::first(10);
    assert!(matches!(store.page(USER, &request).await.unwrap(), PageAnswer::Page(_)));
    view.generation.store(2, Ordering::SeqCst);
    proxy.cut();
    // The first call may fail on the dead connection; the next one reconnects.
    let answer = match store.page(USER, &request).await {
        Ok(answer) => answer,
        Err(_) => store.page(USER, &request).await.unwrap(),
    };
    assert_eq!(answer, PageAnswer::Cold);
}

#[tokio::test]
async fn a_member_without_details_costs_the_view() {
    let view = TestView::new("no details").await;
    view.rebuild(&[unused(1)]).await;
    view.send(&["ZADD", &view.list(), "5", "1_5"]).await;
    let error = view.store.page(USER, &first(10)).await.unwrap_err();
    assert_eq!(error.damage(), Some((USER, "unreadable")));
    view.store.drop_view(USER).await.unwrap();
    assert_eq!(view.ask().await, PageAnswer::Cold);
    view.rebuild(&[unused(1)]).await;
    assert_eq!(view.shown().await, [1]);
}

#[tokio::test]
async fn dropping_all_views_makes_each_cold_and_leaves_other_keys() {
    let view = TestView::new("drop all").await;
    view.rebuild(&[unused(1)]).await;
    let other = coupon::UserId(8);
    let Begun::Begun(nonce) = view.store.begin(other, now()).await.unwrap() else { panic!() };
    let [list, _] = view.keys_of(coupon::UserId(9));
    view.send(&["SET", &list, "of another type"]).await;
    let not_ours = format!("{}x", view.list());
    view.send(&["SET", &not_ours, "x"]).await;

    assert_eq!(view.store.drop_all().await.unwrap(), 3);
    assert_eq!(view.ask().await, PageAnswer::Cold);
    assert!(!view.store.complete(other, nonce).await.unwrap(), "it read MySQL before the drop");
    assert_eq!(view.store.users().await.unwrap(), []);
    assert!(view.dump(&not_ours).await.is_some());
    view.send(&["DEL", &not_ours]).await;
}

//! Unreadable messages, and damaged keys.

use coupon::UserId;
use redis_view::keys;
use testkit::{Proxy, STATE_MAX};

use crate::harness::{Harness, row};

const USER: UserId = UserId(70);

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_message_is_put_aside_its_users_view_dropped_and_the_rest_goes_on() {
    let test = Harness::new("undecodable").await;
    let other = UserId(71);
    test.warm(USER).await;
    test.warm(other).await;
    let consumer = test.start();
    test.send(&row(1, 70)).await;
    test.send_raw("70", b"{\"after\":").await;
    test.send_raw("nobody", b"").await;
    test.send(&row(2, 71)).await;
    test.caught_up().await;
    assert_eq!(test.view.users().await.unwrap(), [other]);
    assert_eq!(test.listed(other).await, ["1_2"]);
    let letters = test.dead_letters().await;
    assert_eq!(letters.len(), 2);
    let cut = letters.iter().find(|letter| letter.key == b"70").unwrap();
    assert_eq!(cut.payload.as_deref(), Some(&b"{\"after\":"[..]));
    assert_eq!(cut.header("source-topic").unwrap(), test.names.user_coupon().as_bytes());
    assert!(cut.header("source-offset").is_some() && cut.header("reason").is_some());
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_wrong_type_costs_its_user_the_view_and_nobody_else_anything() {
    let test = Harness::new("wrong type").await;
    let other = UserId(72);
    let damaged = [(USER, keys::list as fn(&str, UserId) -> String), (UserId(71), keys::coupons)];
    for (user, key) in damaged {
        test.warm(user).await;
        test.spoil(key, user).await;
    }
    test.warm(other).await;
    let consumer = test.start();
    for user in 70..=72 {
        test.send(&row(user, user)).await;
    }
    test.caught_up().await;
    assert_eq!(test.view.users().await.unwrap(), [other]);
    assert_eq!(test.listed(other).await, ["1_72"]);
    assert!(testkit::counted("sync_consumer_dropped_views_total", "wrong_type") >= 2);
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_cannot_be_read_costs_its_user_the_view_and_nobody_else_anything() {
    let test = Harness::new("unreadable view").await;
    let other = UserId(79);
    let damages: [(&str, &[u8]); 7] = [
        ("1", b"garbage"),
        ("1", b"\xff|0"),
        ("~token", b"garbage"),
        ("~token", b"1:"),
        ("~token", b"\xff"),
        ("~state", b"x"),
        ("~state", b"\xff"),
    ];
    for (user, (field, text)) in (70..).zip(damages) {
        test.warm(UserId(user)).await;
        test.damage(UserId(user), field, text).await;
    }
    test.warm(other).await;
    let before = testkit::counted("sync_consumer_dropped_views_total", "unreadable");
    let consumer = test.start();
    for user in [70, 71, 72, 73, 74, 75, 76, 79] {
        test.send(&row(1, user)).await;
    }
    test.caught_up().await;
    assert_eq!(test.view.users().await.unwrap(), [other]);
    assert_eq!(test.listed(other).await, ["1_1"]);
    let dropped = testkit::counted("sync_consumer_dropped_views_total", "unreadable") - before;
    assert!(dropped >= damages.len() as u64, "{dropped}");
    consumer.stop().await.unwrap();
}

/// A reader who asks for the list after the later claim must not see a view that lacks the
/// unreadable message's change.
#[tokio::test(flavor = "multi_thread")]
async fn the_view_goes_before_anything_behind_an_undecodable_message_is_applied() {
    let test = Harness::new("poison first").await;
    test.warm(USER).await;
    test.send_raw("70", b"{").await;
    test.send(&row(2, 70)).await;
    let view = &test.scope.endpoints.view_redis_url;
    let proxy = Proxy::before(view).await;
    let mut applied = proxy.hold_request(b"EVALSHA");
    let consumer = test.start_changed(|config| {
        config.view_redis_url = proxy.instead_of(view).parse().unwrap();
    });
    tokio::time::timeout(STATE_MAX, applied.reached()).await.unwrap();
    let users = test.view.users().await.unwrap();
    applied.go_on();
    assert_eq!(users, []);
    test.caught_up().await;
    assert_eq!(test.view.users().await.unwrap(), []);
    consumer.stop().await.unwrap();
}

/// A message that the producer accepts may be too long with the dead letter's headers added.
#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_message_is_put_aside_cut_and_the_rest_goes_on() {
    let test = Harness::new("oversized").await;
    test.warm(USER).await;
    let consumer = test.start();
    let payload = vec![b'x'; 950 * 1024];
    test.send_raw("70", &payload).await;
    let long_key = "7".repeat(200_000);
    let rest = vec![b'x'; 799_850];
    test.send_raw(&long_key, &rest).await;
    test.send(&row(2, 71)).await;
    test.send_raw("70", b"").await;
    test.caught_up().await;
    assert_eq!(test.view.users().await.unwrap(), []);
    let letters = test.dead_letters().await;
    assert_eq!(letters.len(), 3);
    for letter in letters {
        let whole: usize =
            std::str::from_utf8(letter.header("payload-bytes").unwrap()).unwrap().parse().unwrap();
        let kept = letter.payload.unwrap().len();
        assert!([0, payload.len(), rest.len()].contains(&whole), "{whole}");
        assert_eq!(kept, whole.min(900 * 1024));
        assert!(letter.key == b"70" || long_key.as_bytes().starts_with(&letter.key));
    }
    consumer.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_as_long_as_the_broker_takes_is_applied() {
    let test = Harness::new("long").await;
    test.warm(USER).await;
    let consumer = test.start();
    let long = topic::UserCouponRow { order_ref: Some("x".repeat(900 * 1024)), ..row(1, 70) };
    test.send(&long).await;
    test.caught_up().await;
    assert_eq!(test.listed(USER).await, ["1_1"]);
    assert_eq!(test.dead_letters().await.len(), 0);
    consumer.stop().await.unwrap();
}

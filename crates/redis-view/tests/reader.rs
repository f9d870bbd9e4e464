//! "My coupons" from a reader's point of view.

use std::sync::Arc;

use coupon::{CouponId, UserId};
use devstack::{OwnRedis, TestServers};
use redis_view::{
    Begun, CHANGES_PER_CALL, Change, MyCouponsError, Origin, PageAnswer, PageRequest, Rebuilt,
    ViewError, ViewReader,
};

use crate::{
    harness::{TestView, USER, first, now, unused, used},
    mysql::{Down, MySql, PIECE},
};

/// Creates a reader of the view, whose user has these coupons in MySQL.
fn reader_of(view: &TestView, rows: &[Change]) -> ViewReader<MySql> {
    ViewReader::new(view.store.clone(), MySql::with(USER, rows.to_vec()))
}

#[tokio::test]
async fn a_cold_view_is_rebuilt_once_by_a_thousand_readers() {
    let view = TestView::new("single flight").await;
    let mysql = MySql::with(USER, vec![unused(1), used(2)]);
    let reader = Arc::new(ViewReader::new(view.store.clone(), mysql.clone()));
    let readers: Vec<_> = (0..1_000)
        .map(|_| {
            let reader = Arc::clone(&reader);
            tokio::spawn(async move { reader.my_coupons(USER, &first(10)).await.unwrap() })
        })
        .collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap().page.coupons, [unused(1).coupon]);
    }
    assert_eq!(mysql.rebuilds(), 1);
    assert_eq!(view.shown().await, [1]);
}

#[tokio::test]
async fn rebuilds_of_many_users_are_bounded_and_everybody_is_answered() {
    let view = TestView::new("bounded").await;
    let mysql = MySql::default();
    (1..=200).for_each(|user| mysql.commit(UserId(user), vec![unused(user)]));
    let reader = Arc::new(ViewReader::new(view.store.clone(), mysql.clone()));
    let readers: Vec<_> = (1..=200)
        .map(|user| {
            let reader = Arc::clone(&reader);
            tokio::spawn(async move { reader.my_coupons(UserId(user), &first(10)).await.unwrap() })
        })
        .collect();
    for (user, reader) in (1..=200).zip(readers) {
        let answer = reader.await.unwrap();
        assert_eq!(
            (answer.origin, answer.page.coupons),
            (Origin::Rebuild, vec![unused(user).coupon])
        );
    }
    assert!((2..=8).contains(&mysql.most()), "{} at a time", mysql.most());
}

#[tokio::test]
async fn one_lost_key_or_all_of_them_never_change_the_answer() {
    let view = TestView::new("lost keys").await;
    let reader = reader_of(&view, &[unused(1), unused(2)]);
    for lost in [vec![view.list()], vec![view.coupons()], vec![view.list(), view.coupons()]] {
        for origin in [Origin::Rebuild, Origin::View] {
            let answer = reader.my_coupons(USER, &first(10)).await.unwrap();
            assert_eq!(answer.origin, origin);
            assert_eq!(answer.page.coupons, [unused(2).coupon, unused(1).coupon]);
        }
        for key in &lost {
            view.send(&["DEL", key]).await;
        }
    }
}

#[tokio::test]
async fn ones_own_claim_is_answered_by_mysql_until_the_view_knows_it() {
    let view = TestView::new("own claim").await;
    view.rebuild(&[unused(1)]).await;
    let request = PageRequest { after: Some(CouponId(2)), ..first(10) };
    let reader = reader_of(&view, &[unused(1), unused(2)]);
    let answer = reader.my_coupons(USER, &request).await.unwrap();
    assert_eq!((answer.origin, answer.page.coupons.len()), (Origin::Truth, 2));
    view.store.apply(USER, &[unused(2)]).await.unwrap();
    let answer = reader.my_coupons(USER, &request).await.unwrap();
    assert_eq!((answer.origin, answer.page.coupons.len()), (Origin::View, 2));
}

#[tokio::test]
async fn a_key_of_the_wrong_type_is_dropped_and_the_view_comes_back() {
    let view = TestView::new("reader wrong type").await;
    let reader = reader_of(&view, &[unused(1)]);
    view.send(&["SET", &view.list(), "x"]).await;
    let answer = reader.my_coupons(USER, &first(10)).await.unwrap();
    assert_eq!((answer.origin, answer.page.coupons.len()), (Origin::Rebuild, 1));
}

/// Also where only a reader can notice, because no change touches the damage.
#[tokio::test]
async fn a_view_that_cannot_be_read_is_dropped_and_comes_back() {
    let view = TestView::new("reader unreadable").await;
    let reader = reader_of(&view, &[unused(1), unused(2)]);
    let list = view.list();
    let coupons = view.coupons();
    let list = list.as_bytes();
    let coupons = coupons.as_bytes();
    let huge = [b"1|0|1|1|".as_slice(), &[b'1'; 1_000_000], b"|1|0|4000000000000"].concat();
    let damages: [&[&[u8]]; 19] = [
        &[b"HSET", coupons, b"2", b"garbage"],
        &[b"HSET", coupons, b"2", b"2|1"],
        &[b"HSET", coupons, b"2", b""],
        &[b"HSET", coupons, b"2", b"1|0|1|1|x|1|0|4000000000000"],
        &[b"HSET", coupons, b"2", b"1|0|1|1|99999999999999999999|1|0|4000000000000"],
        &[b"HSET", coupons, b"2", b"1|0|1|1|\xff|1|0|4000000000000"],
        &[b"HSET", coupons, b"2", b"1|0|1|1|\0|1|0|4000000000000"],
        &[b"HSET", coupons, b"2", &huge],
        &[b"HDEL", coupons, b"2"],
        &[b"HSET", coupons, b"~token", b"garbage"],
        &[b"HSET", coupons, b"~token", b"\xff"],
        &[b"HSET", coupons, b"~state", b"x"],
        &[b"HSET", coupons, b"~state", b"\xff"],
        &[b"ZADD", list, b"5", b"garbage"],
        &[b"ZADD", list, b"5", b"1_3"],
        &[b"ZADD", list, b"5", b"\xff_2"],
        &[b"ZADD", list, b"5", b"\xff"],
        &[b"ZADD", list, b"inf", b"1_2"],
        &[b"ZADD", list, b"1.5", b"1_2"],
    ];
    for damage in damages {
        view.rebuild(&[unused(1), unused(2)]).await;
        view.send_bytes(damage).await;
        let damage: Vec<_> =
            damage.iter().map(|word| word[..word.len().min(80)].escape_ascii()).collect();
        // A page of one coupon out of two, so that the cursor is read too.
        let answer = reader.my_coupons(USER, &first(1)).await.unwrap();
        assert_eq!(answer.page.coupons, [unused(2).coupon], "{damage:?}");
        assert_eq!(answer.origin, Origin::Rebuild, "{damage:?}");
        assert_eq!(view.shown().await, [2, 1], "{damage:?}");
        view.store.drop_view(USER).await.unwrap();
    }
    assert_eq!(view.connections(), 1, "all users share it");
}

#[tokio::test]
async fn a_key_whose_name_is_no_text_keeps_no_view_from_being_found_and_dropped() {
    let view = TestView::new("key of bytes").await;
    view.rebuild(&[unused(1)]).await;
    let name = [view.list().replace("{7}:list", "{").as_bytes(), b"\xff}:list"].concat();
    view.send_bytes(&[b"SET", &name, b"x"]).await;
    assert_eq!(view.store.users().await.unwrap(), [USER]);
    assert_eq!(view.store.drop_all().await.unwrap(), 1);
    assert_eq!((view.ask().await, view.connections()), (PageAnswer::Cold, 1));
}

/// The rebuild's process may have died, and an unreadable start time never gets old enough.
#[tokio::test]
async fn a_rebuild_whose_beginning_cannot_be_read_does_not_keep_the_next_one_off() {
    let view = TestView::new("unreadable nonce").await;
    let reader = reader_of(&view, &[unused(1)]);
    assert!(matches!(view.store.begin(USER, now()).await.unwrap(), Begun::Begun(_)));
    view.send(&["HSET", &view.coupons(), "~since", "x"]).await;
    let answer = reader.my_coupons(USER, &first(1)).await.unwrap();
    assert_eq!((answer.origin, answer.page.coupons.len()), (Origin::Rebuild, 1));
}

#[tokio::test]
async fn rows_that_cannot_be_read_are_the_callers_error_and_block_nobody() {
    let view = TestView::new("rows fail").await;
    let mysql = MySql::with(USER, vec![unused(1)]);
    let reader = ViewReader::new(view.store.clone(), mysql.clone());
    mysql.set_down(true);
    let answer = reader.my_coupons(USER, &first(10)).await;
    assert!(matches!(answer, Err(MyCouponsError::Rows(Down))));
    mysql.set_down(false);
    // The failed rebuild's nonce is still fresh, so MySQL answers.
    let answer = reader.my_coupons(USER, &first(10)).await.unwrap();
    assert_eq!((answer.origin, answer.page.coupons.len()), (Origin::Truth, 1));
}

#[tokio::test]
async fn a_view_that_cannot_be_reached_costs_no_answer() {
    let view = TestView::new("outage").await;
    view.rebuild(&[unused(1)]).await;
    let (store, proxy) = view.through_a_proxy().await;
    let reader = ViewReader::new(store, MySql::with(USER, vec![unused(1), unused(2)]));
    let answer = reader.my_coupons(USER, &first(10)).await.unwrap();
    assert_eq!((answer.origin, answer.page.coupons.len()), (Origin::View, 1));
    proxy.close();
    for _ in 0..3 {
        let answer = reader.my_coupons(USER, &first(10)).await.unwrap();
        assert_eq!((answer.origin, answer.page.coupons.len()), (Origin::Truth, 2));
    }
}

mod full {
    use super::*;

    /// The server runs one script at a time, so no single script may handle ten thousand coupons.
    #[tokio::test]
    async fn a_cold_list_of_ten_thousand_is_rebuilt_in_steps_between_which_others_are_answered() {
        const COUPONS: i64 = 10_000;
        /// Script calls of a rebuild besides the loads: reading the view, begin, complete; and a repetition of the first
        /// call of each of the four scripts that the server lacks.
        const OTHER_SCRIPTS: u64 = 7;
        let name = TestServers::shared().scope("cold ten thousand").database;
        let server = OwnRedis::view(&name, &[]).await.unwrap();
        let view = TestView::on(server.url(), String::new()).await;
        let all: Vec<_> = (1..=COUPONS).map(unused).collect();
        let reader = reader_of(&view, &all);
        let other = UserId(8);
        let neighbour =
            ViewReader::new(view.another().await, MySql::with(other, vec![unused(COUPONS + 1)]));
        let before = view.costs().await;
        let answer = reader.my_coupons(USER, &first(100)).await.unwrap();
        let newest = |count: i64| (0..count).map(|place| unused(COUPONS - place).coupon);
        assert_eq!(answer.origin, Origin::Truth, "nobody waits for ten thousand rows");
        assert_eq!(answer.page.coupons, newest(100).collect::<Vec<_>>());
        assert_eq!(reader.rebuild(USER, now()).await, Rebuilt::Whole);
        let steps = view.costs().await.script_calls - before.script_calls;
        let loads =
            (COUPONS as u64).div_ceil(PIECE as u64) * PIECE.div_ceil(CHANGES_PER_CALL) as u64;
        assert!(
            (loads..=loads + OTHER_SCRIPTS).contains(&steps),
            "{steps} scripts, {loads} of them load"
        );

        // Once more, while another user reads a short list all the time.
        view.store.drop_view(USER).await.unwrap();
        neighbour.my_coupons(other, &first(100)).await.unwrap();
        let mut answered = 0;
        let look_on = async {
            loop {
                let answer = neighbour.my_coupons(other, &first(100)).await.unwrap();
                assert_eq!(answer.origin, Origin::View);
                answered += 1;
            }
        };
        let rebuilt = tokio::select! {
            rebuilt = reader.rebuild(USER, now()) => rebuilt,
            () = look_on => unreachable!("it looks on for ever"),
        };
        assert_eq!(rebuilt, Rebuilt::Whole);
        assert!(answered >= 10, "{answered} answers to others during {loads} steps");
        // A cursor from MySQL continues in the view.
        let next = PageRequest { cursor: answer.page.next, ..first(100) };
        let answer = reader.my_coupons(USER, &next).await.unwrap();
        assert_eq!(answer.origin, Origin::View);
        assert_eq!(answer.page.coupons, newest(200).skip(100).collect::<Vec<_>>());
    }

    /// A full server takes no change, so its older contents must not be shown for ever.
    #[tokio::test]
    async fn a_full_server_that_does_not_evict_is_not_trusted() {
        let server = OwnRedis::view("full-view", &["--maxmemory", "3mb"]).await.unwrap();
        let view = TestView::on(server.url(), String::new()).await;
        view.rebuild(&[unused(1)]).await;
        view.send(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
        // Ever smaller values fill the last bytes.
        for bytes in [20_000, 1_000, 10] {
            let mut number = 0;
            loop {
                let mut write = redis::cmd("SET");
                write.arg(format!("junk:{bytes}:{number}")).arg("x".repeat(bytes));
                if write.exec_async(&mut view.redis.clone()).await.is_err() {
                    break;
                }
                number += 1;
            }
        }
        view.store.apply(USER, &[used(1)]).await.unwrap_err();
        let reader = reader_of(&view, &[used(1), unused(2)]);
        let answer = reader.my_coupons(USER, &first(10)).await.unwrap();
        assert_eq!((answer.origin, answer.page.coupons), (Origin::Truth, vec![unused(2).coupon]));
        assert!(matches!(view.store.check_fit().await, Err(ViewError::NoEviction)));

        // With room again, it gets the missing change before it is read.
        view.send(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
        view.store.check_fit().await.unwrap();
        view.store.apply(USER, &[used(1)]).await.unwrap();
        let answer = reader.my_coupons(USER, &first(10)).await.unwrap();
        assert!(!answer.page.coupons.contains(&unused(1).coupon), "{answer:?}");
    }
}

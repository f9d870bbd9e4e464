//! Long lists: their rebuilds proceed in pieces after their readers have left, and take no other reader's turn.

use std::sync::Arc;

use chrono::TimeDelta;
use coupon::UserId;
use redis_view::{Begun, Change, Origin, PageAnswer, Rebuilt, ViewReader};

use crate::{
    harness::{TestView, USER, first, now, unused, used},
    mysql::{MySql, PIECE},
};

/// Number of pieces of a long list.
const PIECES: usize = 4;

/// The coupons of a long list.
fn long() -> Vec<Change> {
    (1..=(PIECES * PIECE) as i64).map(unused).collect()
}

/// Returns the ids of the whole view, sorted, or `None` if it is not trusted.
async fn listed(view: &TestView, user: UserId) -> Option<Vec<i64>> {
    let contents = view.store.contents(user).await.unwrap();
    let id = |member: &String| member.rsplit_once('_').unwrap().1.parse().unwrap();
    let mut ids: Vec<i64> = contents.list.keys().map(id).collect();
    ids.sort_unstable();
    contents.trusted.then_some(ids)
}

/// A client with a timeout shorter than a rebuild asks again and again.
#[tokio::test]
async fn a_reader_that_leaves_cancels_no_rebuild() {
    let view = TestView::new("impatient").await;
    let mysql = MySql::with(USER, long());
    let held = mysql.hold();
    let reader = Arc::new(ViewReader::new(view.store.clone(), mysql.clone()));
    for piece in 1..=PIECES {
        let asked = Arc::clone(&reader);
        let leaves = tokio::spawn(async move { asked.rebuild(USER, now()).await });
        let stays = reader.my_coupons(USER, &first(10)).await.unwrap();
        assert_eq!((stays.origin, stays.page.coupons.len()), (Origin::Truth, 10));
        held.waited_for(piece).await;
        leaves.abort();
        assert!(leaves.await.unwrap_err().is_cancelled());
        assert_eq!(view.ask().await, PageAnswer::Cold);
        held.let_go(1);
    }
    drop(held);
    assert_eq!(reader.rebuild(USER, now()).await, Rebuilt::Whole);
    assert_eq!((mysql.rebuilds(), mysql.snapshots()), (1, 1), "it was begun once");
    let answer = reader.my_coupons(USER, &first(10)).await.unwrap();
    assert_eq!((answer.origin, answer.page.coupons.len()), (Origin::View, 10));
}

/// Otherwise each long list would keep its turn until its view is whole.
#[tokio::test]
async fn eight_long_lists_keep_no_short_one_waiting() {
    let view = TestView::new("hot").await;
    let mysql = MySql::default();
    let hot = 100..108;
    let cold = 200..240;
    hot.clone().for_each(|user| mysql.commit(UserId(user), long()));
    cold.clone().for_each(|user| mysql.commit(UserId(user), vec![unused(user)]));
    let held = mysql.hold();
    let reader = Arc::new(ViewReader::new(view.store.clone(), mysql.clone()));
    let ask = |user| {
        let reader = Arc::clone(&reader);
        tokio::spawn(async move { reader.my_coupons(UserId(user), &first(10)).await.unwrap() })
    };
    for answer in hot.clone().map(ask).collect::<Vec<_>>() {
        let answer = answer.await.unwrap();
        assert_eq!((answer.origin, answer.page.coupons.len()), (Origin::Truth, 10));
    }
    held.waited_for(1).await;
    for answer in cold.map(ask).collect::<Vec<_>>() {
        assert_eq!(answer.await.unwrap().origin, Origin::Rebuild);
    }
    assert!(mysql.snapshots() <= 2, "{} long lists at a time", mysql.snapshots());
    drop(held);
    for user in hot {
        assert_eq!(reader.rebuild(UserId(user), now()).await, Rebuilt::Whole);
        assert_eq!(listed(&view, UserId(user)).await.unwrap().len(), PIECES * PIECE);
    }
    assert_eq!(mysql.snapshots(), 8, "each was read once");
}

#[tokio::test]
async fn changes_that_come_between_two_pieces_are_in_the_list_afterwards() {
    let view = TestView::new("between pieces").await;
    let mut rows = long();
    let mysql = MySql::with(USER, rows.clone());
    let held = mysql.hold();
    let reader = Arc::new(ViewReader::new(view.store.clone(), mysql.clone()));
    reader.my_coupons(USER, &first(1)).await.unwrap();
    let [in_first, in_last, new] = [1, rows.len() as i64, rows.len() as i64 + 1];
    held.let_go(1);
    held.waited_for(2).await;
    // The first piece is in the view; the last one was read while all its coupons were unused.
    let changes = [used(in_first), used(in_last), unused(new)];
    rows.push(unused(new));
    changes.iter().for_each(|change| rows[change.coupon.id.0 as usize - 1] = *change);
    mysql.commit(USER, rows.clone());
    view.store.apply(USER, &changes).await.unwrap();
    drop(held);
    assert_eq!(reader.rebuild(USER, now()).await, Rebuilt::Whole);
    assert_eq!(mysql.snapshots(), 1);
    assert_eq!(listed(&view, USER).await.unwrap(), (2..in_last).chain([new]).collect::<Vec<_>>());
}

/// All pieces of a snapshot are of one moment, so the view never has a later change without an earlier one.
#[tokio::test]
async fn a_coupon_that_was_claimed_between_two_pieces_is_not_known_before_the_use_that_came_first()
{
    let view = TestView::new("one moment").await;
    let mut rows = long();
    let mysql = MySql::with(USER, rows.clone());
    let held = mysql.hold();
    let reader = Arc::new(ViewReader::new(view.store.clone(), mysql.clone()));
    reader.my_coupons(USER, &first(1)).await.unwrap();
    held.let_go(1);
    held.waited_for(2).await;
    // Neither change has reached the consumer when the view becomes whole.
    let used_first = used(1);
    let new = rows.len() as i64 + 1;
    rows[0] = used_first;
    rows.push(unused(new));
    mysql.commit(USER, rows);
    drop(held);
    assert_eq!(reader.rebuild(USER, now()).await, Rebuilt::Whole);
    let after = redis_view::PageRequest { after: Some(unused(new).coupon.id), ..first(10) };
    assert_eq!(view.store.page(USER, &after).await.unwrap(), PageAnswer::Unknown);
    view.store.apply(USER, &[used_first, unused(new)]).await.unwrap();
    let answer = reader.my_coupons(USER, &after).await.unwrap();
    assert_eq!((answer.origin, answer.page.coupons[0].id.0), (Origin::View, new));
    assert!(!listed(&view, USER).await.unwrap().contains(&1));
}

/// A process that died between two pieces leaves the same state.
#[tokio::test]
async fn what_is_loaded_of_a_rebuild_that_died_is_never_a_view() {
    let view = TestView::new("died between pieces").await;
    let Begun::Begun(nonce) = view.store.begin(USER, now()).await.unwrap() else { panic!() };
    assert!(view.store.load(USER, nonce, &long()[..PIECE], now()).await.unwrap());
    let reader = ViewReader::new(view.another().await, MySql::with(USER, long()));
    let answer = reader.my_coupons(USER, &first(10)).await.unwrap();
    assert_eq!(
        (answer.origin, answer.page.coupons[0]),
        (Origin::Truth, long()[PIECES * PIECE - 1].coupon)
    );
    assert_eq!(reader.rebuild(USER, now()).await, Rebuilt::Elsewhere, "it may live");
    let later = now() + TimeDelta::seconds(6);
    assert_eq!(reader.rebuild(USER, later).await, Rebuilt::Whole);
    assert!(!view.store.complete(USER, nonce).await.unwrap());
    assert_eq!(listed(&view, USER).await.unwrap().len(), PIECES * PIECE);
}

/// Otherwise two processes could take each other's rebuild for dead and restart it for ever.
#[tokio::test]
async fn a_rebuild_that_takes_long_is_left_alone_while_it_goes_on() {
    let view = TestView::new("takes long").await;
    let Begun::Begun(nonce) = view.store.begin(USER, now()).await.unwrap() else { panic!() };
    for second in 1..=20 {
        let at = now() + TimeDelta::seconds(second);
        assert!(view.store.load(USER, nonce, &[unused(second)], at).await.unwrap());
        let other = at + TimeDelta::seconds(4);
        assert_eq!(view.store.begin(USER, other).await.unwrap(), Begun::Busy);
    }
    assert!(view.store.complete(USER, nonce).await.unwrap());
    assert_eq!(listed(&view, USER).await.unwrap(), (1..=20).collect::<Vec<_>>());
}

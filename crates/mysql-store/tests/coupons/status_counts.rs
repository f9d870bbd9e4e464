//! Counting a template's coupons by status, piece by piece.

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use mysql_store::{
    returns::Cause,
    status_counts::{self, StatusCounts},
    user_coupon,
};

use crate::{
    coupons::returns::{by, give_back, held, holding, ids, passed},
    harness::{Store, TEMPLATE, USER, execute, landing, landing_of, now},
};

/// Counts a template's coupons in pieces of `rows_max`. Returns the counts and the number of pieces.
async fn counted(store: &mut Store, rows_max: u32, later: TimeDelta) -> (StatusCounts, u32) {
    let mut counts = StatusCounts::default();
    let mut after = None;
    let mut pieces = 0;
    loop {
        let at = now() + later;
        let connection = &mut store.connection;
        let piece =
            status_counts::add_piece(connection, TEMPLATE, after, rows_max, at, &mut counts);
        after = piece.await.unwrap();
        pieces += 1;
        if after.is_none() {
            return (counts, pieces);
        }
    }
}

#[tokio::test]
async fn coupons_are_counted_once_whatever_the_pieces_and_an_overdue_one_is_expired() {
    let mut store = Store::with_template("status counts", 100).await;
    let other = TemplateId(11);
    store.publish(other, 10).await;
    assert_eq!(counted(&mut store, 10, TimeDelta::zero()).await.0, StatusCounts::default());
    // One user with several coupons, so that a piece ends among them, and others around.
    let own = landing("a", &[1, 2, 3, 4, 5]);
    let used = own.landed.coupons[0].id;
    let more = [1, 69, 71, 72].map(|user| landing_of(TEMPLATE, UserId(user), "b", &[1]));
    let foreign = landing_of(other, USER, "c", &[1]);
    for landing in [own, foreign].into_iter().chain(more) {
        store.land(&[landing]).await;
    }
    let at = now() + TimeDelta::seconds(1);
    user_coupon::use_for_order(&mut store.connection, USER, used, "order", at).await.unwrap();

    let wanted = StatusCounts { unused: 8, used: 1, ..StatusCounts::default() };
    for rows_max in [1, 2, 3, 4, 8, 9, 100] {
        let (counts, pieces) = counted(&mut store, rows_max, TimeDelta::zero()).await;
        assert_eq!((counts, counts.all()), (wanted, 9), "by {rows_max}");
        assert_eq!(pieces, 9 / rows_max + 1, "by {rows_max}");
    }
    let wanted = StatusCounts { used: 1, expired: 8, ..StatusCounts::default() };
    assert_eq!(counted(&mut store, 100, TimeDelta::days(4_000)).await.0, wanted);
}

#[tokio::test]
async fn what_is_held_lapsed_or_cancelled_is_counted_as_that() {
    let mut store = holding("status counts of holds", 100).await;
    let ahead = now() + TimeDelta::days(1);
    let over = held("over", &[1, 2], passed());
    let lapsed = ids(&over);
    // One hold is over and marked, one is over and not yet marked; of two others one is cancelled and one confirmed.
    for landing in [over, held("a", &[3, 4, 5], ahead), landing("b", &[6])] {
        store.land(&[landing]).await;
    }
    give_back(&store, by(Cause::Lapse), &lapsed[..1]).await.unwrap();
    let one = "update user_coupon set version = version + 1, status =";
    for (status, number) in [(3, 3), (9, 4)] {
        execute(&mut store.connection, &format!("{one} {status} where claim_no = {number}")).await;
    }
    let wanted = StatusCounts {
        unused: 1,
        cancelled: 1,
        held: 1,
        lapsed: 2,
        others: 1,
        ..StatusCounts::default()
    };
    let (counts, _) = counted(&mut store, 100, TimeDelta::zero()).await;
    assert_eq!((counts, counts.all()), (wanted, 6));
}

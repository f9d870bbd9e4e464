//! What became of a template that holds its coupons.

use chrono::TimeDelta;
use coupon::{CouponStatus, ReturnedStock};
use mysql_store::{
    Listed,
    history::{self, BehindCoupon},
    landing::Attempt,
    returns::{Cause, Return},
    stock::Kind,
};

use crate::{
    coupons::returns::{by, give_back, held, holding, ids, passed},
    harness::{TEMPLATE, USER, now},
};

#[tokio::test]
async fn returned_coupons_keep_their_numbers_in_lists_and_movements_say_what_they_are() {
    let mut store = holding("history of holds", 9).await;
    let over = held("a", &[1, 2], passed());
    let open = held("b", &[3], now() + TimeDelta::minutes(5));
    assert_eq!(store.land(&[over.clone(), open.clone()]).await, Attempt::Landed);
    give_back(&store, by(Cause::Lapse), &ids(&over)).await.unwrap().unwrap();
    let retire = Return { returned_stock: ReturnedStock::Retire, ..by(Cause::Shop) };
    give_back(&store, retire, &ids(&open)).await.unwrap().unwrap();
    let again = held("c", &[1], now() + TimeDelta::minutes(5));
    assert_eq!(store.land(std::slice::from_ref(&again)).await, Attempt::Landed);

    let connection = &mut store.connection;
    let movements = history::movements(connection, TEMPLATE, 0, 9).await.unwrap();
    let movements = movements.into_iter().map(|line| line.into_row().unwrap());
    let kinds: Vec<_> = movements.map(|line| (line.kind, line.delta, line.delta_stock)).collect();
    assert_eq!(kinds, [(Kind::Total, 9, 9), (Kind::Return, 0, 2), (Kind::Return, -1, 0)]);

    // Pages of one coupon each: the live number first, then what came back, by id.
    let mut shown = Vec::new();
    let mut behind = None;
    loop {
        let page = history::coupons(connection, TEMPLATE, Some(USER), behind, 1).await.unwrap();
        let [line] = &page[..] else { break };
        let line = line.row().unwrap();
        shown.push((line.id, line.number(), line.status));
        behind = Some(BehindCoupon { user: line.user_id, number: line.claim_no });
    }
    let all = history::coupons(connection, TEMPLATE, None, None, 9).await.unwrap();
    let all = all.iter().filter_map(Listed::row).map(|c| (c.id, c.number(), c.status));
    assert_eq!(shown, all.collect::<Vec<_>>());
    assert_eq!(shown.remove(0), (ids(&again)[0], 1, CouponStatus::Held));
    let lapsed = CouponStatus::Lapsed;
    let cancelled = CouponStatus::Cancelled;
    let [one, two] = ids(&over)[..] else { panic!("{over:?}") };
    let mut back = [(one, 1, lapsed), (two, 2, lapsed), (ids(&open)[0], 3, cancelled)];
    back.sort_unstable_by_key(|coupon| coupon.0);
    assert_eq!(shown, back);
}

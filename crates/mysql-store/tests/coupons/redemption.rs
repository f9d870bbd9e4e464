//! What coupons were redeemed for: rows that are only added, sums over what stands, orders, locks.

use coupon::{CouponId, RedemptionId};
use mysql_store::{
    checkout,
    redemption::{self, Money, New, OrderCounts},
    redemption_batch,
    redemption_order::{self, Hold, OrderName, Redeemed},
    redemption_totals::{self, Totals},
    user_coupon::{self, Use, UserCoupon},
};

use crate::harness::{
    MERCHANT, Store, TEMPLATE, USER, execute, id_of, landing, next_id, now, number, waits_for_a_row,
};

const ORDER: OrderName<'static> = OrderName { merchant_id: MERCHANT, order_ref: "o" };

/// Sums up in pieces of `rows_max`.
async fn totals(store: &mut Store, rows_max: u32) -> Totals {
    let mut totals = Totals::default();
    let mut after = None;
    loop {
        let connection = &mut store.connection;
        let piece =
            redemption_totals::add_piece(connection, TEMPLATE, after, rows_max, &mut totals);
        after = piece.await.unwrap();
        if after.is_none() {
            return totals;
        }
    }
}

async fn redeemed(store: &mut Store, id: CouponId, discount: i64) -> UserCoupon {
    let used = user_coupon::use_for_order(&mut store.connection, USER, id, "o", now()).await;
    let Use::Used(coupon) = used.unwrap() else { panic!("it is used") };
    let money = Money { amount: 5_000, discount, currency: "EUR".to_owned() };
    let new = New {
        id: RedemptionId(next_id()),
        coupon: &coupon,
        order_ref: "o",
        money: Some(&money),
        actor: "platform",
        at: now(),
    };
    redemption::add(&mut store.connection, new).await.unwrap();
    coupon
}

#[tokio::test]
async fn a_redemption_stands_until_its_one_rollback_and_sums_are_of_what_stands() {
    let mut store = Store::with_template("redemption", 10).await;
    let landing = landing("a", &[1, 2]);
    let ids: Vec<CouponId> = landing.landed.coupons.iter().map(|coupon| coupon.id).collect();
    store.land(&[landing]).await;
    assert_eq!(totals(&mut store, 1).await, Totals::default());
    let first = redeemed(&mut store, ids[0], 300).await;
    let second = redeemed(&mut store, ids[1], 200).await;
    let both = Totals { redeemed: 2, discount: 500, revenue: 4_500 };
    for rows_max in [1, 2, 3] {
        assert_eq!(totals(&mut store, rows_max).await, both, "the order's revenue counts once");
    }
    let beside = redemption::beside(&mut store.connection, ORDER, &second).await.unwrap();
    assert_eq!(beside, [first.id]);
    let other = OrderName { order_ref: "O", ..ORDER };
    assert_eq!(redemption::of_order(&mut store.connection, other).await.unwrap(), []);
    let made_by = async |store: &mut Store, order_ref: &str| {
        redemption::made_by(&mut store.connection, first.id, order_ref).await.unwrap()
    };
    assert_eq!(made_by(&mut store, "o").await.as_deref(), Some("platform"));
    assert_eq!(made_by(&mut store, "O").await, None, "byte by byte");

    for reason in ["the first", "the second"] {
        let id = RedemptionId(next_id());
        let why = Some(reason);
        let connection = &mut store.connection;
        redemption::roll_back(connection, id, first.id, "o", "platform", why, now()).await.unwrap();
    }
    let rollbacks = "select count(*) from redemption where kind = 2";
    assert_eq!(number(&mut store.connection, rollbacks).await, 1);
    assert_eq!(made_by(&mut store, "o").await, None);
    let made = redemption::of_order(&mut store.connection, ORDER).await.unwrap();
    let reasons: Vec<_> = made.iter().map(|one| one.rolled_back.as_ref()?.reason.clone()).collect();
    assert_eq!(reasons, [Some("the first".to_owned()), None]);
    let left = Totals { redeemed: 1, discount: 200, revenue: 4_800 };
    for rows_max in [1, 2, 3] {
        assert_eq!(totals(&mut store, rows_max).await, left);
    }
    let connection = &mut store.connection;
    let counts = redemption::count(connection, ORDER).await.unwrap();
    assert_eq!(counts, OrderCounts { made: 2, standing: 1 });
    let standing = redemption::standing(connection, ORDER).await.unwrap();
    assert_eq!(standing.iter().map(|one| one.coupon_id).collect::<Vec<_>>(), [second.id]);
    let named = redemption::of_coupons(connection, ORDER, &[first.id, first.id]).await.unwrap();
    assert_eq!(named, [made[0].clone()]);
    for (coupon, name, given_back) in
        [(first.id, ORDER, true), (second.id, ORDER, false), (first.id, other, false)]
    {
        let was = redemption::was_given_back(connection, name, coupon).await.unwrap();
        assert_eq!(was, given_back);
    }
    assert_eq!(redemption::beside(&mut store.connection, ORDER, &second).await.unwrap(), []);
}

/// Otherwise the sum of an order that was redeemed together would lack the redemptions after them.
#[tokio::test]
async fn a_thousand_single_uses_under_the_same_name_hide_nothing_that_was_redeemed_together() {
    let mut store = Store::with_template("many names", 10).await;
    let landing = landing("a", &[1]);
    let ids: Vec<CouponId> = landing.landed.coupons.iter().map(|coupon| coupon.id).collect();
    store.land(&[landing]).await;
    let digits = "(select 0 as n union select 1 union select 2 union select 3 union select 4 \
                  union select 5 union select 6 union select 7 union select 8 union select 9)";
    let single = format!(
        "insert into redemption (id, kind, merchant_id, order_ref, coupon_id, template_id, user_id, \
         actor, created_at) select a.n + 10 * b.n + 100 * c.n + 1000 * d.n - 10000, 1, {MERCHANT}, 'o', 1, \
         {TEMPLATE}, 99, 'platform', now() from {digits} a join {digits} b join {digits} c \
         join {digits} d where d.n < 2"
    );
    execute(&mut store.connection, &single).await;
    let made = redeemed(&mut store, ids[0], 300).await;
    let connection = &mut store.connection;
    let together = redemption::together(connection, ORDER, USER).await.unwrap();
    assert_eq!(together.iter().map(|one| one.coupon_id).collect::<Vec<_>>(), [made.id]);
    let known = redemption_batch::known_orders(connection, MERCHANT, &["o", "p"]).await.unwrap();
    assert_eq!(known, ["o"]);
}

#[tokio::test]
async fn an_order_remembers_its_request_and_its_first_cancellation() {
    let mut store = Store::new("redemption order").await;
    let connection = &mut store.connection;
    assert_eq!(redemption_order::find(connection, ORDER).await.unwrap(), None);
    assert_eq!(redemption_order::hold(connection, ORDER, Hold::Alone).await.unwrap(), None);
    for is_new in [true, false] {
        assert_eq!(redemption_order::add(connection, ORDER, now()).await.unwrap(), is_new);
    }
    for how in [Hold::Shared, Hold::Alone] {
        let order = redemption_order::hold(connection, ORDER, how).await.unwrap().unwrap();
        assert_eq!((order.redeemed, order.cancelled_at), (None, None));
    }
    let redeemed = Redeemed {
        digest: [7; 32],
        user_id: USER,
        amount: 5_000,
        currency: "EUR".to_owned(),
        at: now(),
    };
    redemption_order::record(connection, ORDER, &redeemed).await.unwrap();
    for later in [0, 1] {
        let at = now() + chrono::TimeDelta::seconds(later);
        let is_new = redemption_order::cancel(connection, ORDER, at).await.unwrap();
        assert_eq!(is_new, later == 0);
    }
    let order = redemption_order::find(connection, ORDER).await.unwrap().unwrap();
    assert_eq!((order.redeemed, order.cancelled_at), (Some(redeemed), Some(now())));
}

#[tokio::test]
async fn an_order_is_shared_by_those_who_ask_for_that_and_the_others_wait() {
    let mut store = Store::new("order locks").await;
    let mut first = store.another().await;
    let mut second = store.another().await;
    assert!(redemption_order::add(&mut first, ORDER, now()).await.unwrap());
    for connection in [&mut first, &mut second] {
        execute(connection, "begin").await;
        let held = redemption_order::hold(connection, ORDER, Hold::Shared).await.unwrap();
        assert!(held.is_some(), "neither waits");
    }
    let mut third = store.another().await;
    let id = id_of(&mut third).await;
    let alone = tokio::spawn(async move {
        redemption_order::hold(&mut third, ORDER, Hold::Alone).await.unwrap().unwrap()
    });
    waits_for_a_row(&mut store.connection, id).await;
    execute(&mut second, "rollback").await;
    execute(&mut first, "rollback").await;
    assert_eq!(alone.await.unwrap().cancelled_at, None);
}

#[tokio::test]
async fn a_lock_is_an_orders_until_it_lapses_or_is_lifted() {
    let mut store = Store::with_template("coupon lock", 10).await;
    let landing = landing("a", &[1]);
    let id = landing.landed.coupons[0].id;
    store.land(&[landing]).await;
    let connection = &mut store.connection;
    let until = checkout::lock(connection, id, "o", 60_000).await.unwrap();
    let terms = checkout::terms(connection, &[id]).await.unwrap().remove(0);
    let lock = terms.lock.unwrap();
    assert_eq!((lock.order_ref.as_str(), lock.until, terms.stackable), ("o", until, true));
    // A cancelled order's lock does not count, and neither does another order's cancellation.
    let other = OrderName { order_ref: "O", ..ORDER };
    for (name, is_kept) in [(other, true), (ORDER, false)] {
        assert!(redemption_order::add(connection, name, now()).await.unwrap());
        redemption_order::cancel(connection, name, now()).await.unwrap();
        let terms = checkout::terms(connection, &[id]).await.unwrap().remove(0);
        assert_eq!(terms.lock.is_some(), is_kept);
    }
    execute(connection, "update redemption_order set cancelled_at = null").await;
    checkout::unlock(connection, id, "O").await.unwrap();
    assert_eq!(number(connection, "select count(*) from coupon_lock").await, 1);
    execute(connection, "update coupon_lock set locked_until = utc_timestamp(3)").await;
    assert_eq!(checkout::terms(connection, &[id]).await.unwrap()[0].lock, None);
    checkout::unlock(connection, id, "o").await.unwrap();
    assert_eq!(number(connection, "select count(*) from coupon_lock").await, 0);
    assert_eq!(checkout::lock_rows(connection, MERCHANT, &[id, id]).await.unwrap().len(), 1);
    assert_eq!(checkout::find(connection, coupon::MerchantId(2), id).await.unwrap(), None);
}

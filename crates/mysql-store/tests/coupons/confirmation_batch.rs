//! Payments that are confirmed together: plain cases are, and every other one is left as it was.

use chrono::TimeDelta;
use coupon::{CouponId, MerchantId};
use mysql_store::{
    confirmation::Payment,
    confirmation_batch, connect,
    landing::{Attempt, Landing},
    returns::Cause,
};

use crate::{
    coupons::returns::{by, confirm_some, give_back, held, holding, ids, passed},
    harness::{MERCHANT, Store, TEMPLATE, execute, landing, now, number},
};

const USABLE: &str = "select count(*) from user_coupon where status = 0 and version = 2";
const PAYMENTS: &str = "select count(*) from coupon_payment";

fn payment<'a>(payment_ref: &'a str, of: &Landing, coupons: &'a [CouponId]) -> Payment<'a> {
    let (claim, template) = (of.landed.id, TEMPLATE);
    Payment { merchant: MERCHANT, payment_ref, claim, template, coupons, now: now() }
}

/// Confirms payments together, and returns the positions of those that are; `None` if each is to go by itself.
async fn together(store: &Store, payments: &[Payment<'_>]) -> Option<Vec<usize>> {
    let pool = connect::pool(&store.url, 1).await.unwrap();
    let mut transaction = connect::begin(&pool).await.unwrap();
    let confirmed = confirmation_batch::confirm_all(&mut transaction, payments).await.unwrap();
    if confirmed.is_some() {
        connect::commit(transaction).await.unwrap();
    }
    let confirmed = confirmed?;
    for (at, coupons) in &confirmed {
        assert_eq!(coupons.len(), payments[*at].coupons.len());
        assert!(coupons.iter().all(|one| one.valid_until == now() + TimeDelta::days(1)));
    }
    Some(confirmed.into_iter().map(|(at, _)| at).collect())
}

#[tokio::test]
async fn plain_payments_are_confirmed_together_and_no_other_one_is_touched() {
    let mut store = holding("together", 20).await;
    let soon = now() + TimeDelta::minutes(5);
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut all: Vec<Landing> = keys
        .into_iter()
        .zip(1..)
        .map(|(key, number)| held(key, &[2 * number - 1, 2 * number], soon))
        .collect();
    // Its hold is over.
    all[2].landed.held_until = Some(passed());
    all.push(landing("i", &[40]));
    assert_eq!(store.land(&all).await, Attempt::Landed);
    let ids: Vec<Vec<CouponId>> = all.iter().map(ids).collect();
    give_back(&store, by(Cause::User), &ids[3][1..]).await.unwrap();
    confirm_some(&store, "used", &all[4], &ids[4]).await;
    assert_eq!(number(&mut store.connection, USABLE).await, 2);
    let payments = [
        payment("1", &all[0], &ids[0]),
        payment("2", &all[1], &ids[1][..1]),
        payment("3 is over", &all[2], &ids[2]),
        payment("4 has one that was given up", &all[3], &ids[3]),
        payment("5 is paid for", &all[4], &ids[4]),
        payment("6 is of another claim", &all[0], &ids[5]),
        payment("7 was never held", &all[8], &ids[8]),
        payment("8", &all[6], &ids[6]),
        payment("used", &all[7], &ids[7]),
    ];
    assert_eq!(together(&store, &payments).await, Some(vec![0, 1, 7]));
    let connection = &mut store.connection;
    assert_eq!(number(connection, USABLE).await, 2 + 5);
    assert_eq!(number(connection, PAYMENTS).await, 4);
    let recorded = "select count(*) from coupon_payment where payment_ref in ('1', '2', '8')";
    assert_eq!(number(connection, recorded).await, 3);
    // Another merchant's name for it: the coupons are not his.
    let stranger = MerchantId(MERCHANT.0 + 1);
    let payments = [Payment { merchant: stranger, ..payment("9", &all[5], &ids[5]) }];
    assert_eq!(together(&store, &payments).await, Some(vec![]));
    assert_eq!(number(&mut store.connection, PAYMENTS).await, 4);
}

#[tokio::test]
async fn a_coupon_that_another_transaction_holds_keeps_no_payment_waiting() {
    let mut store = holding("together free", 9).await;
    let soon = now() + TimeDelta::minutes(5);
    let all = [held("a", &[1], soon), held("b", &[2], soon)];
    assert_eq!(store.land(&all).await, Attempt::Landed);
    let ids: Vec<Vec<CouponId>> = all.iter().map(ids).collect();
    let pool = connect::pool(&store.url, 1).await.unwrap();
    let mut holder = connect::begin(&pool).await.unwrap();
    let lock = format!("select * from user_coupon where id = {} for update", ids[0][0]);
    execute(&mut holder, &lock).await;
    let payments = [payment("1", &all[0], &ids[0]), payment("2", &all[1], &ids[1])];
    assert_eq!(together(&store, &payments).await, Some(vec![1]));
    drop(holder);
    assert_eq!(together(&store, &payments[..1]).await, Some(vec![0]));
    assert_eq!(together(&store, &payments).await, Some(vec![]), "both are stored");
    assert_eq!(number(&mut store.connection, PAYMENTS).await, 2);
}

//! Payments that are confirmed together: plain ones are confirmed, and all others are left unchanged.

use chrono::TimeDelta;
use coupon::{ClaimId, CouponId, MerchantId, UserId};
use mysql_store::{
    confirmation_batch::{self, RequestedPayment},
    connect,
    landing::{Attempt, Landing},
    returns::Cause,
};

use crate::{
    coupons::returns::{by, confirm_some, give_back, held, holding, ids, passed},
    harness::{
        MERCHANT, Store, TEMPLATE, execute, landing, landing_of, now, number, session_status,
    },
};

const USABLE: &str = "select count(*) from user_coupon where status = 0 and version = 2";
const PAYMENTS: &str = "select count(*) from coupon_payment";

fn payment<'a>(
    payment_ref: &'a str,
    of: &Landing,
    coupons: &'a [CouponId],
) -> RequestedPayment<'a> {
    RequestedPayment { payment_ref, claim: of.landed.id, coupons: Some(coupons), actor: "key:7" }
}

fn whole<'a>(payment_ref: &'a str, of: &Landing) -> RequestedPayment<'a> {
    RequestedPayment { payment_ref, claim: of.landed.id, coupons: None, actor: "key:7" }
}

/// Confirms payments together. Returns the positions of the confirmed ones with their coupons; `None` if each must be
/// confirmed alone.
async fn together(
    store: &Store,
    merchant: MerchantId,
    payments: &[RequestedPayment<'_>],
) -> Option<Vec<(usize, Vec<CouponId>)>> {
    let pool = connect::pool(&store.url, 1).await.unwrap();
    let mut transaction = connect::begin(&pool).await.unwrap();
    let confirmed =
        confirmation_batch::confirm_all(&mut transaction, merchant, payments, now()).await.unwrap();
    if confirmed.is_some() {
        connect::commit(transaction).await.unwrap();
    }
    let one = |(at, coupons): confirmation_batch::Confirmed| {
        assert!(coupons.iter().all(|one| one.valid_until == now() + TimeDelta::days(1)));
        (at, coupons.iter().map(|coupon| coupon.id).collect())
    };
    Some(confirmed?.into_iter().map(one).collect())
}

#[tokio::test]
async fn plain_payments_are_confirmed_together_and_no_other_one_is_touched() {
    let mut store = holding("together", 20).await;
    let soon = now() + TimeDelta::minutes(5);
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let mut all: Vec<Landing> = keys
        .into_iter()
        .zip(1..)
        .map(|(key, number)| held(key, &[2 * number - 1, 2 * number], soon))
        .collect();
    // Its hold is over.
    all[2].landed.held_until = Some(passed());
    all.push(landing("j", &[40]));
    assert_eq!(store.land(&all).await, Attempt::Landed);
    let ids: Vec<Vec<CouponId>> = all.iter().map(ids).collect();
    give_back(&store, by(Cause::User), &ids[3][1..]).await.unwrap();
    confirm_some(&store, "used", &all[4], &ids[4]).await;
    assert_eq!(number(&mut store.connection, USABLE).await, 2);
    let payments = [
        payment("1", &all[0], &ids[0]),
        payment("2", &all[1], &ids[1][..1]),
        payment("3 is over", &all[2], &ids[2]),
        whole("4 has one that was given up", &all[3]),
        whole("5 is paid for", &all[4]),
        payment("6 names another claim's", &all[5], &ids[0]),
        whole("7 was never held", &all[9]),
        whole("8", &all[6]),
        RequestedPayment {
            payment_ref: "9 is for no claim",
            claim: ClaimId(9),
            coupons: None,
            actor: "key:7",
        },
        whole("used", &all[7]),
    ];
    let expected = vec![(0, ids[0].clone()), (1, ids[1][..1].to_vec()), (7, ids[6].clone())];
    assert_eq!(together(&store, MERCHANT, &payments).await, Some(expected));
    let connection = &mut store.connection;
    assert_eq!(number(connection, USABLE).await, 2 + 5);
    assert_eq!(number(connection, PAYMENTS).await, 4);
    let recorded = "select count(*) from coupon_payment where payment_ref in ('1', '2', '8')";
    assert_eq!(number(connection, recorded).await, 3);
    // A payment of another merchant, to whom the coupons do not belong.
    let stranger = MerchantId(MERCHANT.0 + 1);
    assert_eq!(together(&store, stranger, &[whole("9", &all[5])]).await, Some(vec![]));
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
    let of = |at: usize| (at, ids[at].clone());
    assert_eq!(together(&store, MERCHANT, &payments).await, Some(vec![of(1)]));
    drop(holder);
    assert_eq!(together(&store, MERCHANT, &payments[..1]).await, Some(vec![of(0)]));
    assert_eq!(together(&store, MERCHANT, &payments).await, Some(vec![]), "both are stored");
    assert_eq!(number(&mut store.connection, PAYMENTS).await, 2);
}

/// Statements that the session of a transaction has run.
const RUN: &str = "com_stmt_execute";

#[tokio::test]
async fn a_payment_more_in_a_transaction_costs_no_statement_more() {
    let mut store = holding("together statements", 65).await;
    let soon = now() + TimeDelta::minutes(5);
    let all: Vec<Landing> = (1..=65).map(|n| held(&format!("key-{n}"), &[n], soon)).collect();
    assert_eq!(store.land(&all).await, Attempt::Landed);
    let refs: Vec<String> = (100..165).map(|n| format!("pay-{n}")).collect();
    let payments: Vec<RequestedPayment<'_>> =
        refs.iter().zip(&all).map(|(payment_ref, of)| whole(payment_ref, of)).collect();
    let pool = connect::pool(&store.url, 1).await.unwrap();
    let mut counts = Vec::new();
    for payments in [&payments[..1], &payments[1..]] {
        let mut transaction = connect::begin(&pool).await.unwrap();
        let before = session_status(&mut transaction, RUN).await;
        let confirmed =
            confirmation_batch::confirm_all(&mut transaction, MERCHANT, payments, now()).await;
        assert_eq!(confirmed.unwrap().unwrap().len(), payments.len());
        counts.push(session_status(&mut transaction, RUN).await - before);
        connect::commit(transaction).await.unwrap();
    }
    assert_eq!(counts[0], counts[1], "of one payment and of 64");
    assert_eq!(number(&mut store.connection, USABLE).await, 65);
}

#[tokio::test]
async fn payments_for_more_coupons_than_a_transaction_may_lock_are_left_out() {
    let mut store = holding("together bounded", 600).await;
    let soon = now() + TimeDelta::minutes(5);
    // A hundred coupons each, of six users.
    let numbers: Vec<u8> = (1..=100).collect();
    let all: Vec<Landing> = (0..6)
        .map(|user| {
            let mut one = landing_of(TEMPLATE, UserId(user + 1), "a", &numbers);
            one.landed.held_until = Some(soon);
            one
        })
        .collect();
    assert_eq!(store.land(&all).await, Attempt::Landed);
    let refs: Vec<String> = (1..=6).map(|n| format!("pay-{n}")).collect();
    let payments: Vec<RequestedPayment<'_>> =
        refs.iter().zip(&all).map(|(payment_ref, of)| whole(payment_ref, of)).collect();
    let positions = |confirmed: Option<Vec<(usize, Vec<CouponId>)>>| -> Vec<usize> {
        confirmed.unwrap().into_iter().map(|(at, _)| at).collect()
    };
    let first = positions(together(&store, MERCHANT, &payments).await);
    assert_eq!(first, [0, 1, 2, 3, 4]);
    let rest = positions(together(&store, MERCHANT, &payments).await);
    assert_eq!(rest, [5], "the sixth is as it was");
}

//! Returns and confirmations: units and numbers come back once, payments are taken once, and only one of the two wins.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponId, CouponStatus, HoldTerms, Lapses, Returned, ReturnedStock, Template};
use mysql_store::{
    StoreError,
    confirmation::{self, Confirmation, Payment},
    connect,
    landing::{Attempt, Landing},
    look_up::{self, ClaimFate},
    returns::{self, Cause, GivenBack, Return},
    settings, stock,
    user_coupon::{self, Use},
};

use testkit::{sql_time, until_true};

use crate::harness::{
    MERCHANT, Store, TEMPLATE, USER, draft, execute, landing, landing_of, now, number,
};

/// Coupons of a landing, held until `until`.
pub(crate) fn held(key: &str, numbers: &[u8], until: DateTime<Utc>) -> Landing {
    let mut landing = landing(key, numbers);
    landing.landed.held_until = Some(until);
    landing
}

pub(crate) fn ids(landing: &Landing) -> Vec<CouponId> {
    landing.landed.coupons.iter().map(|coupon| coupon.id).collect()
}

/// A published template that holds its coupons.
pub(crate) async fn holding(name: &str, stock: i64) -> Store {
    let mut store = Store::new(name).await;
    let hold = HoldTerms { hold: Some(TimeDelta::minutes(5)), ..HoldTerms::default() };
    store.publish_as(&Template { hold, ..draft(TEMPLATE) }, stock).await;
    store
}

/// A time that has passed by every clock.
pub(crate) fn passed() -> DateTime<Utc> {
    DateTime::from_timestamp(1_000_000_000, 0).unwrap()
}

pub(crate) fn by(cause: Cause) -> Return<'static> {
    Return {
        template: TEMPLATE,
        returned_stock: ReturnedStock::Resell,
        cause,
        reason: "r",
        actor: "test",
        now: now(),
    }
}

pub(crate) async fn give_back(
    store: &Store,
    what: Return<'_>,
    ids: &[CouponId],
) -> Result<Option<GivenBack>, StoreError> {
    let pool = connect::pool(&store.url, 1).await.unwrap();
    let mut transaction = connect::begin(&pool).await.unwrap();
    let given_back = what.of(&mut transaction, ids).await?;
    connect::commit(transaction).await?;
    Ok(given_back)
}

/// Once a hold is over by MySQL's clock it is not confirmed, however long the payment has waited.
#[tokio::test]
async fn a_payment_that_waited_for_a_lock_until_the_hold_was_over_is_refused() {
    let mut store = holding("waited", 2).await;
    let server_now = settings::server_time(&mut store.connection).await.unwrap();
    let ends_at = server_now + TimeDelta::milliseconds(1_500);
    let one = held("a", &[1], ends_at);
    assert_eq!(store.land(std::slice::from_ref(&one)).await, Attempt::Landed);
    let pool = connect::pool(&store.url, 2).await.unwrap();
    let mut holder = connect::begin(&pool).await.unwrap();
    execute(&mut holder, "select * from user_coupon for update").await;
    let paid = tokio::spawn({
        let url = store.url.clone();
        let one = one.clone();
        async move { try_confirm(&url, "pay-1", &one, &ids(&one), server_now).await }
    });
    // The lock is held until MySQL's clock is past the end.
    let is_over = format!("select utc_timestamp(3) >= {}", sql_time(ends_at));
    until_true(async || number(&mut store.connection, &is_over).await == 1).await;
    assert!(!paid.is_finished(), "it waits");
    drop(holder);
    let paid = paid.await.unwrap();
    assert!(matches!(paid, Confirmation::Lapsed { .. }), "{paid:?}");
    assert_balanced(&mut store).await;
}

async fn confirm(store: &Store, payment_ref: &str, of: &Landing) -> Confirmation {
    confirm_some(store, payment_ref, of, &ids(of)).await
}

pub(crate) async fn confirm_some(
    store: &Store,
    payment_ref: &str,
    of: &Landing,
    coupons: &[CouponId],
) -> Confirmation {
    try_confirm(&store.url, payment_ref, of, coupons, now()).await
}

async fn try_confirm(
    url: &str,
    payment_ref: &str,
    of: &Landing,
    coupons: &[CouponId],
    now: DateTime<Utc>,
) -> Confirmation {
    let payment = Payment {
        actor: "platform",
        merchant: MERCHANT,
        payment_ref,
        claim: of.landed.id,
        template: TEMPLATE,
        coupons,
        now,
    };
    let pool = connect::pool(url, 1).await.unwrap();
    let mut transaction = connect::begin(&pool).await.unwrap();
    let confirmation = confirmation::confirm(&mut transaction, &payment).await.unwrap();
    if matches!(confirmation, Confirmation::Confirmed(_)) {
        connect::commit(transaction).await.unwrap();
    }
    confirmation
}

/// I2 and I15: the stock is the total less what has not come back, and what the movements and landings leave of it.
async fn assert_balanced(store: &mut Store) {
    let connection = &mut store.connection;
    let stock = stock::get(connection, TEMPLATE).await.unwrap().unwrap();
    let live = number(connection, "select count(*) from user_coupon where issued_no is null").await;
    assert_eq!(stock.total - stock.stock, live);
    let moved =
        number(connection, "select sum(coalesce(delta_stock, delta)) from stock_movement").await;
    let landed = number(connection, "select coalesce(sum(quantity), 0) from claim where state = 1");
    assert_eq!(stock.stock, moved - landed.await);
    let total = number(connection, "select sum(delta) from stock_movement").await;
    assert_eq!(stock.total, total);
}

#[tokio::test]
async fn a_lapse_gives_back_unit_and_number_once_and_counts_for_its_user() {
    let mut store = holding("lapse", 2).await;
    let first = held("a", &[1, 2], passed());
    assert_eq!(store.land(std::slice::from_ref(&first)).await, Attempt::Landed);
    let given_back = give_back(&store, by(Cause::Lapse), &ids(&first)).await.unwrap().unwrap();
    assert_eq!((given_back.seq, given_back.delta_stock), (2, 2));
    let back = Returned { user: USER, numbers: vec![1, 2], lapses: Lapses::Add(2) };
    assert_eq!(given_back.returned, [back]);
    assert!(given_back.coupons.iter().all(|coupon| coupon.status == CouponStatus::Lapsed));
    let again = give_back(&store, by(Cause::Lapse), &ids(&first)).await.unwrap();
    assert_eq!(again, None, "once");
    assert_balanced(&mut store).await;
    let lapses = returns::lapses_of(&mut store.connection, TEMPLATE, USER).await.unwrap();
    assert_eq!(lapses, Some((2, 2)));
    // The numbers are free again, and the old claim still shows its own.
    let second = held("b", &[1], now() + TimeDelta::minutes(5));
    assert_eq!(store.land(std::slice::from_ref(&second)).await, Attempt::Landed);
    assert_balanced(&mut store).await;
    let shown = look_up::claim_fate(&mut store.connection, first.landed.id).await.unwrap();
    let Some(ClaimFate::Landed(shown)) = shown else { panic!("{shown:?}") };
    assert_eq!(shown.coupons, first.landed.coupons);
    let movements = stock::movements_after(&mut store.connection, TEMPLATE, 1).await.unwrap();
    assert_eq!((movements.len(), &movements[0].returned), (1, &given_back.returned));
}

#[tokio::test]
async fn a_hold_lapses_not_before_its_end_and_is_cancelled_not_after_it() {
    let mut store = holding("not before", 9).await;
    let over = held("a", &[1], passed());
    let open = held("b", &[2], now() + TimeDelta::minutes(1));
    store.land(&[over.clone(), open.clone()]).await;
    let both = [ids(&over), ids(&open)].concat();
    // MySQL's clock has not reached the second deadline, although the caller's has.
    let late = Return { now: now() + TimeDelta::hours(1), ..by(Cause::Lapse) };
    let lapsed = give_back(&store, late, &both).await.unwrap().unwrap();
    assert_eq!(lapsed.coupons.iter().map(|coupon| coupon.id).collect::<Vec<_>>(), ids(&over));
    let confirmation = confirm(&store, "p", &over).await;
    assert!(
        matches!(confirmation, Confirmation::Lapsed { coupon, .. } if coupon == ids(&over)[0]),
        "{confirmation:?}"
    );
    assert_eq!(give_back(&store, late, &ids(&open)).await.unwrap(), None);
    assert!(give_back(&store, by(Cause::User), &ids(&open)).await.unwrap().is_some());
    let confirmation = confirm(&store, "q", &open).await;
    assert!(matches!(confirmation, Confirmation::NotHeld { .. }), "{confirmation:?}");
    assert_balanced(&mut store).await;
}

#[tokio::test]
async fn a_payment_is_taken_once_and_makes_coupons_usable_as_their_template_says_now() {
    let mut store = holding("payment", 9).await;
    let first = held("a", &[1, 2], now() + TimeDelta::minutes(5));
    store.land(std::slice::from_ref(&first)).await;
    let used =
        user_coupon::use_for_order(&mut store.connection, USER, ids(&first)[0], "o", now()).await;
    assert!(matches!(used.unwrap(), Use::Held(_)));
    let confirmation = confirm(&store, "p", &first).await;
    let Confirmation::Confirmed(coupons) = confirmation else { panic!("{confirmation:?}") };
    assert!(coupons.iter().all(|coupon| coupon.valid_until == now() + TimeDelta::days(1)));
    assert!(matches!(confirm(&store, "p", &first).await, Confirmation::Replayed { .. }));
    let one = confirm_some(&store, "p", &first, &ids(&first)[..1]).await;
    assert_eq!(one, Confirmation::ReferenceTaken);
    assert!(matches!(confirm(&store, "q", &first).await, Confirmation::NotHeld { .. }));
    let used =
        user_coupon::use_for_order(&mut store.connection, USER, ids(&first)[0], "o", now()).await;
    assert!(matches!(used.unwrap(), Use::Used(_)));
    let stranger = Payment {
        actor: "platform",
        merchant: coupon::MerchantId(MERCHANT.0 + 1),
        payment_ref: "s",
        claim: first.landed.id,
        template: TEMPLATE,
        coupons: &ids(&first),
        now: now(),
    };
    let foreign = confirmation::confirm(&mut store.connection, &stranger).await.unwrap();
    assert_eq!(foreign, Confirmation::NotFound);
    assert_balanced(&mut store).await;
}

#[tokio::test]
async fn a_payment_refused_for_a_shortened_validity_is_taken_once_it_is_lengthened_again() {
    let mut store = holding("shortened", 9).await;
    let hold_ends = now() + TimeDelta::minutes(5);
    let first = held("a", &[1], hold_ends);
    store.land(std::slice::from_ref(&first)).await;
    let ended = passed() + TimeDelta::minutes(1);
    set_validity(&mut store, ended).await;
    let later = hold_ends + TimeDelta::days(1);
    let refused = confirm(&store, "p", &first).await;
    assert_eq!(refused, Confirmation::Ended { valid_until: ended });
    set_validity(&mut store, later).await;
    let confirmed = confirm(&store, "p", &first).await;
    let Confirmation::Confirmed(coupons) = confirmed else { panic!("{confirmed:?}") };
    assert_eq!(coupons[0].valid_until, later);
    assert_balanced(&mut store).await;
}

/// Sets the template's validity, which began long ago.
async fn set_validity(store: &mut Store, until: DateTime<Utc>) {
    let sql = format!(
        "update coupon_template set valid_for_ms = null, valid_from = {}, valid_until = {}",
        sql_time(passed()),
        sql_time(until)
    );
    execute(&mut store.connection, &sql).await;
}

#[tokio::test]
async fn a_payment_confirms_all_of_its_coupons_or_none() {
    let mut store = holding("in part", 9).await;
    let first = held("a", &[1, 2], now() + TimeDelta::minutes(5));
    store.land(std::slice::from_ref(&first)).await;
    give_back(&store, by(Cause::User), &ids(&first)[1..]).await.unwrap();
    assert!(matches!(confirm(&store, "p", &first).await, Confirmation::NotHeld { .. }));
    let status = "select count(*) from user_coupon where status = 4";
    assert_eq!(number(&mut store.connection, status).await, 1);
    let rest = confirm_some(&store, "p", &first, &ids(&first)[..1]).await;
    assert!(matches!(rest, Confirmation::Confirmed(_)), "its refusal took no reference");
    // The caller's clock alone proves nothing.
    let second = held("b", &[3], now() + TimeDelta::minutes(5));
    store.land(std::slice::from_ref(&second)).await;
    let ahead = Payment {
        actor: "platform",
        merchant: MERCHANT,
        payment_ref: "ahead",
        claim: second.landed.id,
        template: TEMPLATE,
        coupons: &ids(&second),
        now: now() + TimeDelta::hours(1),
    };
    let unsure = confirmation::confirm(&mut store.connection, &ahead).await.unwrap();
    assert_eq!(unsure, Confirmation::Unsure);
    assert_balanced(&mut store).await;
}

#[tokio::test]
async fn a_shop_takes_back_confirmed_coupons_and_retired_units_leave_the_total() {
    let mut store = holding("retire", 9).await;
    let first = held("a", &[1, 2, 3], now() + TimeDelta::minutes(5));
    store.land(std::slice::from_ref(&first)).await;
    confirm_some(&store, "p", &first, &ids(&first)[..2]).await;
    execute(
        &mut store.connection,
        &format!(
            "update user_coupon set status = 1, version = version + 1 where id = {}",
            ids(&first)[0]
        ),
    )
    .await;
    let retire = Return { returned_stock: ReturnedStock::Retire, ..by(Cause::Shop) };
    let given_back = give_back(&store, retire, &ids(&first)).await.unwrap().unwrap();
    assert_eq!((given_back.coupons.len(), given_back.delta_stock), (2, 0), "one is used");
    let stock = stock::get(&mut store.connection, TEMPLATE).await.unwrap().unwrap();
    assert_eq!((stock.total, stock.stock), (7, 6));
    assert_eq!(returns::lapses_of(&mut store.connection, TEMPLATE, USER).await.unwrap(), None);
    assert_balanced(&mut store).await;
}

#[tokio::test]
async fn a_lift_is_a_movement_and_lapses_count_from_zero_again() {
    let mut store = holding("lift", 9).await;
    let other = coupon::UserId(71);
    let mut second = landing_of(TEMPLATE, other, "b", &[1]);
    second.landed.held_until = Some(passed());
    let first = held("a", &[1], passed());
    store.land(&[first.clone(), second.clone()]).await;
    let all = [ids(&first), ids(&second)].concat();
    let given_back = give_back(&store, by(Cause::Lapse), &all).await.unwrap().unwrap();
    assert_eq!(given_back.returned.len(), 2);
    let pool = connect::pool(&store.url, 1).await.unwrap();
    let mut transaction = connect::begin(&pool).await.unwrap();
    let lifted = returns::lift(&mut transaction, TEMPLATE, USER, "r", "test", now()).await;
    connect::commit(transaction).await.unwrap();
    assert_eq!(lifted.unwrap(), Some(3));
    let lapses = async |connection: &mut _, user| {
        returns::lapses_of(connection, TEMPLATE, user).await.unwrap()
    };
    assert_eq!(lapses(&mut store.connection, USER).await, Some((0, 3)));
    assert_eq!(lapses(&mut store.connection, other).await, Some((1, 2)));
    let all = returns::lapses_after(&mut store.connection, TEMPLATE, USER).await.unwrap();
    assert_eq!(all.iter().map(|one| one.user).collect::<Vec<_>>(), [other]);
    assert_balanced(&mut store).await;
}

/// Rounds of the race, and the coupons of each.
const ROUNDS: usize = 20;
const COUPONS: u8 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn of_a_payment_a_cancellation_and_a_lapse_of_the_same_coupons_each_coupon_has_one_end() {
    let mut store = holding("one end", i64::from(COUPONS)).await;
    for round in 0..ROUNDS {
        let until = if round % 2 == 0 { passed() } else { now() + TimeDelta::minutes(5) };
        let numbers: Vec<u8> = (1..=COUPONS).collect();
        let landing = held(&format!("key-{round}"), &numbers, until);
        assert_eq!(store.land(std::slice::from_ref(&landing)).await, Attempt::Landed);
        let ids = ids(&landing);
        let reference = format!("p-{round}");
        let (paid, _lapsed, _user, _shop) = tokio::join!(
            confirm(&store, &reference, &landing),
            give_back(&store, by(Cause::Lapse), &ids),
            give_back(&store, by(Cause::User), &ids),
            give_back(&store, by(Cause::Shop), &ids),
        );
        assert_balanced(&mut store).await;
        if let Confirmation::Lapsed { .. } = paid {
            assert_eq!(round % 2, 0, "{paid:?}");
        }
        // What is left is returned, so that the next round has all numbers.
        give_back(&store, by(Cause::Shop), &ids).await.unwrap();
        give_back(&store, by(Cause::Lapse), &ids).await.unwrap();
        assert_balanced(&mut store).await;
        assert_eq!(store.left(TEMPLATE).await, i64::from(COUPONS));
    }
    let twice = "select count(*) from user_coupon where version > 3";
    assert_eq!(number(&mut store.connection, twice).await, 0);
}

//! Lookups for operators: a user's coupons of one merchant, and a claim by its id.

use chrono::DateTime;
use coupon::{ClaimId, CouponId, MerchantId, UserId};
use mysql_store::{
    fence::{self, Fence},
    look_up::{self, ClaimFate},
};

use crate::{
    coupons::user_view::{HOT, KINDS, LIMIT, OF_EACH, READS_MAX, hot, rows_read},
    harness::{MERCHANT, Store, TEMPLATE, USER, landing, landing_of, read},
};

async fn ids(
    store: &mut Store,
    merchant: MerchantId,
    before: Option<CouponId>,
    limit: u32,
) -> Vec<CouponId> {
    let rows = look_up::coupons_of(&mut store.connection, merchant, USER, before, limit).await;
    read(rows.unwrap()).iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn a_users_coupons_come_newest_first_in_pages_and_only_the_merchants_own() {
    let mut store = Store::with_template("look up coupons", 10).await;
    let first = landing("a", &[1]);
    let second = landing("b", &[2, 3]);
    let strangers = landing_of(TEMPLATE, UserId(USER.0 + 1), "c", &[1]);
    let mut others = landing("d", &[4]);
    others.merchant_id = MerchantId(MERCHANT.0 + 1);
    let coupons = [&first, &second].map(|landing| landing.landed.coupons.iter());
    let mut wanted: Vec<CouponId> = coupons.into_iter().flatten().map(|one| one.id).collect();
    wanted.reverse();
    let elsewhere = others.landed.coupons[0].id;
    for landing in [first, second, strangers, others] {
        store.land(&[landing]).await;
    }
    assert_eq!(ids(&mut store, MERCHANT, None, 10).await, wanted);
    assert_eq!(ids(&mut store, MERCHANT, None, 2).await, wanted[..2]);
    assert_eq!(ids(&mut store, MERCHANT, Some(wanted[1]), 2).await, wanted[2..]);
    assert_eq!(ids(&mut store, MERCHANT, Some(wanted[2]), 2).await, []);
    assert_eq!(ids(&mut store, MerchantId(MERCHANT.0 + 1), None, 10).await, [elsewhere]);
    assert_eq!(ids(&mut store, MerchantId(MERCHANT.0 + 2), None, 10).await, []);
}

/// Counted at the server: neither the user's other coupons nor those of other merchants are read, at any position.
#[tokio::test]
async fn a_page_of_what_a_merchant_sees_of_a_user_reads_a_page_however_much_there_is() {
    let mut store = hot("bounded look ups").await;
    let connection = &mut store.connection;
    let cost = rows_read(connection).await;
    let own = rows_read(connection).await - cost;
    let of_each = KINDS.len() as i64 * OF_EACH / 2;
    for (merchant, coupons) in [(1, of_each), (2, of_each), (3, 0)] {
        let merchant = MerchantId(merchant);
        let mut before = None;
        let mut walked = Vec::new();
        loop {
            let reads = rows_read(connection).await;
            let rows = look_up::coupons_of(connection, merchant, HOT, before, LIMIT).await;
            let rows = crate::harness::read(rows.unwrap());
            let read = rows_read(connection).await - reads - own;
            assert!(read <= READS_MAX, "{read} rows for a page of {merchant} before {before:?}");
            assert!(rows.iter().all(|row| row.merchant_id == merchant));
            before = rows.last().map(|row| row.id);
            walked.extend(rows.iter().map(|row| row.id));
            if rows.len() < LIMIT as usize {
                break;
            }
        }
        assert_eq!(walked.len() as i64, coupons, "of the merchant {merchant}");
        assert!(walked.is_sorted_by(|left, right| left > right), "the newest first");
    }
}

#[tokio::test]
async fn a_claim_is_found_by_its_id_once_it_has_landed_or_can_never_land() {
    let mut store = Store::with_template("look up claims", 10).await;
    let landing = landing("a", &[1, 2]);
    let wanted = landing.landed.clone();
    let id = wanted.id;
    assert_eq!(look_up::claim_fate(&mut store.connection, id).await.unwrap(), None);
    store.land(&[landing]).await;
    let found = look_up::claim_fate(&mut store.connection, id).await.unwrap();
    assert_eq!(found, Some(ClaimFate::Landed(wanted)));
    let other = ClaimId(id.0 + 1);
    assert_eq!(look_up::claim_fate(&mut store.connection, other).await.unwrap(), None);
    let at = DateTime::from_timestamp_millis(1_800_000_000_123).unwrap();
    let fence = fence::place(&mut store.connection, TEMPLATE, USER, other, at).await.unwrap();
    assert_eq!(fence, Fence::Stands);
    let found = look_up::claim_fate(&mut store.connection, other).await.unwrap();
    let given_up = ClaimFate::GivenUp { id: other, template_id: TEMPLATE, user_id: USER, at };
    assert_eq!(found, Some(given_up));
}

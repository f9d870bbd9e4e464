//! What a user has had of a template.

use coupon::{TemplateId, UserId};
use mysql_store::holdings::{self, Holdings};
use testkit::{CouponRow, insert_coupons};

use crate::harness::{Store, TEMPLATE, USER, execute};

async fn held(store: &mut Store, template: TemplateId, limit: u32) -> (bool, u32) {
    let held = holdings::get(&mut store.connection, USER, template, limit).await.unwrap();
    let Holdings { any, numbered } = held;
    (any, numbered)
}

#[tokio::test]
async fn coupons_count_against_the_limit_by_their_numbers_whatever_became_of_them() {
    let mut store = Store::new("held").await;
    let row = |id: i64, claim_no: i64, status: u8| CouponRow {
        claim_no,
        status,
        ..CouponRow::unused(id, USER.0)
    };
    assert_eq!(held(&mut store, TEMPLATE, 3).await, (false, 0));
    // A coupon outside the limit, as support gives it.
    execute(&mut store.connection, &insert_coupons([row(1, 101, 0)])).await;
    assert_eq!(held(&mut store, TEMPLATE, 3).await, (true, 0));
    // An unused, a used and an expired coupon, and others' coupons.
    let of_others = [
        CouponRow { claim_no: 1, ..CouponRow::unused(5, USER.0 + 1) },
        CouponRow { claim_no: 2, template_id: 11, ..CouponRow::unused(6, USER.0) },
    ];
    let rows = [row(2, 1, 0), row(3, 2, 1), row(4, 3, 2)].into_iter().chain(of_others);
    execute(&mut store.connection, &insert_coupons(rows)).await;
    assert_eq!(held(&mut store, TEMPLATE, 3).await, (true, 3));
    assert_eq!(held(&mut store, TEMPLATE, 100).await, (true, 3));
    assert_eq!(held(&mut store, TemplateId(11), 1).await, (true, 1));
    // Without a limit a coupon's number is its id, however small.
    assert_eq!(held(&mut store, TEMPLATE, 0).await, (true, 0));
    let other =
        holdings::get(&mut store.connection, UserId(USER.0 + 2), TEMPLATE, 3).await.unwrap();
    assert_eq!(other, Holdings { any: false, numbered: 0 });
}

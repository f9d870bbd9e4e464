//! What rows tell of a claim's way.

use coupon::{ClaimId, CouponId, LandingMode, TemplateId};
use mysql_store::{
    landing::{self, Attempt},
    story::{self, Admitted},
};

use crate::harness::{LEFT_AFTER, Store, TEMPLATE, landing, now, queued};

#[tokio::test]
async fn a_claim_tells_its_admission_and_its_coupons_are_read_together() {
    let mut store = Store::with_queue("story", 10).await;
    let direct = landing("a", &[1, 2, 3]);
    let queued = queued(landing("b", &[4]));
    let direct_id = direct.landed.id;
    let queued_id = queued.landed.id;
    let mut ids: Vec<CouponId> = direct.landed.coupons.iter().map(|coupon| coupon.id).collect();
    ids.extend(queued.landed.coupons.iter().map(|coupon| coupon.id));
    store.land(&[direct]).await;
    let attempt =
        landing::land(&mut store.connection, LandingMode::Queued, &[queued]).await.unwrap();
    assert_eq!(attempt, Attempt::Landed);

    let connection = &mut store.connection;
    let unrecorded = Admitted { quantity: 3, admitted_at: None, left_after: None };
    assert_eq!(story::admitted(connection, direct_id, TEMPLATE).await.unwrap(), Some(unrecorded));
    let recorded = Admitted { quantity: 1, admitted_at: Some(now()), left_after: Some(LEFT_AFTER) };
    assert_eq!(story::admitted(connection, queued_id, TEMPLATE).await.unwrap(), Some(recorded));
    assert_eq!(story::admitted(connection, ClaimId(1), TEMPLATE).await.unwrap(), None);
    let elsewhere = TemplateId(TEMPLATE.0 + 1);
    assert_eq!(story::admitted(connection, queued_id, elsewhere).await.unwrap(), None);

    let asked: Vec<CouponId> = ids.iter().rev().copied().chain([CouponId(1)]).collect();
    let found = story::coupons(connection, &asked).await.unwrap();
    assert_eq!(found.iter().map(|coupon| coupon.id).collect::<Vec<_>>(), ids);
    assert_eq!(story::coupons(connection, &[]).await.unwrap(), []);
}

//! Users give held coupons up, and shops take them back: units and numbers come back exactly once.

use pipeline_tests::World;
use serde_json::{Value, json};
use shopper::{CouponQuery, NewTemplate};

use crate::{
    desk::{get, post, refusal},
    holds::{LONG, claimed, held, ids, returns, stock},
    templates::shop::until_left,
};

#[tokio::test]
async fn a_user_gives_a_hold_up_and_its_unit_and_number_come_back_once() {
    let world = World::start("cancel by user").await;
    let template = world.template(2, held).await;
    let (anna, claim) = claimed(&world, template, 1, "a", 2).await;
    assert_eq!(stock(&world, template).await, (2, 0));
    let [one, two] = ids(&claim)[..] else { panic!("two coupons") };
    let stranger = world.api().shopper(coupon::UserId(2)).unwrap();
    let strange = stranger.cancel(claim.id, None).await.unwrap();
    // Like an id that no claim has.
    assert_eq!(refusal(&strange), (422, "TEMPLATE_NEEDED".to_owned()));

    let first = anna.cancel(claim.id, Some(&[one])).await.unwrap();
    assert_eq!(first.status, 200, "{}", first.body);
    for _ in 0..2 {
        assert_eq!(anna.cancel(claim.id, Some(&[one])).await.unwrap().body, first.body);
    }
    assert_eq!(stock(&world, template).await, (2, 1));
    assert_eq!(returns(&world, template).await, 1);
    // Without a list all are cancelled; one of them is already.
    let all: Value = anna.cancel(claim.id, None).await.unwrap().json().unwrap();
    let statuses: Vec<_> =
        all["coupons"].as_array().unwrap().iter().map(|c| &c["status"]).collect();
    assert_eq!(statuses, ["cancelled", "cancelled"]);
    assert_eq!((stock(&world, template).await, returns(&world, template).await), ((2, 2), 2));
    let cancelled = CouponQuery { status: Some("cancelled"), ..CouponQuery::default() };
    let cancelled = anna.coupons(&cancelled).await.unwrap().data;
    assert_eq!(cancelled.iter().map(|coupon| coupon.id).collect::<Vec<_>>(), [two, one]);
    until_left(&world, template, json!(2)).await;
    let paid = world.api().confirm(claim.id, "pay-1", Some(&[two])).await.unwrap();
    assert_eq!(refusal(&paid), (409, "COUPON_CANCELLED".to_owned()));

    // The answer to the old key stays the same; a new key gets the units and the numbers again.
    let replayed = anna.claim(template, Some("a"), 2).await.unwrap();
    assert_eq!((replayed.status, ids(&replayed.json().unwrap())), (201, ids(&claim)));
    let (_, new) = claimed(&world, template, 1, "b", 2).await;
    assert!(ids(&new).iter().all(|id| !ids(&claim).contains(id)));
    let counts = world.count(template).await;
    assert_eq!((counts.held, counts.cancelled), (2, 2));
    assert_eq!(stock(&world, template).await, (2, 0));
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_shop_takes_confirmed_coupons_back_but_no_used_one_and_the_record_says_why() {
    let world = World::start("cancel by shop").await;
    let api = world.api();
    let template = world.template(9, held).await;
    let (anna, claim) = claimed(&world, template, 1, "a", 2).await;
    let [one, two] = ids(&claim)[..] else { panic!("two coupons") };
    assert_eq!(api.confirm(claim.id, "pay-1", None).await.unwrap().status, 200);
    let by_user = anna.cancel(claim.id, None).await.unwrap();
    assert_eq!(refusal(&by_user), (409, "ALREADY_CONFIRMED".to_owned()));
    assert_eq!(anna.use_coupon(one, "A-1").await.unwrap().status, 200);
    let used = api.cancel(claim.id, "refunded", None).await.unwrap();
    assert_eq!(refusal(&used), (409, "COUPON_USED".to_owned()), "all or none");
    assert_eq!(world.count(template).await.unused, 1);
    for wrong in [json!({ "reason": " " }), json!({ "reason": "r", "coupons": [] })] {
        let wrong = post(api, &format!("/v1/claims/{}/cancel", claim.id), &wrong).await;
        assert_eq!(refusal(&wrong), (422, "INVALID_CHANGE".to_owned()));
    }

    let first = api.cancel(claim.id, "refunded", Some(&[two])).await.unwrap();
    assert_eq!(first.status, 200, "{}", first.body);
    let again = api.cancel(claim.id, "refunded once more", Some(&[two])).await.unwrap();
    assert_eq!((again.status, &again.body), (200, &first.body));
    let paid: Value = api.confirm(claim.id, "pay-1", None).await.unwrap().json().unwrap();
    let statuses: Vec<_> =
        paid["coupons"].as_array().unwrap().iter().map(|c| &c["status"]).collect();
    assert_eq!(statuses, ["used", "cancelled"]);
    assert_eq!((stock(&world, template).await, returns(&world, template).await), ((9, 8), 1));
    let record = get(api, &format!("/v1/audit?target=claims/{}", claim.id)).await;
    let lines = record["data"].as_array().unwrap();
    assert_eq!(lines.len(), 1, "{record}");
    assert_eq!(
        (&lines[0]["action"], &lines[0]["after"]["reason"]),
        (&json!("claim.cancel"), &json!("refunded"))
    );
    world.assert_sound(None).await;
    world.end().await;
}

/// Otherwise the shop would refund a user who keeps the coupon.
#[tokio::test]
async fn a_claim_whose_coupon_was_replaced_is_cancelled_only_once_the_replacement_is_revoked() {
    let world = World::start("cancel replaced").await;
    let api = world.api();
    let template = world.template(9, held).await;
    let (anna, claim) = claimed(&world, template, 1, "a", 1).await;
    let [one] = ids(&claim)[..] else { panic!("one coupon") };
    let early = post(api, &format!("/v1/coupons/{one}/revoke"), &json!({ "reason": "r" })).await;
    assert_eq!(refusal(&early), (409, "NOT_CONFIRMED".to_owned()));
    let early: Value = early.json().unwrap();
    assert_eq!(early["claim_id"], claim.id.to_string());
    assert_eq!(api.confirm(claim.id, "pay-1", None).await.unwrap().status, 200);
    let replaced =
        post(api, &format!("/v1/coupons/{one}/replace"), &json!({ "reason": "r" })).await;
    let replaced: Value = replaced.json().unwrap();
    let other = replaced["replacement"]["id"].as_str().unwrap().to_owned();
    for cancelled in
        [api.cancel(claim.id, "refunded", None).await, anna.cancel(claim.id, None).await]
    {
        let cancelled = cancelled.unwrap();
        assert_eq!(refusal(&cancelled), (409, "COUPON_CANCELLED".to_owned()));
        let cancelled: Value = cancelled.json().unwrap();
        assert_eq!(cancelled["replaced_by"], other, "{cancelled}");
    }
    assert_eq!(world.count(template).await.unused, 1);
    let revoked =
        post(api, &format!("/v1/coupons/{other}/revoke"), &json!({ "reason": "r" })).await;
    assert_eq!(revoked.status, 200, "{}", revoked.body);
    assert_eq!(api.cancel(claim.id, "refunded", None).await.unwrap().status, 200);
    assert_eq!(world.count(template).await.cancelled, 2);
    let story = get(api, &format!("/v1/claim-states/{}/story", claim.id)).await;
    let payment = &story["payments"][0];
    assert_eq!(
        (&payment["payment_ref"], &payment["actor"], &payment["coupons"]),
        (&json!("pay-1"), &json!("platform"), &json!([one.to_string()])),
        "{story}"
    );
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_template_that_retires_what_comes_back_sells_no_unit_again() {
    let world = World::start("cancel retires").await;
    let retire =
        |new: NewTemplate| NewTemplate { returned_stock: Some("retire"), ..new.held_for(LONG) };
    let template = world.template(1, retire).await;
    let (anna, claim) = claimed(&world, template, 1, "a", 1).await;
    for _ in 0..2 {
        assert_eq!(anna.cancel(claim.id, None).await.unwrap().status, 200);
    }
    assert_eq!((stock(&world, template).await, returns(&world, template).await), ((0, 0), 1));
    let more = anna.claim(template, Some("b"), 1).await.unwrap();
    assert_eq!(refusal(&more), (409, "SOLD_OUT".to_owned()), "and not LIMIT_REACHED");
    world.assert_sound(None).await;
    world.end().await;
}

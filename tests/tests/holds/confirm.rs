//! A shop confirms held coupons: once per payment, all or none, and never after the hold.

use chrono::{DateTime, Utc};
use coupon::CouponId;
use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{CouponQuery, NewTemplate};

use crate::{
    desk::{another_merchant, post, refusal},
    holds::{LONG, SHORT, all_over, claimed, held, ids, number, stock},
};

const PAYMENTS: &str = "select count(*) from coupon_payment";

fn instant(value: &Value) -> DateTime<Utc> {
    value.as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_held_claim_is_confirmed_once_and_its_answer_stays_the_same_byte_for_byte() {
    let world = World::start("confirm").await;
    let api = world.api();
    let template = world.template(9, |new| new.held_for(LONG)).await;
    let anna = api.shopper(coupon::UserId(1)).unwrap();
    let keyless = anna.claim(template, None, 1).await.unwrap();
    assert_eq!(
        refusal(&keyless),
        (400, "IDEMPOTENCY_KEY_MISSING".to_owned()),
        "whatever the limit"
    );

    let first = anna.claim(template, Some("a"), 1).await.unwrap();
    let body: Value = first.json().unwrap();
    let until = instant(&body["held_until"]);
    assert_eq!((first.status, &body["status"]), (201, &json!("held")));
    let left = (until - instant(&body["claimed_at"])).num_milliseconds();
    assert_eq!(body["pay_within_ms"], json!(left));
    let (_, claim) = claimed(&world, template, 2, "a", 1).await;
    let mine = ids(&first.json().unwrap())[0];
    let early = anna.use_coupon(mine, "A-1").await.unwrap();
    assert_eq!(refusal(&early), (409, "NOT_CONFIRMED".to_owned()));
    let of_status = |status| CouponQuery { status: Some(status), ..CouponQuery::default() };
    let shown = anna.coupons(&of_status("held")).await.unwrap().data;
    assert_eq!((shown.len(), shown[0].id, shown[0].valid_until), (1, mine, until));
    let listed = anna.request(Method::GET, "/v1/me/coupons?status=held");
    let listed: Value = anna.send(listed).await.unwrap().json().unwrap();
    assert_eq!(instant(&listed["data"][0]["held_until"]), until);
    let pay_within = listed["data"][0]["pay_within_ms"].as_i64().unwrap();
    assert!((1..=left).contains(&pay_within), "{pay_within} of {left}");
    // Neither the desk nor another shop can change it.
    let revoked = post(api, &format!("/v1/coupons/{mine}/revoke"), &json!({ "reason": "r" })).await;
    assert_eq!(refusal(&revoked), (409, "NOT_CONFIRMED".to_owned()));
    let shop = json!({ "name": "Another shop" });
    let shop: Value = post(api, "/v1/merchants", &shop).await.json().unwrap();
    let key = json!({ "name": "till", "scopes": ["redeem"], "merchant_id": shop["id"] });
    let key: Value = post(api, "/v1/api-keys", &key).await.json().unwrap();
    let stranger = api.with_operator_key(key["key"].as_str().unwrap());
    let id = body["id"].as_str().unwrap().parse().unwrap();
    let theirs = stranger.confirm(id, "pay-0", None).await.unwrap();
    // Like an id that no claim has.
    assert_eq!(refusal(&theirs), (422, "TEMPLATE_NEEDED".to_owned()));
    assert_eq!(number(&world, PAYMENTS).await, 0);

    let confirmed = api.confirm(id, "pay-1", None).await.unwrap();
    assert_eq!(confirmed.status, 200, "{}", confirmed.body);
    let confirmed: Value = confirmed.json().unwrap();
    let coupon = &confirmed["coupons"][0];
    assert_eq!((&coupon["id"], &coupon["status"]), (&json!(mine), &json!("unused")));
    assert_eq!(coupon["valid_from"], confirmed["confirmed_at"], "its validity begins now");
    assert!(coupon["held_until"].is_null());
    let again: Value = api.confirm(id, "pay-1", Some(&[mine])).await.unwrap().json().unwrap();
    assert_eq!(again, confirmed);
    assert_eq!(anna.claim(template, Some("a"), 1).await.unwrap().body, first.body);

    let refusals = [
        (api.confirm(id, "pay-2", None).await, "ALREADY_CONFIRMED"),
        (api.confirm(claim.id, "pay-1", None).await, "PAYMENT_REF_REUSED"),
    ];
    for (answer, code) in refusals {
        assert_eq!(refusal(&answer.unwrap()), (409, code.to_owned()));
    }
    let other = another_merchant(api).await;
    let strange = other.confirm(claim.id, "pay-3", None).await.unwrap();
    // A desk's key does not redeem, and its merchant has no such claim.
    assert!([403, 404].contains(&strange.status), "{strange:?}");
    assert_eq!(anna.use_coupon(mine, "A-1").await.unwrap().status, 200);
    let used: Value = api.confirm(id, "pay-1", None).await.unwrap().json().unwrap();
    assert_eq!(used["coupons"][0]["status"], "used", "as it is by now");

    let counts = world.count(template).await;
    assert_eq!((counts.used, counts.held, number(&world, PAYMENTS).await), (1, 1, 1));
    assert_eq!(stock(&world, template).await, (9, 7));
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_payment_for_some_coupons_leaves_the_others_held_and_one_that_does_not_fit_takes_none() {
    let world = World::start("confirm partly").await;
    let api = world.api();
    let template = world.template(9, held).await;
    let (_, claim) = claimed(&world, template, 1, "a", 2).await;
    let (_, other) = claimed(&world, template, 2, "a", 1).await;
    let [one, two] = ids(&claim)[..] else { panic!("two coupons") };

    for (wrong, code) in [
        (json!({ "payment_ref": "" }), "INVALID_PAYMENT"),
        (json!({ "payment_ref": "pay-1 " }), "INVALID_PAYMENT"),
        (json!({ "payment_ref": "x".repeat(65) }), "INVALID_PAYMENT"),
        (json!({ "payment_ref": "p", "coupons": [] }), "INVALID_PAYMENT"),
        (
            json!({ "payment_ref": "p", "coupons": [one.to_string(), one.to_string()] }),
            "INVALID_PAYMENT",
        ),
        (
            json!({ "payment_ref": "p", "coupons": [ids(&other)[0].to_string()] }),
            "COUPON_NOT_FOUND",
        ),
    ] {
        let path = format!("/v1/claims/{}/confirm", claim.id);
        let answer = crate::desk::post(api, &path, &wrong).await;
        assert_eq!(refusal(&answer).1, code, "{wrong}");
    }
    let nothing = api.confirm(coupon::ClaimId(1), "p", None).await.unwrap();
    assert_eq!(refusal(&nothing), (404, "CLAIM_NOT_FOUND".to_owned()));

    let part = api.confirm(claim.id, "pay-1", Some(&[two])).await.unwrap();
    assert_eq!(part.status, 200, "{}", part.body);
    let all = api.confirm(claim.id, "pay-2", None).await.unwrap();
    assert_eq!(refusal(&all), (409, "ALREADY_CONFIRMED".to_owned()));
    assert_eq!(all.json::<Value>().unwrap()["coupon_id"], json!(two));
    let larger = api.confirm(claim.id, "pay-1", None).await.unwrap();
    assert_eq!(refusal(&larger), (409, "PAYMENT_REF_REUSED".to_owned()));
    let counts = world.count(template).await;
    assert_eq!((counts.unused, counts.held), (1, 2), "all or none");
    assert_eq!(api.confirm(claim.id, "pay-3", Some(&[one])).await.unwrap().status, 200);
    assert_eq!(world.count(template).await.unused, 2);
    assert_eq!(number(&world, PAYMENTS).await, 2);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_payment_that_comes_after_the_hold_is_refused_for_good_and_one_before_it_stands() {
    let world = World::start("confirm late").await;
    let api = world.api();
    let two = |new: NewTemplate| NewTemplate { per_user_limit: 2, ..new.held_for(SHORT) };
    let template = world.template(9, two).await;
    let (_, paid) = claimed(&world, template, 1, "paid", 1).await;
    assert_eq!(api.confirm(paid.id, "pay-1", None).await.unwrap().status, 200);
    let (anna, late) = claimed(&world, template, 1, "late", 1).await;
    all_over(&world, template, 1).await;
    for _ in 0..2 {
        let refused = api.confirm(late.id, "pay-2", None).await.unwrap();
        assert_eq!(refusal(&refused), (409, "HOLD_LAPSED".to_owned()));
        let refused: Value = refused.json().unwrap();
        assert_eq!(instant(&refused["lapsed_at"]), late.held_until.unwrap());
        assert_eq!(refused["retryable"], json!(false));
    }
    let lost: CouponId = ids(&late)[0];
    assert_eq!(anna.coupon(lost).await.unwrap().status, "lapsed", "written or not");
    let lapsed = CouponQuery { status: Some("lapsed"), ..CouponQuery::default() };
    let lapsed = anna.coupons(&lapsed).await.unwrap().data;
    assert_eq!(lapsed.iter().map(|one| one.id).collect::<Vec<_>>(), [lost]);
    for refused in [
        anna.use_coupon(lost, "A-1").await.unwrap(),
        anna.cancel(late.id, None).await.unwrap(),
        api.cancel(late.id, "late", None).await.unwrap(),
    ] {
        assert_eq!(refusal(&refused), (409, "HOLD_LAPSED".to_owned()));
    }
    let again = api.confirm(paid.id, "pay-1", None).await.unwrap();
    assert_eq!(again.status, 200, "what was confirmed in time stays so");
    assert_eq!(number(&world, PAYMENTS).await, 1);
    assert_eq!(world.count(template).await.unused, 1);
    world.assert_sound(None).await;
    world.end().await;
}

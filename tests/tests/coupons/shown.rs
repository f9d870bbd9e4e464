//! What a coupon is shown with, and what a user has had of a template.

use coupon::{TemplateId, UserId};
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Claimed, NewTemplate, Shopper};

async fn get(user: &Shopper, path: &str) -> Answer {
    user.send(user.request(Method::GET, path)).await.unwrap()
}

/// What the user has had of a template: `claimed`, `held` and `may_claim`.
async fn had(user: &Shopper, template: TemplateId) -> (bool, Value, Value) {
    let answer = get(user, &format!("/v1/me/templates/{template}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.header("ratelimit").is_some(), "it counts as a read: {answer:?}");
    let body: Value = answer.json().unwrap();
    assert_eq!(body["template_id"], template.to_string());
    (body["claimed"] == true, body["held"].clone(), body["may_claim"].clone())
}

#[tokio::test]
async fn coupons_carry_what_a_shop_shows_and_answers_that_are_kept_stay_as_they_are() {
    let world = World::start("shown").await;
    let api = world.api();
    let three = |new| NewTemplate { per_user_limit: 3, max_per_claim: 2, ..new };
    let template = world.template(5, three).await;
    let anna = api.shopper(UserId(1)).unwrap();
    let claim = anna.claim(template, Some("a"), 2).await.unwrap();
    let claimed: Claimed = claim.json().unwrap();
    let [used, unused] = [0, 1].map(|at| claimed.coupons[at].id);
    let use_of_it = anna.use_coupon(used, "order-1").await.unwrap();
    assert_eq!(use_of_it.status, 200);

    let edit = json!({ "name": "Another name", "version": 2 });
    let request = api.operator(Method::PATCH, &format!("/v1/templates/{template}"));
    assert_eq!(api.send(request.json(&edit)).await.unwrap().status, 200);
    let shown = json!({ "name": "Another name", "discount": {
        "kind": "amount_off", "amount_off_minor": 500, "cap_minor": null, "minimum_spend_minor": 0,
        "currency": "EUR",
    }, "discount_text": "€5.00 off" });
    for (path, id) in [
        (format!("/v1/me/coupons?after={unused}"), unused),
        ("/v1/me/coupons?status=used".to_owned(), used),
        (format!("/v1/me/coupons/{used}"), used),
        ("/v1/users/1/coupons".to_owned(), unused),
    ] {
        let request = || {
            let by_key = path.contains("/users/");
            let of_anna = || anna.request(Method::GET, &path);
            if by_key { api.operator(Method::GET, &path) } else { of_anna() }
        };
        let look = async || {
            let body: Value = api.send(request()).await.unwrap().json().unwrap();
            let page = body["data"].as_array().cloned();
            let coupons = page.unwrap_or_else(|| vec![body]);
            coupons.into_iter().find(|coupon| coupon["id"] == id.to_string()).unwrap_or_default()
        };
        let coupon = until(look, |coupon| !coupon.is_null()).await;
        assert_eq!(
            (&coupon["template"], &coupon["template_id"]),
            (&shown, &json!(template)),
            "{path}"
        );
    }
    // Repeated answers stay unchanged, even after the template was renamed.
    let again = anna.use_coupon(used, "order-1").await.unwrap();
    assert_eq!(again.body, use_of_it.body);
    let again = anna.claim(template, Some("a"), 2).await.unwrap();
    assert!(again.replayed && again.body == claim.body, "{again:?}");
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_user_sees_what_the_limit_still_allows_as_soon_as_a_claim_is_answered() {
    let world = World::start("still").await;
    let api = world.api();
    let anna = api.shopper(UserId(1)).unwrap();
    let ben = api.shopper(UserId(2)).unwrap();
    let three = |new| NewTemplate { per_user_limit: 3, max_per_claim: 2, ..new };
    let template = world.template(50, three).await;
    assert_eq!(had(&anna, template).await, (false, json!(0), json!(3)));
    let mut ids = Vec::new();
    for (key, quantity, held) in [("a", 2, 2), ("b", 1, 3)] {
        let claim = anna.claim(template, Some(key), quantity).await.unwrap();
        assert_eq!(had(&anna, template).await, (true, json!(held), json!(3 - held)), "{claim:?}");
        let claimed: Claimed = claim.json().unwrap();
        ids.extend(claimed.coupons.into_iter().map(|coupon| coupon.id));
    }
    let refused = anna.claim(template, Some("c"), 1).await.unwrap();
    assert_eq!(refused.code().as_deref(), Some("LIMIT_REACHED"));
    // A used coupon counts.
    assert_eq!(anna.use_coupon(ids[0], "order-1").await.unwrap().status, 200);
    assert_eq!(had(&anna, template).await, (true, json!(3), json!(0)));
    assert_eq!(had(&ben, template).await, (false, json!(0), json!(3)), "each user has a limit");

    let endless = world.template(50, |new| NewTemplate { per_user_limit: 0, ..new }).await;
    assert_eq!(had(&ben, endless).await, (false, Value::Null, Value::Null));
    assert_eq!(ben.claim(endless, Some("a"), 1).await.unwrap().status, 201);
    assert_eq!(had(&ben, endless).await, (true, Value::Null, Value::Null));
    // It shows the past, even when nothing can be claimed any more.
    api.turn(template, "end").await.unwrap();
    assert_eq!(had(&anna, template).await, (true, json!(3), json!(0)));
    world.assert_sound(None).await;
    world.end().await;
}

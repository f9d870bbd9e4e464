//! The terms of a campaign: each kind of discount and validity is returned as it was sent, to the operator, on the
//! shop page and with the claim, and decides when a coupon can be used.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use coupon::{CouponId, UserId};
use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Map, Value, json};
use shopper::{NewTemplate, Shopper};

/// Names of the terms in every answer that shows a template.
const TERMS: [&str; 9] = [
    "discount",
    "discount_text",
    "per_user_limit",
    "max_per_claim",
    "claim_starts_at",
    "claim_ends_at",
    "valid_from",
    "valid_until",
    "valid_for_ms",
];

/// A time as answers format it.
fn instant(at: DateTime<Utc>) -> Value {
    json!(at.to_rfc3339_opts(SecondsFormat::Millis, true))
}

/// Terms as they are sent, and how an answer shows their discount.
struct Case {
    sent: Value,
    /// Fields that the answer's discount has besides, or in another form.
    added: Value,
    text: &'static str,
}

fn cases(now: DateTime<Utc>) -> [Case; 5] {
    let between = |from: i64, until: i64| {
        let [from, until] = [from, until].map(|hours| instant(now + TimeDelta::hours(hours)));
        json!({ "valid_from": from, "valid_until": until })
    };
    let for_an_hour = json!({ "valid_for_ms": 3_600_000 });
    let terms = |discount: &Value, validity: &Value| {
        let mut terms = validity.clone();
        terms["discount"] = discount.clone();
        terms
    };
    let capped = json!({
        "kind": "percent_off", "percent_off": "12.5", "cap_minor": 2_000,
        "minimum_spend_minor": 0, "currency": "EUR",
    });
    let all = json!({ "kind": "percent_off", "percent_off": 100, "currency": "USD" });
    let free = json!({ "kind": "free_shipping", "minimum_spend_minor": 4_900, "currency": "CHF" });
    let amount = json!({
        "kind": "amount_off", "amount_off_minor": 1, "minimum_spend_minor": 2_000, "currency": "JPY",
    });
    let case = |sent, added, text| Case { sent, added, text };
    let whole = json!({ "percent_off": "100", "cap_minor": null, "minimum_spend_minor": 0 });
    let uncapped = json!({ "cap_minor": null });
    let shipping = "free shipping, from CHF 49.00";
    [
        case(terms(&capped, &for_an_hour), json!({}), "12.5 % off, at most €20.00"),
        case(terms(&all, &between(-1, 24)), whole, "100 % off"),
        case(terms(&free, &for_an_hour), uncapped.clone(), shipping),
        case(terms(&amount, &between(-48, 1)), uncapped.clone(), "JPY 1 off, from JPY 2000"),
        // Claimed today, usable from tomorrow on.
        case(terms(&free, &between(24, 48)), uncapped, shipping),
    ]
}

/// Returns the template to send, with `terms` instead of the default validity.
fn body(now: DateTime<Utc>, terms: &Value) -> Value {
    let new = NewTemplate::simple("A sale", 10, now, TimeDelta::hours(1));
    let mut body = serde_json::to_value(new).unwrap();
    let fields = body.as_object_mut().unwrap();
    fields.remove("valid_for_ms");
    for time in ["claim_starts_at", "claim_ends_at"] {
        let at: DateTime<Utc> = fields[time].as_str().unwrap().parse().unwrap();
        fields.insert(time.to_owned(), instant(at));
    }
    fields.extend(terms.as_object().unwrap().clone());
    body
}

/// Returns the terms in an answer, without those it lacks.
fn terms_of(answer: &Value) -> Map<String, Value> {
    let field = |name: &str| Some((name.to_owned(), answer.get(name)?.clone()));
    TERMS.into_iter().filter_map(field).collect()
}

async fn get(world: &World, path: &str) -> Value {
    let answer = world.api().send(world.api().operator(Method::GET, path)).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json().unwrap()
}

/// Claims a coupon and checks its validity: as in the terms, or counted from the claim.
async fn claim(shopper: &Shopper, template: &str, terms: &Map<String, Value>) -> CouponId {
    let template = template.parse().unwrap();
    let answer = shopper.claim(template, None, 1).await.unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let claimed: Value = answer.json().unwrap();
    let [from, until] = ["valid_from", "valid_until"].map(|name| claimed[name].clone());
    if let Some(ms) = terms.get("valid_for_ms") {
        let at: DateTime<Utc> = claimed["claimed_at"].as_str().unwrap().parse().unwrap();
        let end = at + TimeDelta::milliseconds(ms.as_i64().unwrap());
        assert_eq!((from, until), (instant(at), instant(end)));
    } else {
        assert_eq!((&from, &until), (&terms["valid_from"], &terms["valid_until"]));
    }
    claimed["coupons"][0]["id"].as_str().unwrap().parse().unwrap()
}

/// Uses the coupon: successfully, or refused because it has not begun.
async fn use_it(shopper: &Shopper, coupon: CouponId, begins: Option<&Value>) {
    let answer = shopper.use_coupon(coupon, "order").await.unwrap();
    let answered: Value = answer.json().unwrap();
    if let Some(begins) = begins {
        assert_eq!((answer.status, &answered["code"]), (409, &json!("COUPON_NOT_YET_VALID")));
        assert_eq!((&answered["valid_from"], &answered["retryable"]), (begins, &json!(false)));
        assert_eq!(shopper.coupon(coupon).await.unwrap().status, "unused");
    } else {
        assert_eq!((answer.status, &answered["status"]), (200, &json!("used")), "{answered}");
    }
}

#[tokio::test]
async fn each_discount_and_validity_comes_back_as_sent_and_no_coupon_is_used_before_its_time() {
    let world = World::start("terms").await;
    let now = world.clock.now();
    for (user, Case { sent, added, text }) in (1..).zip(cases(now)) {
        let body = body(now, &sent);
        let mut expected = terms_of(&body);
        let discount = expected["discount"].as_object_mut().unwrap();
        discount.extend(added.as_object().unwrap().clone());
        expected.insert("discount_text".to_owned(), json!(text));

        let request = world.api().operator(Method::POST, "/v1/templates").json(&body);
        let created = world.api().send(request).await.unwrap();
        assert_eq!(created.status, 201, "{created:?}");
        let draft: Value = created.json().unwrap();
        assert_eq!(terms_of(&draft), expected);
        let id = draft["id"].as_str().unwrap();
        let mut shown = draft.clone();
        shown["total_stock"] = body["total_stock"].clone();
        assert_eq!(get(&world, &format!("/v1/templates/{id}")).await, shown);
        assert_eq!(get(&world, "/v1/templates?limit=1").await["data"], json!([draft]));
        world.api().turn(id.parse().unwrap(), "publish").await.unwrap();

        let page = world.api().shop(id.parse().unwrap(), None).await.unwrap();
        let page: Value = page.json().unwrap();
        assert_eq!((terms_of(&page), &page["state"]), (expected.clone(), &json!("open")));
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let coupon = claim(&shopper, id, &expected).await;
        let begins =
            expected.get("valid_from").filter(|from| from.as_str() > instant(now).as_str());
        use_it(&shopper, coupon, begins).await;
    }
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_percentage_below_one_is_accepted_with_a_warning_until_it_is_mended() {
    let world = World::start("small percentage").await;
    let send = async |method: Method, path: &str, body: Value| {
        let request = world.api().operator(method, path).json(&body);
        let answer = world.api().send(request).await.unwrap();
        assert!(answer.status < 300, "{answer:?}");
        answer.json::<Value>().unwrap()
    };
    let of = |percent: Value| {
        let kind = "percent_off";
        json!({ "discount": { "kind": kind, "percent_off": percent, "currency": "EUR" } })
    };
    let mut new = of(json!(0.2));
    new["valid_for_ms"] = json!(60_000);
    let draft = send(Method::POST, "/v1/templates", body(world.clock.now(), &new)).await;
    assert_eq!(draft["discount_text"], "0.2 % off");
    let warnings = draft["warnings"].as_array().unwrap();
    assert!(warnings.len() == 1 && warnings[0].as_str().unwrap().contains("20 %"), "{draft}");
    let path = format!("/v1/templates/{}", draft["id"].as_str().unwrap());
    assert_eq!(get(&world, &path).await["warnings"], draft["warnings"]);
    let mut mended = of(json!("20"));
    mended["version"] = json!(1);
    let mended = send(Method::PATCH, &path, mended).await;
    assert_eq!((&mended["discount_text"], mended.get("warnings")), (&json!("20 % off"), None));
    world.assert_sound(None).await;
    world.end().await;
}

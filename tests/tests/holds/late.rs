//! Payments that are refused for good are listed for the shop, until it says that it has refunded them.

use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Api, NewTemplate};

use crate::{
    desk::{another_merchant, get, post, refusal},
    holds::{SHORT, all_over, claimed, held, ids, number},
    operators::cli::Cli,
};

const LATE: &str = "select count(*) from late_payment";

/// The references on a page, in its order.
fn refs(page: &Value) -> Vec<&str> {
    let rows = page["data"].as_array().unwrap().iter();
    rows.map(|late| late["payment_ref"].as_str().unwrap()).collect()
}

/// Reads the whole list in pages of one.
async fn one_by_one(api: &Api) -> Vec<String> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = get(api, &format!("/v1/late-payments?limit=1{cursor}")).await;
        all.extend(refs(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next_cursor"].as_str() else { return all };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn a_payment_that_is_refused_for_good_is_listed_once_until_it_is_refunded() {
    let world = World::start("late payments").await;
    let api = world.api();
    let template = world.template(9, held).await;
    let brief = world.template(9, |new: NewTemplate| new.held_for(SHORT)).await;
    let (_, lapsed) = claimed(&world, brief, 1, "a", 1).await;
    let (_, paid) = claimed(&world, template, 2, "a", 1).await;
    let (_, given_up) = claimed(&world, template, 3, "a", 1).await;
    assert_eq!(api.cancel(given_up.id, "not wanted", None).await.unwrap().status, 200);
    assert_eq!(api.confirm(paid.id, "first", None).await.unwrap().status, 200);
    all_over(&world, brief, 1).await;
    for (claim, payment_ref, code) in [
        (lapsed.id, "too.late", "HOLD_LAPSED"),
        (paid.id, "second", "ALREADY_CONFIRMED"),
        (given_up.id, "for-nothing", "COUPON_CANCELLED"),
    ] {
        for _ in 0..2 {
            let refused = api.confirm(claim, payment_ref, None).await.unwrap();
            assert_eq!(refusal(&refused), (409, code.to_owned()));
        }
    }
    // What is confirmed, refused only for now, or for what is no hold, is not late.
    assert_eq!(api.confirm(paid.id, "first", None).await.unwrap().status, 200);
    let reused = api.confirm(lapsed.id, "first", None).await.unwrap();
    assert_eq!(refusal(&reused), (409, "PAYMENT_REF_REUSED".to_owned()));
    let plain = world.template(9, |new| new).await;
    let (_, unheld) = claimed(&world, plain, 4, "a", 1).await;
    let needless = api.confirm(unheld.id, "needless", None).await.unwrap();
    assert_eq!(refusal(&needless), (422, "INVALID_PAYMENT".to_owned()));
    assert_eq!(number(&world, LATE).await, 3);

    let all = get(api, "/v1/late-payments").await;
    assert_eq!(refs(&all), ["for-nothing", "second", "too.late"], "the newest claims first");
    assert_eq!(one_by_one(api).await, ["for-nothing", "second", "too.late"]);
    let of_brief = get(api, &format!("/v1/late-payments?template_id={brief}")).await;
    assert_eq!(refs(&of_brief), ["too.late"]);
    let late = &of_brief["data"][0];
    let wanted = [
        ("claim_id", lapsed.id.to_string()),
        ("template_id", brief.to_string()),
        ("user_id", "1".to_owned()),
        ("coupon_id", ids(&lapsed)[0].to_string()),
        ("code", "HOLD_LAPSED".to_owned()),
        ("actor", "platform".to_owned()),
    ];
    for (field, value) in wanted {
        assert_eq!(late[field], value, "{late}");
    }
    assert!(late["lapsed_at"].is_string() && late["refunded_at"].is_null(), "{late}");

    let body = json!({ "claim_id": lapsed.id, "payment_ref": "too.late", "reason": "bank 4711" });
    let marked = post(api, "/v1/late-payments/refunded", &body).await;
    assert_eq!(marked.status, 200, "{}", marked.body);
    let again = post(api, "/v1/late-payments/refunded", &body).await;
    assert_eq!((again.status, &again.body), (200, &marked.body), "byte for byte");
    let record = get(api, &format!("/v1/audit?target=claims/{}", lapsed.id)).await;
    let lines = record["data"].as_array().unwrap();
    assert_eq!((lines.len(), &lines[0]["action"]), (1, &json!("late_payment.refunded")));
    assert_eq!(lines[0]["after"]["reason"], "bank 4711");
    assert_eq!(refs(&get(api, "/v1/late-payments").await), ["for-nothing", "second"]);
    assert_eq!(refs(&get(api, "/v1/late-payments?refunded=true").await), ["too.late"]);
    // The same payment once more changes nothing of that.
    api.confirm(lapsed.id, "too.late", None).await.unwrap();
    assert_eq!(refs(&get(api, "/v1/late-payments?refunded=true").await), ["too.late"]);

    let cli = Cli::of(&world);
    let claim = paid.id;
    let by_cli = cli.json(&format!("late-payments refunded {claim} second --reason bank")).await;
    assert_eq!(by_cli["refunded_by"], "platform");
    let left = cli.json(&format!("late-payments list --template {template}")).await;
    assert_eq!(refs(&left), ["for-nothing"]);
    let done = cli.json("late-payments list --refunded --limit 5").await;
    assert_eq!(refs(&done), ["second", "too.late"]);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_reference_that_confirms_other_coupons_later_says_so_and_no_other_merchant_sees_it() {
    let world = World::start("late and confirmed").await;
    let api = world.api();
    let template = world.template(9, held).await;
    let (_, claim) = claimed(&world, template, 1, "a", 2).await;
    let coupons = ids(&claim);
    assert_eq!(api.confirm(claim.id, "one", Some(&coupons[..1])).await.unwrap().status, 200);
    let both = api.confirm(claim.id, "two", None).await.unwrap();
    assert_eq!(refusal(&both), (409, "ALREADY_CONFIRMED".to_owned()));
    let listed = get(api, "/v1/late-payments").await;
    assert_eq!(listed["data"][0]["confirmed_claim_id"], Value::Null);
    assert_eq!(api.confirm(claim.id, "two", Some(&coupons[1..])).await.unwrap().status, 200);
    let listed = get(api, "/v1/late-payments").await;
    assert_eq!(refs(&listed), ["two"]);
    assert_eq!(listed["data"][0]["confirmed_claim_id"], json!(claim.id));

    let foreign = another_merchant(api).await;
    assert_eq!(refs(&get(&foreign, "/v1/late-payments").await), Vec::<&str>::new());
    let of_it = format!("/v1/late-payments?template_id={template}");
    let hidden = foreign.send(foreign.operator(Method::GET, &of_it)).await.unwrap();
    assert_eq!(refusal(&hidden), (404, "TEMPLATE_NOT_FOUND".to_owned()));
    let refunded = "/v1/late-payments/refunded";
    let body = json!({ "claim_id": claim.id, "payment_ref": "two", "reason": "x" });
    let not_theirs = post(&foreign, refunded, &body).await;
    let unknown = json!({ "claim_id": claim.id, "payment_ref": "Two", "reason": "x" });
    let unknown = post(api, refunded, &unknown).await;
    for hidden in [not_theirs, unknown] {
        assert_eq!(refusal(&hidden), (404, "NOT_FOUND".to_owned()));
    }
    for (body, status, code) in [
        (json!({ "claim_id": claim.id, "payment_ref": "two" }), 400, "MALFORMED_BODY"),
        (json!({ "claim_id": 7, "payment_ref": "two", "reason": "x" }), 400, "MALFORMED_BODY"),
        (
            json!({ "claim_id": claim.id, "payment_ref": "two", "reason": " " }),
            422,
            "INVALID_CHANGE",
        ),
    ] {
        assert_eq!(refusal(&post(api, refunded, &body).await), (status, code.to_owned()), "{body}");
    }
    for (query, status, code) in [
        ("limit=0", 422, "INVALID_LIMIT"),
        ("cursor=7", 400, "INVALID_CURSOR"),
        ("refunded=yes", 400, "MALFORMED_QUERY"),
        ("template_id=x", 400, "MALFORMED_QUERY"),
        ("claim_id=7", 400, "MALFORMED_QUERY"),
    ] {
        let path = format!("/v1/late-payments?{query}");
        let wrong = api.send(api.operator(Method::GET, &path)).await.unwrap();
        assert_eq!(refusal(&wrong), (status, code.to_owned()), "{query}");
    }
    let reader = json!({ "name": "reads", "scopes": ["read"] });
    let reader: Value = post(api, "/v1/api-keys", &reader).await.json().unwrap();
    let reader = api.with_operator_key(reader["key"].as_str().unwrap());
    assert_eq!(refs(&get(&reader, "/v1/late-payments").await), ["two"]);
    let lacking = post(&reader, refunded, &body).await;
    assert_eq!(refusal(&lacking), (403, "SCOPE_LACKING".to_owned()));
    world.assert_sound(None).await;
    world.end().await;
}

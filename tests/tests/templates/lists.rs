//! The list of templates: filters, orders, stock; and query parameters that a route does not take.

use chrono::TimeDelta;
use coupon::UserId;
use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, Claimed, NewTemplate};

async fn get(api: &Api, query: &str) -> Answer {
    api.send(api.operator(Method::GET, &format!("/v1/templates{query}"))).await.unwrap()
}

/// Returns the names of a list, read in pages of two.
async fn names(api: &Api, query: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut cursor = String::new();
    loop {
        let answer = get(api, &format!("?limit=2{query}{cursor}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let page: Value = answer.json().unwrap();
        let data = page["data"].as_array().unwrap();
        names.extend(data.iter().map(|one| one["name"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { return names };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn a_list_is_filtered_sorted_and_shows_the_stock_and_the_platform_sees_all() {
    let world = World::start("template lists").await;
    let api = world.api();
    let now = world.clock.now();
    let hours = TimeDelta::hours;
    let of = |name: &str, starts: i64, ends: i64| NewTemplate {
        claim_starts_at: now + hours(starts),
        claim_ends_at: now + hours(ends),
        ..NewTemplate::simple(name, 10, now, hours(1))
    };
    let spring = api.publish_new(&of("Spring sale", -3, 5)).await.unwrap().id;
    api.publish_new(&of("Autumn SALE", -1, 9)).await.unwrap();
    api.create(&of("Ein Entwurf für später", 2, 4)).await.unwrap();
    let paused = api.publish_new(&of("100% off_", -2, 7)).await.unwrap().id;
    api.turn(paused, "pause").await.unwrap();

    for (query, wanted) in [
        ("", &["100% off_", "Ein Entwurf für später", "Autumn SALE", "Spring sale"][..]),
        ("&state=published", &["Autumn SALE", "Spring sale"]),
        ("&state=ended", &[]),
        ("&q=sale", &["Autumn SALE", "Spring sale"]),
        ("&q=F%C3%9CR", &["Ein Entwurf für später"]),
        ("&q=SP%C3%84TER", &["Ein Entwurf für später"]),
        // Neither is a pattern.
        ("&q=%25", &["100% off_"]),
        ("&q=_", &["100% off_"]),
        ("&q=sale&state=draft", &[]),
        ("&sort=starts_at", &["Spring sale", "100% off_", "Autumn SALE", "Ein Entwurf für später"]),
        ("&sort=ends_at", &["Ein Entwurf für später", "Spring sale", "100% off_", "Autumn SALE"]),
        ("&sort=ends_at&state=published", &["Spring sale", "Autumn SALE"]),
    ] {
        assert_eq!(names(api, query).await, wanted, "{query}");
        assert_eq!(names(api, &format!("{query}&merchant_id=all")).await, wanted, "{query}");
    }

    for user in [1, 2, 3] {
        let shopper = api.shopper(UserId(user)).unwrap();
        let claimed: Claimed = shopper.claim(spring, None, 1).await.unwrap().json().unwrap();
        if user < 3 {
            let order = format!("order-{user}");
            let used = shopper.use_coupon(claimed.coupons[0].id, &order).await.unwrap();
            assert_eq!(used.status, 200);
        }
    }
    let page: Value = get(api, "?q=spring&include=stock").await.json().unwrap();
    let stock = json!({ "total": 10, "landed": 3, "left": 7, "used": 2 });
    assert_eq!(page["data"][0]["stock"], stock);
    assert_eq!(page["data"][0].get("merchant_id"), None);
    let page: Value = get(api, "?q=autumn&include=stock&merchant_id=1").await.json().unwrap();
    assert_eq!(
        (&page["data"][0]["stock"]["used"], &page["data"][0]["merchant_id"]),
        (&json!(0), &json!("1"))
    );
    assert_that_strangers_and_nonsense_are_refused(api).await;
    world.assert_sound(None).await;
    world.end().await;
}

/// In lower case the last letter of a Greek word is another one than within it, and capitals bear no accents.
#[tokio::test]
async fn a_template_named_in_greek_is_found_in_capitals_and_by_a_part_of_a_word() {
    let world = World::start("greek names").await;
    let api = world.api();
    let greek = "Εκπτώσεις του χειμώνα";
    for name in [greek, "Rabatt auf der Straße"] {
        let new = NewTemplate::simple(name, 1, world.clock.now(), TimeDelta::hours(1));
        api.create(&new).await.unwrap();
    }
    let found = async |part: &str| {
        let encoded: String = part.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let page: Value = get(api, &format!("?q={encoded}")).await.json().unwrap();
        page["data"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect::<Vec<_>>()
    };
    for part in ["ΕΚΠΤΩΣΕΙΣ", "εκπτώσεις", "ΕΚΠΤΏΣΕΙΣ ΤΟΥ", "εκπτωσ", "Χειμωνα"]
    {
        assert_eq!(found(part).await, [greek], "{part}");
    }
    assert_eq!(found("STRASSE").await, ["Rabatt auf der Straße"]);
    assert_eq!(found("ΕΚΠΤΩΣΗ").await, [Value::Null; 0]);
    world.end().await;
}

async fn assert_that_strangers_and_nonsense_are_refused(api: &Api) {
    let merchant = api.operator(Method::POST, "/v1/merchants").json(&json!({ "name": "Other" }));
    let merchant: Value = api.send(merchant).await.unwrap().json().unwrap();
    let key = json!({ "name": "x", "scopes": ["read"], "merchant_id": merchant["id"] });
    let key = api.operator(Method::POST, "/v1/api-keys").json(&key);
    let key: Value = api.send(key).await.unwrap().json().unwrap();
    let other = api.with_operator_key(key["key"].as_str().unwrap());
    assert!(names(&other, "").await.is_empty());
    for (api, query, status, code) in [
        (&other, "?merchant_id=all", 403, "PLATFORM_ONLY"),
        (&other, "?merchant_id=1", 403, "PLATFORM_ONLY"),
        (api, "?merchant_id=one", 400, "MALFORMED_QUERY"),
        (api, "?state=open", 422, "INVALID_STATUS"),
        (api, "?sort=name", 400, "MALFORMED_QUERY"),
        (api, "?include=claims", 400, "MALFORMED_QUERY"),
        (api, "?limit=101", 422, "INVALID_LIMIT"),
        (api, "?cursor=x", 400, "INVALID_CURSOR"),
        (api, "?sort=starts_at&cursor=7", 400, "INVALID_CURSOR"),
        // A year that MySQL does not have.
        (api, "?sort=ends_at&cursor=8000000000000000.7", 400, "INVALID_CURSOR"),
    ] {
        let answer = get(api, query).await;
        assert_eq!((answer.status, answer.code().as_deref()), (status, Some(code)), "{query}");
    }
}

#[tokio::test]
async fn no_route_takes_a_query_parameter_that_it_does_not_describe() {
    let world = World::start("unknown parameters").await;
    let api = world.api();
    let document = api.anonymous(Method::GET, "/openapi.json");
    let document: Value = api.send(document).await.unwrap().json().unwrap();
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
        let parts: Vec<&str> = parts.collect();
        for (method, operation) in item.as_object().unwrap() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let sent = format!("{}?statuss=used", parts.join("/"));
            // It is refused before the caller is identified.
            let answer = api.send(api.anonymous(method.clone(), &sent)).await.unwrap();
            assert_eq!(
                (answer.status, answer.code().as_deref()),
                (400, Some("MALFORMED_QUERY")),
                "{method} {path}: {answer:?}"
            );
            let problem: Value = answer.json().unwrap();
            let described = operation["parameters"].as_array().into_iter().flatten();
            let described = described.filter(|one| one["in"] == "query").map(|one| &one["name"]);
            let known = problem["known"].as_array().unwrap().iter();
            assert!(known.eq(described), "{method} {path}: {problem}");
            assert_eq!(problem["parameter"], "statuss");
            asked += 1;
        }
    }
    assert!(asked > 30, "{asked}");
    let known = api.operator(Method::GET, "/v1/templates?limit=1&");
    assert_eq!(api.send(known).await.unwrap().status, 200);
    world.end().await;
}

//! Merchants and their operators' keys: each sees its own data, may do what its scopes allow, and ends when revoked.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{TemplateId, UserId};
use devstack::PlatformOptions;
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, Claimed, NewTemplate};
use tokio::time::Instant;

/// Limit for another process to notice a revoked key: two seconds (`docs/api.md`), and the rest for a slow machine.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

async fn send(api: &Api, method: Method, path: &str, body: &Value) -> Answer {
    let request = api.operator(method, path);
    let request = if body.is_null() { request } else { request.json(body) };
    api.send(request).await.unwrap()
}

async fn get(api: &Api, path: &str) -> Answer {
    send(api, Method::GET, path, &Value::Null).await
}

async fn post(api: &Api, path: &str, body: &Value) -> Answer {
    send(api, Method::POST, path, body).await
}

/// Creates a resource, and returns it.
pub(crate) async fn made(api: &Api, path: &str, body: &Value) -> Value {
    let answer = post(api, path, body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Creates a merchant; returns its operator with all scopes.
pub(crate) async fn merchant(world: &World, name: &str) -> Api {
    let merchant = made(world.api(), "/v1/merchants", &json!({ "name": name })).await;
    assert_eq!(merchant["name"], name);
    let key = json!({ "name": "first", "scopes": ["admin"], "merchant_id": merchant["id"] });
    let key = made(world.api(), "/v1/api-keys", &key).await;
    assert_eq!(key["merchant_id"], merchant["id"]);
    world.api().with_operator_key(text(&key["key"]))
}

/// Creates a key of the operator's own merchant with one scope; returns the operator and the key's id.
async fn key_with(api: &Api, scope: &str) -> (Api, String) {
    let key = made(api, "/v1/api-keys", &json!({ "name": scope, "scopes": [scope] })).await;
    assert_eq!(key["scopes"], json!([scope]));
    (api.with_operator_key(text(&key["key"])), text(&key["id"]).to_owned())
}

fn refused(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code().unwrap_or_default())
}

pub(crate) async fn published(world: &World, api: &Api) -> TemplateId {
    let new = NewTemplate::simple("Theirs", 10, world.clock.now(), TimeDelta::hours(1));
    api.publish_new(&new).await.unwrap().id
}

#[tokio::test]
async fn a_merchant_sees_and_changes_its_own_and_nobody_elses() {
    let world = World::start("merchants").await;
    let one = merchant(&world, "One").await;
    let other = merchant(&world, "Other").await;
    let template = published(&world, &one).await;
    let path = format!("/v1/templates/{template}");
    let movement = json!({ "delta": 5, "reason": "more" });
    let nothing = Value::Null;
    for (method, sub, body) in [
        (Method::GET, "", &nothing),
        (Method::GET, "/stock", &nothing),
        (Method::GET, "/validity-move", &nothing),
        (Method::PATCH, "", &json!({ "version": 2, "name": "Mine" })),
        (Method::POST, "/pause", &nothing),
        (Method::POST, "/end", &nothing),
        (Method::POST, "/gate-rebuild", &nothing),
    ] {
        for stranger in [&other, world.api()] {
            // The platform's own key sees every merchant's templates, and may halt them.
            let is_looked_at = method == Method::GET || sub == "/pause";
            if is_looked_at && std::ptr::eq(stranger, world.api()) {
                continue;
            }
            let answer = send(stranger, method.clone(), &format!("{path}{sub}"), body).await;
            let expected = (404, "TEMPLATE_NOT_FOUND".to_owned());
            assert_eq!(refused(&answer), expected, "{method} {sub}");
        }
    }
    let request = other.operator(Method::POST, &format!("{path}/stock-movements"));
    let answer = other.send(request.header("idempotency-key", "m").json(&movement)).await.unwrap();
    assert_eq!(refused(&answer), (404, "TEMPLATE_NOT_FOUND".to_owned()));
    let list = get(&other, "/v1/templates").await.json::<Value>().unwrap();
    assert_eq!(list["data"], json!([]));

    // Shoppers belong to the platform: they can claim from any template, but only its owner can look the claim up.
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let claimed: Claimed = shopper.claim(template, None, 1).await.unwrap().json().unwrap();
    let claim = format!("/v1/claim-states/{}", claimed.id);
    for path in [claim.clone(), format!("{claim}/story")] {
        assert_eq!(get(&one, &path).await.status, 200);
        // Like an id that no claim has.
        assert_eq!(refused(&get(&other, &path).await), (422, "TEMPLATE_NEEDED".to_owned()));
    }
    let coupons = async |api| get(api, "/v1/users/1/coupons").await.json::<Value>().unwrap();
    assert_eq!(coupons(&one).await["data"].as_array().unwrap().len(), 1);
    assert_eq!(coupons(&other).await["data"], json!([]));

    assert_keys_and_the_record_are_its_own(&world, &one, &other).await;
    assert_eq!(one.template(template).await.unwrap().version, 2, "nothing has changed");
    assert_eq!(one.stock(template).await.unwrap().total, 10);
    world.assert_sound(None).await;
    world.end().await;
}

/// Keys and audit records belong to a merchant too; the platform may query all of them.
async fn assert_keys_and_the_record_are_its_own(world: &World, one: &Api, other: &Api) {
    let nothing = Value::Null;
    let keys = get(one, "/v1/api-keys").await.json::<Value>().unwrap();
    let key = &keys["items"][0];
    assert_eq!(keys["items"].as_array().unwrap().len(), 1);
    assert!(key.get("key").is_none(), "a key is shown once: {key}");
    let id = text(&key["id"]);
    let merchant = text(&key["merchant_id"]);
    let key_path = format!("/v1/api-keys/{id}");
    let not_found = (404, "KEY_NOT_FOUND".to_owned());
    assert_eq!(refused(&send(other, Method::DELETE, &key_path, &nothing).await), not_found);
    assert_eq!(refused(&post(other, &format!("{key_path}/rotate"), &json!({})).await), not_found);
    let platform_only = (403, "PLATFORM_ONLY".to_owned());
    for path in ["/v1/api-keys", "/v1/audit"] {
        let theirs = format!("{path}?merchant_id={merchant}");
        assert_eq!(refused(&get(other, &theirs).await), platform_only);
        assert_eq!(
            (get(one, &theirs).await.status, get(world.api(), &theirs).await.status),
            (200, 200)
        );
    }
    let theirs = json!({ "name": "x", "scopes": ["read"], "merchant_id": merchant });
    assert_eq!(refused(&post(other, "/v1/api-keys", &theirs).await), platform_only);
    assert_eq!(
        refused(&post(other, "/v1/merchants", &json!({ "name": "x" })).await),
        platform_only
    );
    assert_eq!(refused(&get(other, "/v1/merchants").await), platform_only);
    assert_eq!(refused(&get(other, "/v1/expiry").await), platform_only);
    let merchants = get(world.api(), "/v1/merchants").await.json::<Value>().unwrap();
    let names: Vec<&str> =
        merchants["data"].as_array().unwrap().iter().map(|one| text(&one["name"])).collect();
    assert_eq!(names, ["Other", "One", "Platform"]);
}

#[tokio::test]
async fn a_scope_allows_what_it_includes_and_no_more() {
    let world = World::start("scopes").await;
    let shop = merchant(&world, "A shop").await;
    let draft = NewTemplate::simple("A sale", 10, world.clock.now(), TimeDelta::hours(1));
    let template = shop.create(&draft).await.unwrap().id;
    let publish = format!("/v1/templates/{template}/publish");
    let edit = format!("/v1/templates/{template}");
    let name = json!({ "version": 1, "name": "Another" });
    for (scope, operates, administers) in
        [("read", false, false), ("operate", true, false), ("admin", true, true)]
    {
        let (api, _) = key_with(&shop, scope).await;
        assert_eq!(get(&api, "/v1/templates").await.status, 200);
        assert_eq!(get(&api, "/v1/audit").await.status, 200);
        let lacks = |answer: &Answer, needed: &str| {
            let body: Value = answer.json().unwrap();
            refused(answer) == (403, "SCOPE_LACKING".to_owned()) && body["scope"] == needed
        };
        for answer in [
            post(&api, &publish, &Value::Null).await,
            send(&api, Method::PATCH, &edit, &name).await,
        ] {
            assert_eq!(lacks(&answer, "operate"), !operates, "{scope}: {answer:?}");
        }
        let wish = json!({ "name": "x", "scopes": ["read"] });
        let made = post(&api, "/v1/api-keys", &wish).await;
        let listed = get(&api, "/v1/api-keys").await;
        if administers {
            assert_eq!((made.status, listed.status), (201, 200));
        } else {
            let least = if operates { "admin" } else { "operate" };
            assert!(lacks(&made, least) && lacks(&listed, "admin"), "{made:?} {listed:?}");
        }
    }
    world.end().await;
}

#[tokio::test]
async fn a_key_with_an_end_makes_none_that_outlives_it_and_replaces_keys_until_then() {
    let world = World::start("lives of keys").await;
    let shop = merchant(&world, "A shop").await;
    let day = world.clock.now() + TimeDelta::days(1);
    let wish = json!({ "name": "guest", "scopes": ["admin"], "expires_at": day });
    let guest_key = made(&shop, "/v1/api-keys", &wish).await;
    let guest = shop.with_operator_key(text(&guest_key["key"]));
    let latest = text(&guest_key["expires_at"]);
    for later in [Value::Null, json!(day + TimeDelta::seconds(1))] {
        let wish = json!({ "name": "x", "scopes": ["read"], "expires_at": later });
        let answer = post(&guest, "/v1/api-keys", &wish).await;
        assert_eq!(refused(&answer), (403, "LIFE_TOO_LONG".to_owned()));
        assert_eq!(text(&answer.json::<Value>().unwrap()["latest"]), latest);
    }
    let same = json!({ "name": "x", "scopes": ["read"], "expires_at": day });
    assert_eq!(post(&guest, "/v1/api-keys", &same).await.status, 201);
    // A replacement ends when the guest's key does, whether it replaces that key itself or one without an end.
    let endless = made(&shop, "/v1/api-keys", &json!({ "name": "till", "scopes": ["read"] })).await;
    assert_eq!(endless["expires_at"], Value::Null);
    for id in [&endless["id"], &guest_key["id"]] {
        let path = format!("/v1/api-keys/{}/rotate", text(id));
        let new = made(&guest, &path, &json!({ "overlap_seconds": 3_600 })).await;
        assert_eq!(text(&new["expires_at"]), latest, "{new}");
    }
    // The guest's key now ends earlier, and so do the keys it creates.
    assert_eq!(refused(&post(&guest, "/v1/api-keys", &same).await).1, "LIFE_TOO_LONG");
    let unending = json!({ "name": "y", "scopes": ["read"] });
    assert_eq!(made(&shop, "/v1/api-keys", &unending).await["expires_at"], Value::Null);
    world.end().await;
}

#[tokio::test]
async fn the_list_says_when_a_key_was_last_used() {
    let world = World::start("uses of keys").await;
    let shop = merchant(&world, "A shop").await;
    let (used, id) = key_with(&shop, "read").await;
    let (_, unused) = key_with(&shop, "read").await;
    let before = world.clock.now() - TimeDelta::seconds(1);
    let last_use = async |id: &str| {
        let keys: Value = get(&shop, "/v1/api-keys").await.json().unwrap();
        let key = keys["items"].as_array().unwrap().iter().find(|key| key["id"] == id).unwrap();
        key["last_used_at"].as_str().map(str::to_owned)
    };
    assert_eq!(last_use(&id).await, None);
    assert_eq!(get(&used, "/v1/templates").await.status, 200);
    let at = until(async || last_use(&id).await, Option::is_some).await.unwrap();
    let at: DateTime<Utc> = at.parse().unwrap();
    assert!(before <= at && at <= world.clock.now(), "{at}");
    assert_eq!(last_use(&unused).await, None);
    world.end().await;
}

/// Waits until a key is refused; returns how long that took.
async fn until_refused(api: &Api) -> Duration {
    let started = Instant::now();
    until(async || get(api, "/v1/templates").await.status, |status| *status == 401).await;
    started.elapsed()
}

#[tokio::test]
async fn a_key_that_was_revoked_replaced_or_has_ended_is_refused_by_every_api_within_seconds() {
    let two = |options| PlatformOptions { apis: 2, ..options };
    let world = World::start_with("ends of keys", two).await;
    let shop = merchant(&world, "A shop").await;
    let elsewhere = |key: &str| world.apis[1].with_operator_key(key);
    let make = async |body: Value| made(&shop, "/v1/api-keys", &body).await;
    let accepted = async |api: &Api| get(api, "/v1/templates").await.status == 200;

    let key = make(json!({ "name": "till", "scopes": ["read"] })).await;
    let here = shop.with_operator_key(text(&key["key"]));
    let there = elsewhere(text(&key["key"]));
    assert!(accepted(&here).await && accepted(&there).await);
    let path = format!("/v1/api-keys/{}", text(&key["id"]));
    for _ in 0..2 {
        let revoked = send(&shop, Method::DELETE, &path, &Value::Null).await;
        assert_eq!((revoked.status, revoked.body.as_str()), (204, ""));
        assert!(!accepted(&here).await, "at once where it was done");
    }
    assert!(until_refused(&there).await < NOTICED_WITHIN);
    let again = post(&shop, &format!("{path}/rotate"), &json!({})).await;
    assert_eq!(refused(&again), (409, "KEY_NOT_LIVE".to_owned()));

    // Rotation: both keys are accepted during the overlap, or the old one ends at once.
    let year = world.clock.now() + TimeDelta::days(365);
    let key = make(json!({ "name": "till", "scopes": ["read"], "expires_at": year })).await;
    let old = elsewhere(text(&key["key"]));
    let path = format!("/v1/api-keys/{}/rotate", text(&key["id"]));
    let second = made(&shop, &path, &json!({})).await;
    assert_eq!((&second["name"], &second["scopes"]), (&key["name"], &key["scopes"]));
    assert!(text(&second["expires_at"]) > text(&key["expires_at"]), "as long a life, from now on");
    assert!(accepted(&old).await && accepted(&elsewhere(text(&second["key"]))).await);
    let third = made(&shop, &path, &json!({ "overlap_seconds": 0 })).await;
    assert!(until_refused(&old).await < NOTICED_WITHIN);
    assert!(accepted(&elsewhere(text(&third["key"]))).await);

    let soon = world.clock.now() + TimeDelta::seconds(6);
    let key = make(json!({ "name": "guest", "scopes": ["read"], "expires_at": soon })).await;
    let guest = elsewhere(text(&key["key"]));
    assert!(accepted(&guest).await);
    until_refused(&guest).await;
    assert!(world.clock.now() >= soon);

    // Invalid keys.
    let past = world.clock.now() - TimeDelta::seconds(1);
    for body in [
        json!({ "name": "", "scopes": ["read"] }),
        json!({ "name": "n".repeat(101), "scopes": ["read"] }),
        json!({ "name": "x", "scopes": [] }),
        json!({ "name": "x", "scopes": ["root"] }),
        json!({ "name": "x", "scopes": ["read"], "expires_at": past }),
        json!({ "name": "x", "scopes": ["read"], "expires_at": "9999-01-01T00:00:00Z" }),
    ] {
        let answer = post(&shop, "/v1/api-keys", &body).await;
        assert_eq!(refused(&answer), (422, "INVALID_KEY".to_owned()), "{body}");
    }
    let nobody = json!({ "name": "x", "scopes": ["read"], "merchant_id": "12345" });
    let answer = post(world.api(), "/v1/api-keys", &nobody).await;
    assert_eq!(refused(&answer), (422, "INVALID_KEY".to_owned()));
    world.end().await;
}

//! Lists with a row that cannot be read: they show all others, and name it.

use coupon::UserId;
use mysql_store::verify;
use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Claimed, NewTemplate};

use crate::operators::{cli::Cli, merchants::made};

#[tokio::test]
async fn a_list_shows_what_it_can_read_and_names_what_it_cannot() {
    let world = World::start("damaged rows").await;
    let api = world.api();
    let key = json!({ "name": "k", "scopes": ["read"] });
    let key = made(api, "/v1/api-keys", &key).await["id"].as_str().unwrap().to_owned();
    made(api, "/v1/api-keys", &json!({ "name": "other", "scopes": ["read"] })).await;
    let template = world.template(10, |new| NewTemplate { per_user_limit: 2, ..new }).await;
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let mut coupons = Vec::new();
    for name in ["a", "b"] {
        let claimed: Claimed =
            shopper.claim(template, Some(name), 1).await.unwrap().json().unwrap();
        coupons.push(claimed.coupons[0].id.to_string());
    }
    // As a dump that was loaded in a lax mode leaves them.
    let mut connection = world.mysql().await;
    for statement in [
        "set session sql_mode = ''".to_owned(),
        format!("update api_key set expires_at = '0000-00-00 00:00:00' where id = {key}"),
        format!(
            "update audit_entry set created_at = '0000-00-00 00:00:00' where target = 'api-keys/{key}'"
        ),
        format!(
            "update user_coupon set valid_from = '0000-00-00 00:00:00', version = version + 1 where id = {}",
            coupons[0]
        ),
    ] {
        verify::execute(&mut connection, &statement).await.unwrap();
    }
    let list = async |path: &str| -> Value {
        let answer = api.send(api.operator(Method::GET, path)).await.unwrap();
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json().unwrap()
    };
    let keys = list("/v1/api-keys").await;
    assert_eq!((keys["items"].as_array().unwrap().len(), &keys["unreadable"]), (1, &json!([key])));
    let cli = Cli::of(&world);
    let shown = cli.run("key list").await;
    let said = format!("coupon: warning: 1 row cannot be read: api key {key}.\n");
    assert_eq!((shown.code, &shown.err), (0, &said), "{shown:?}");
    let looked = cli.run("user show 1").await;
    let said = format!("1 row cannot be read: coupon {}.", coupons[0]);
    assert!(looked.code == 0 && looked.err.contains(&said), "{looked:?}");
    let looked = list("/v1/users/1/coupons").await;
    let shown = looked["data"].as_array().unwrap();
    assert_eq!((shown.len(), &shown[0]["id"]), (1, &json!(coupons[1])));
    assert_eq!(looked["unreadable"], json!([coupons[0]]));
    // The damaged one alone on its page: the list goes on.
    let page = list("/v1/users/1/coupons?limit=1").await;
    let next = page["next_cursor"].as_str().unwrap();
    let last = list(&format!("/v1/users/1/coupons?limit=1&cursor={next}")).await;
    assert_eq!((&last["data"], &last["unreadable"]), (&json!([]), &json!([coupons[0]])));
    // Nobody can tell whose it is, and nothing else has the id.
    let found = list(&format!("/v1/search?q={}", coupons[0])).await;
    assert_eq!(found["items"], json!([]));
    let record = list("/v1/audit?limit=100").await;
    assert_eq!(record["unreadable"].as_array().unwrap().len(), 1, "{record}");
    assert!(record["data"].as_array().unwrap().len() >= 3);
    assert!(list("/v1/templates").await.get("unreadable").is_none(), "nothing is damaged there");
    world.end().await;
}

/// A damaged row of each list of a template, and what names it there.
#[tokio::test]
async fn a_templates_lists_and_exports_name_the_row_that_they_cannot_read_and_have_all_others() {
    let world = World::start("damaged history").await;
    let template = world.template(10, |new| NewTemplate { per_user_limit: 2, ..new }).await;
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let mut claimed = Vec::new();
    for name in ["a", "b"] {
        let answer = shopper.claim(template, Some(name), 1).await.unwrap();
        claimed.push(answer.json::<Claimed>().unwrap());
    }
    let claim = claimed[0].id.to_string();
    let coupon = claimed[1].coupons[0].id.to_string();
    let mut connection = world.mysql().await;
    for statement in [
        "set session sql_mode = ''".to_owned(),
        format!("update claim set created_at = '0000-00-00 00:00:00' where id = {claim}"),
        format!("update user_coupon set status = 99, version = version + 1 where id = {coupon}"),
        format!("update stock_movement set kind = 99 where template_id = {template} and seq = 1"),
    ] {
        verify::execute(&mut connection, &statement).await.unwrap();
    }
    let lists = [
        ("claims", claim.clone(), 1),
        ("coupons", coupon, 1),
        ("movements", "1".to_owned(), 0),
        ("ledger", format!("claim {claim}"), 1),
    ];
    for (list, named, others) in lists {
        let answer = |form: &'static str| {
            let path = format!("/v1/templates/{template}/{list}");
            let request = world.api().operator(Method::GET, &path).header("accept", form);
            async { world.api().send(request).await.unwrap() }
        };
        let page: Value = answer("application/json").await.json().unwrap();
        let unreadable = page["unreadable"].as_array().unwrap();
        assert!(unreadable.contains(&json!(named)), "{list}: {page}");
        assert_eq!(page["data"].as_array().unwrap().len(), others, "{list}: {page}");
        let lines = answer("application/x-ndjson").await.body;
        let damaged = json!({ "unreadable": named }).to_string();
        assert!(lines.lines().any(|line| line == damaged), "{list}: {lines}");
        assert_eq!(lines.lines().count(), others + unreadable.len(), "{list}: {lines}");
        let table = answer("text/csv").await.body;
        let heads = table.lines().next().unwrap().split(',').count();
        let damaged = format!("unreadable {named}{}", ",".repeat(heads - 1));
        assert!(table.lines().any(|line| line == damaged), "{list}: {table}");
        assert_eq!(table.lines().count(), 1 + others + unreadable.len(), "{list}: {table}");
    }
    world.end().await;
}

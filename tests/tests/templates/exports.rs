//! A template's movements, claims and coupons: as pages, and whole as NDJSON and CSV.

use coupon::{TemplateId, UserId};
use devstack::Flavor;
use devstack::PlatformOptions;
use mysql_store::verify::{self, BULK_ROWS, insert_bulk_of};
use pipeline_tests::{STATE_MAX, World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, Claimed, NewTemplate};
use testkit::sql;

use crate::claims::full::unknown_ids;

/// Bulks of coupons in a list that is longer than both systems buffer for a connection: 16 MB of NDJSON.
const BULKS: i64 = 6;

/// Exports of one merchant at a time (`docs/api.md`).
const EXPORTS: i64 = 2;

/// Most tries of one chunk.
const TRIES: i64 = 4;

/// The smallest pool that an api accepts.
const POOL: usize = 4;

async fn get(api: &Api, path: &str, accept: &str) -> Answer {
    api.send(api.operator(Method::GET, path).header("accept", accept)).await.unwrap()
}

/// Returns the rows of a list, read in pages.
async fn pages(api: &Api, path: &str, query: &str, limit: usize) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let sent = format!("{path}?limit={limit}{query}{cursor}");
        let answer = get(api, &sent, "application/json").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let page: Value = answer.json().unwrap();
        let data = page["data"].as_array().unwrap();
        assert!(data.len() <= limit);
        rows.extend(data.clone());
        let Some(next) = page["next_cursor"].as_str() else { return rows };
        cursor = format!("&cursor={next}");
    }
}

async fn ndjson(api: &Api, path: &str) -> Vec<Value> {
    let answer = get(api, path, "application/x-ndjson").await;
    assert_eq!((answer.status, answer.content_type.as_str()), (200, "application/x-ndjson"));
    answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn move_stock(api: &Api, template: TemplateId, delta: i64, reason: &str) {
    let path = format!("/v1/templates/{template}/stock-movements");
    let request = api.operator(Method::POST, &path).header("idempotency-key", reason.len());
    let body = json!({ "delta": delta, "reason": reason, "confirm": "A sale" });
    assert_eq!(api.send(request.json(&body)).await.unwrap().status, 201);
}

#[tokio::test]
async fn pages_ndjson_and_csv_have_the_same_rows_and_no_cell_is_a_formula() {
    same_rows(Flavor::Mariadb).await;
}

async fn same_rows(flavor: Flavor) {
    let started = World::start_on_flavor(flavor, "exports", |options| options).await;
    let Some(world) = started else { return };
    let api = world.api();
    let several = |new| NewTemplate { per_user_limit: 3, max_per_claim: 3, ..new };
    let template = world.template(100, several).await;
    for user in 1..=8 {
        let shopper = api.shopper(UserId(user)).unwrap();
        let claimed = shopper.claim(template, Some("a"), 3).await.unwrap();
        let claimed: Claimed = claimed.json().unwrap();
        if user % 2 == 0 {
            let order = format!("=order,{user}");
            let used = shopper.use_coupon(claimed.coupons[0].id, &order).await.unwrap();
            assert_eq!(used.status, 200);
        }
    }
    move_stock(api, template, 5, "=1+1, \"twice\"").await;
    move_stock(api, template, -4, "@less").await;

    let path = |list: &str| format!("/v1/templates/{template}/{list}");
    for (list, rows) in [("movements", 3), ("claims", 8), ("coupons", 24)] {
        let all = ndjson(api, &path(list)).await;
        assert_eq!(all.len(), rows, "{list}");
        for limit in [1, 7, 100] {
            assert_eq!(pages(api, &path(list), "", limit).await, all, "{list}");
        }
        let csv = get(api, &path(list), "text/csv").await;
        assert_eq!(csv.content_type, "text/csv; charset=utf-8; header=present");
        let file = format!("attachment; filename=\"{list}-{template}.csv\"");
        assert_eq!(csv.header("content-disposition"), Some(file.as_str()));
        let lines: Vec<&str> = csv.body.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), rows + 1, "{}", csv.body);
        let columns = lines[0].split(',').count();
        assert_eq!(columns, all[0].as_object().unwrap().len(), "{}", lines[0]);
        assert!(lines.iter().all(|line| !line.starts_with(['=', '+', '-', '@'])), "{}", csv.body);
    }
    let movements = get(api, &path("movements"), "text/csv").await.body;
    let lines: Vec<&str> = movements.lines().collect();
    assert!(lines[2].starts_with("2,5,\"'=1+1, \"\"twice\"\"\",platform,"), "{movements}");
    assert!(lines[3].starts_with("3,-4,'@less,platform,"), "{movements}");
    assert!(lines[2].ends_with(",105,81,total,5"), "{movements}");
    assert!(lines[3].ends_with(",101,77,total,-4"), "{movements}");
    let coupons = get(api, &path("coupons"), "text/csv").await.body;
    assert!(coupons.contains(",\"'=order,2\"\r\n"), "{coupons}");

    for (query, rows) in [
        ("&status=used", 4),
        ("&status=unused", 20),
        ("&status=expired", 0),
        ("&user_id=3", 3),
        ("&user_id=4&status=used", 1),
        ("&user_id=99", 0),
        ("&to=2020-01-01T00:00:00Z", 0),
        ("&from=2020-01-01T00:00:00Z", 24),
    ] {
        assert_eq!(pages(api, &path("coupons"), query, 2).await.len(), rows, "{query}");
        let whole = ndjson(api, &path(&format!("coupons?{}", &query[1..]))).await;
        assert_eq!(whole.len(), rows, "{query}");
    }
    assert_eq!(pages(api, &path("claims"), "&user_id=3&state=landed", 1).await.len(), 1);
    assert!(pages(api, &path("claims"), "&state=given_up", 1).await.is_empty());

    for (sent, accept, status, code) in [
        ("coupons", "text/html", 406, "NOT_ACCEPTABLE"),
        ("stock", "text/csv", 406, "NOT_ACCEPTABLE"),
        ("coupons?limit=5", "text/csv", 400, "MALFORMED_QUERY"),
        ("coupons?status=lost", "*/*", 422, "INVALID_STATUS"),
        ("claims?state=void", "*/*", 422, "INVALID_STATUS"),
        ("claims?cursor=1", "*/*", 400, "INVALID_CURSOR"),
        ("movements?cursor=-1", "*/*", 400, "INVALID_CURSOR"),
        ("coupons?from=yesterday", "text/csv", 400, "MALFORMED_QUERY"),
        ("movements?limit=0", "*/*", 422, "INVALID_LIMIT"),
    ] {
        let answer = get(api, &path(sent), accept).await;
        assert_eq!((answer.status, answer.code().as_deref()), (status, Some(code)), "{sent}");
    }
    for list in ["movements", "claims", "coupons"] {
        let foreign = format!("/v1/templates/1/{list}");
        let answer = get(api, &foreign, "text/csv").await;
        assert_eq!(answer.code().as_deref(), Some("TEMPLATE_NOT_FOUND"));
    }
    world.assert_sound(None).await;
    world.end().await;
}

/// A template with [`BULKS`] bulks of coupons, each of another user.
async fn template_of_bulks(world: &World) -> TemplateId {
    let template = world.template(1, |new| new).await;
    let mut connection = world.mysql().await;
    for bulk in 0..BULKS {
        let first = 1_000_000 + bulk * BULK_ROWS;
        insert_bulk_of(&mut connection, template, first, world.clock.now()).await.unwrap();
    }
    template
}

mod full {
    use super::*;

    #[tokio::test]
    #[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
    async fn an_export_of_a_mysql_that_nobody_takes_holds_no_connection_and_goes_on_where_it_was() {
        not_taken(Flavor::Mysql).await;
    }

    #[tokio::test]
    #[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
    async fn pages_ndjson_and_csv_of_a_mysql_have_the_same_rows_and_no_cell_is_a_formula() {
        same_rows(Flavor::Mysql).await;
    }

    #[tokio::test]
    async fn an_export_that_nobody_takes_holds_no_connection_and_goes_on_where_it_was() {
        not_taken(Flavor::Mariadb).await;
    }

    async fn not_taken(flavor: Flavor) {
        let small =
            |options: PlatformOptions| options.with_env("DATABASE_CONNECTIONS", &POOL.to_string());
        let started = World::start_on_flavor(flavor, "slow exports", small).await;
        let Some(world) = started else { return };
        let api = world.api();
        let template = template_of_bulks(&world).await;
        let path = format!("/v1/templates/{template}/coupons");
        let export = || api.operator(Method::GET, &path).header("accept", "application/x-ndjson");
        let mut slow = Vec::new();
        for _ in 0..2 {
            slow.push(export().timeout(STATE_MAX).send().await.unwrap());
        }
        // A merchant has no third one meanwhile.
        let third = api.send(export()).await.unwrap();
        assert_eq!((third.status, third.code().as_deref()), (503, Some("OVERLOADED")));
        for _ in 0..3 * POOL {
            assert_eq!(api.stock(template).await.unwrap().total, 1, "others are served");
        }
        for whole in slow {
            let body = whole.text().await.unwrap();
            assert_eq!(body.lines().count() as i64, BULKS * BULK_ROWS);
            let mut last = -1;
            for line in body.lines() {
                let row: Value = serde_json::from_str(line).unwrap();
                let user = row["user_id"].as_str().unwrap().parse::<i64>().unwrap();
                assert!(user > last, "each once, in order");
                last = user;
            }
        }
        world.end().await;
    }

    /// A locked table keeps each export at its first chunk until the api has noticed that the client is gone. Chunks are
    /// counted in the server's general log.
    #[tokio::test]
    async fn an_export_that_sends_nothing_ends_when_its_client_has_left_and_gives_its_place_back() {
        let (own, world) = unknown_ids::start("left-exports", |options| options).await;
        let api = world.api();
        let template = template_of_bulks(&world).await;
        let chunks = || -> i64 {
            let count = "select count(*) from mysql.general_log where command_type = 'Execute' \
                         and argument like '%from user_coupon force index (uq_number)%'";
            sql(&own.url(), count).trim().parse().unwrap()
        };
        let export = |list: &str| {
            let path = format!("/v1/templates/{template}/{list}");
            api.operator(Method::GET, &path).header("accept", "application/x-ndjson")
        };
        let process = &world.platform.apis[0];
        let connections = async || {
            let mut all = 0.0;
            for state in ["waiting", "working", "answering"] {
                let gauge = format!("api_connections{{state=\"{state}\"}}");
                all += process.metric(&gauge).await.unwrap();
            }
            all
        };
        let before = chunks();
        let mut connection = world.mysql().await;
        verify::execute(&mut connection, "lock tables user_coupon write").await.unwrap();
        let mut left = Vec::new();
        for _ in 0..EXPORTS {
            left.push(export("coupons?status=used").timeout(STATE_MAX).send().await.unwrap());
        }
        until(connections, |all| *all >= EXPORTS as f64).await;
        drop(left);
        until(connections, |all| *all == 0.0).await;
        verify::execute(&mut connection, "unlock tables").await.unwrap();
        // Their places are free once they have ended.
        let next = async || api.send(export("movements")).await.unwrap().status;
        until(next, |status| *status == 200).await;
        let read = chunks() - before;
        assert!((EXPORTS..=EXPORTS * TRIES).contains(&read), "{read} chunks were read for nobody");
        let whole = api.send(export("coupons?status=used")).await.unwrap();
        assert_eq!((whole.status, whole.body.as_str()), (200, ""), "whole, and empty");
        world.end().await;
    }
}

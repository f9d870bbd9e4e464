//! What a reconciler found: who sees it, and what becomes of it.

use std::sync::atomic::{AtomicI64, Ordering};

use coupon::{Epoch, FindingAbout, FindingId, FindingKind, MerchantId, TemplateId, UserId};
use mysql_store::{
    finding::{self, Finding, Found},
    finding_decision::{self, Decided, Judged},
    merchant::PLATFORM,
};
use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api};

use crate::operators::{
    cli::Cli,
    merchants::{made, merchant},
};

/// A user's id that no answer has by chance.
const USER: UserId = UserId(7_654_321_987_001);

/// Distance of two findings' ids, so that one beside another is of no finding.
const APART: i64 = 10_000;

static NEXT_ID: AtomicI64 = AtomicI64::new(8_765_432_100_001);

/// Records a finding about [`USER`], as a reconciler does.
pub(crate) async fn found(world: &World, merchant: MerchantId, kind: FindingKind) -> Finding {
    let id = FindingId(NEXT_ID.fetch_add(APART, Ordering::Relaxed));
    let found = Found {
        merchant_id: merchant,
        kind,
        template: (!kind.is_platforms()).then_some(TemplateId(7)),
        about: FindingAbout::User(USER),
        epoch: Some(Epoch(2)),
        version: None,
        expected: "[1]".to_owned(),
        seen: "[1, 2]".to_owned(),
        coupons: 1,
        money: Some(500),
        line: "somebody holds numbers [1] in MySQL, [1, 2] in the gate".to_owned(),
    };
    finding::record(&mut world.mysql().await, id, &found, world.clock.now()).await.unwrap()
}

async fn get(api: &Api, path: &str) -> Answer {
    api.send(api.operator(Method::GET, path)).await.unwrap()
}

async fn accept(api: &Api, id: FindingId, reason: &str) -> Answer {
    let request = api.operator(Method::POST, &format!("/v1/findings/{id}/accept"));
    api.send(request.json(&json!({ "reason": reason }))).await.unwrap()
}

fn refused(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code().unwrap_or_default())
}

fn refusal(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

/// The ids in a list.
async fn listed(api: &Api, query: &str) -> Vec<String> {
    let answer = get(api, &format!("/v1/findings{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let page: Value = answer.json().unwrap();
    let findings = page["data"].as_array().unwrap().iter();
    findings.map(|finding| finding["id"].as_str().unwrap().to_owned()).collect()
}

async fn key(api: &Api, scope: &str) -> Value {
    made(api, "/v1/api-keys", &json!({ "name": scope, "scopes": [scope] })).await
}

async fn with_key(api: &Api, scope: &str) -> Api {
    api.with_operator_key(key(api, scope).await["key"].as_str().unwrap())
}

async fn merchant_of(api: &Api) -> MerchantId {
    let id = key(api, "read").await["merchant_id"].as_str().unwrap().to_owned();
    id.parse().unwrap()
}

#[tokio::test]
async fn a_finding_is_seen_by_its_merchant_and_what_is_the_platforms_by_its_own_key_alone() {
    let world = World::start("findings").await;
    let platform = world.api();
    let one = merchant(&world, "One").await;
    let other = merchant(&world, "Other").await;
    let employee = with_key(platform, "admin").await;
    let leaked = found(&world, merchant_of(&one).await, FindingKind::NumberLeaked).await.id;
    let ours = found(&world, PLATFORM, FindingKind::Account).await.id;
    let view = found(&world, PLATFORM, FindingKind::View).await.id;
    let unknown = FindingId(leaked.0 + 1);
    let not_found = refusal(404, "FINDING_NOT_FOUND");
    for (who, id) in [(&other, leaked), (&one, ours), (&employee, view), (&employee, leaked)] {
        assert_eq!(refused(&get(who, &format!("/v1/findings/{id}")).await), not_found);
        assert_eq!(refused(&accept(who, id, "mine").await), not_found);
    }
    assert_eq!(refused(&accept(platform, unknown, "there is none").await), not_found);
    let shown: Value = get(&one, &format!("/v1/findings/{leaked}")).await.json().unwrap();
    assert_eq!((&shown["kind"], &shown["state"]), (&json!("number_leaked"), &json!("open")));
    assert_eq!((&shown["user_id"], &shown["money_minor"]), (&json!(USER), &json!(500)));

    let ids = |ids: &[FindingId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(listed(&one, "").await, ids(&[leaked]));
    assert_eq!(listed(&other, "").await, ids(&[]));
    assert_eq!(listed(&employee, "").await, ids(&[ours]));
    assert_eq!(listed(platform, "").await, ids(&[view, ours]));
    assert_eq!(listed(platform, "?merchant_id=all").await, ids(&[view, ours, leaked]));
    assert_eq!(listed(platform, "?merchant_id=all&kind=number_leaked").await, ids(&[leaked]));
    assert_eq!(listed(platform, "?merchant_id=all&state=accepted").await, ids(&[]));
    assert_eq!(listed(platform, "?merchant_id=all&template_id=7").await, ids(&[ours, leaked]));
    let second = format!("?merchant_id=all&limit=1&cursor={view}");
    assert_eq!(listed(platform, &second).await, ids(&[ours]));

    for (query, status, code) in [
        ("?kind=nothing", 422, "INVALID_STATUS"),
        ("?state=nothing", 422, "INVALID_STATUS"),
        ("?limit=0", 422, "INVALID_LIMIT"),
        ("?cursor=x", 400, "INVALID_CURSOR"),
        ("?merchant_id=x", 400, "MALFORMED_QUERY"),
        ("?merchant_id=all", 403, "PLATFORM_ONLY"),
    ] {
        let answer = get(&one, &format!("/v1/findings{query}")).await;
        assert_eq!(refused(&answer), refusal(status, code), "{query}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_finding_is_accepted_once_with_one_line_of_the_record_and_only_while_it_is_open() {
    let world = World::start("accepted").await;
    let platform = world.api();
    let finding = found(&world, PLATFORM, FindingKind::NumberLeaked).await;
    let id = finding.id;
    let reader = with_key(platform, "read").await;
    assert_eq!(refused(&accept(&reader, id, "may not").await), refusal(403, "SCOPE_LACKING"));
    assert_eq!(refused(&accept(platform, id, " ").await), refusal(422, "INVALID_CHANGE"));
    let employee = with_key(platform, "operate").await;
    let first = accept(&employee, id, "an old import").await;
    let second = accept(platform, id, "another reason").await;
    assert_eq!((first.status, second.status), (200, 200));
    assert_eq!(first.body, second.body, "the first reason stays");
    let accepted: Value = first.json().unwrap();
    assert_eq!(
        (&accepted["state"], &accepted["reason"]),
        (&json!("accepted"), &json!("an old import"))
    );
    let record: Value =
        get(platform, &format!("/v1/audit?target=findings/{id}")).await.json().unwrap();
    let lines = record["data"].as_array().unwrap();
    assert_eq!(lines.len(), 1, "{record}");
    assert_eq!(
        (&lines[0]["action"], &lines[0]["before"]["state"]),
        (&json!("finding.accept"), &json!("open"))
    );

    let repaired = found(&world, PLATFORM, FindingKind::NumberMissing).await;
    let judged = Judged { epoch: repaired.found.epoch, coupons: repaired.found.coupons };
    let decided = Decided { by: "platform", reason: "rebuilt", at: world.clock.now() };
    let mut connection = world.mysql().await;
    let ended = finding_decision::end_repair(&mut connection, repaired.id, judged, decided).await;
    assert!(ended.unwrap());
    let late = accept(platform, repaired.id, "too late").await;
    assert_eq!(refused(&late), refusal(409, "FINDING_DECIDED"));
    assert_eq!(late.json::<Value>().unwrap()["state"], "repaired");
    world.end().await;
}

#[tokio::test]
async fn findings_are_listed_shown_and_accepted_from_the_command_line() {
    let world = World::start("cli findings").await;
    let cli = Cli::of(&world);
    let id = found(&world, PLATFORM, FindingKind::Account).await.id;
    let open = cli.json("finding list --state open --kind account --template 7").await;
    assert_eq!(open["data"][0]["id"], json!(id));
    assert_eq!(cli.json(&format!("finding show {id}")).await["coupons"], 1);
    let accepted = cli.json(&format!("finding accept {id} --reason known")).await;
    assert_eq!(accepted["state"], "accepted");
    let nothing = cli.json("finding list --state open --merchant all").await;
    assert_eq!(nothing["data"], json!([]));
    let unknown = cli.run("finding show 1").await;
    assert!(unknown.code == 1 && unknown.err.contains("(FINDING_NOT_FOUND)"), "{unknown:?}");
    world.end().await;
}

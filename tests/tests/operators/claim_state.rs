//! `coupon claim show`: what an operator sees of a claim.

use std::fs;

use chrono::TimeDelta;
use coupon::UserId;
use devstack::PlatformOptions;
use futures::{StreamExt as _, stream};
use mysql_store::verify;
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api, Claimed, NewTemplate};
use tokio::time::Instant;

use crate::{
    desk::{another_merchant, post},
    operators::cli::Cli,
};

const KEY: &str = "the-key";

/// Fences that a merchant's keys may place per second (`docs/decisions/0018`).
const FENCES_PER_SECOND: i64 = 10;

/// Made-up claims that are looked up.
const MADE_UP: i64 = 300;

/// Concurrent requests.
const AT_A_TIME: usize = 32;

#[tokio::test]
async fn made_up_claims_of_one_merchant_cost_no_more_rows_than_its_limit_whatever_call_names_them()
{
    let world = World::start("made-up claims").await;
    let desk = another_merchant(world.api()).await;
    let new = NewTemplate::simple("Theirs", 10, world.clock.now(), TimeDelta::hours(1));
    let template = desk.publish_new(&new).await.unwrap().id;
    let key = json!({ "name": "checkout", "scopes": ["redeem"] });
    let key: Value = post(&desk, "/v1/api-keys", &key).await.json().unwrap();
    let shop = world.api().with_operator_key(key["key"].as_str().unwrap());
    // Ids of a minute ago: a claim with one could have been made, and would have landed by now.
    let id = |number: i64| ((template.0 >> 22) - 60_000 + number) << 22;
    let path = |kind: &str, number: i64, sub: &str| {
        format!("/v1/{kind}/{}{sub}?template={template}", id(number))
    };
    let look = async |path: String| -> Answer {
        desk.send(desk.operator(Method::GET, &path)).await.unwrap()
    };
    let change = async |api: &Api, path: String, body: Value| post(api, &path, &body).await;
    let began = Instant::now();
    let asked = stream::iter(0..MADE_UP).map(async |number| match number % 30 {
        0 => look(path("claim-states", number, "/story")).await,
        1..=3 => {
            let payment = json!({ "payment_ref": format!("p{number}") });
            change(&shop, path("claims", number, "/confirm"), payment).await
        }
        4..=6 => {
            let why = json!({ "reason": "t" });
            change(&shop, path("claims", number, "/cancel"), why).await
        }
        _ => look(path("claim-states", number, "")).await,
    });
    let answers: Vec<Answer> = asked.buffer_unordered(AT_A_TIME).collect().await;
    let seconds = i64::try_from(began.elapsed().as_secs()).unwrap() + 1;

    let count = |is: fn(&Answer) -> bool| answers.iter().filter(|answer| is(answer)).count();
    let given_up = count(|answer| answer.status == 200 && answer.body.contains("\"given_up\""));
    let refused = count(|answer| answer.code().as_deref() == Some("TOO_MANY_LOOKUPS"));
    let lost = count(|answer| answer.code().as_deref() == Some("CLAIM_NOT_FOUND"));
    println!("{given_up} given up, {lost} not found, {refused} refused in {seconds} s");
    assert!(given_up > 0 && refused > 0);
    assert_eq!(given_up + lost + refused, answers.len(), "none is on its way");
    let waits = |answer: &Answer| answer.status != 429 || answer.retry_after.is_some();
    assert!(answers.iter().all(waits));
    let mut connection = world.mysql().await;
    let rows = verify::number(&mut connection, "select count(*) from claim").await.unwrap();
    let most = FENCES_PER_SECOND * (seconds + 1);
    assert!(rows <= most, "{rows} rows for {MADE_UP} made-up claims, of {most}");
    // What was given up is so again, once the limit allows a look, and adds no row.
    let first = "select min(id) from claim";
    let first = verify::number(&mut connection, first).await.unwrap();
    let again = async || {
        let again = look(format!("/v1/claim-states/{first}?template={template}")).await;
        again.json::<Value>().unwrap()["status"].clone()
    };
    until(again, |status| status == "given_up").await;
    let all = verify::number(&mut connection, "select count(*) from claim").await.unwrap();
    assert_eq!(all, rows);
    world.assert_sound(None).await;
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_claim_on_its_way_is_shown_as_such_then_as_given_up_and_its_retry_as_landed() {
        let name = "claim states";
        let mut world =
            World::start_with(name, |options| PlatformOptions { apis: 2, ..options }).await;
        let several = |new| NewTemplate { per_user_limit: 2, max_per_claim: 2, ..new };
        let template = world.template(10, several).await;
        let hold = world.platform.options.dir.join("hold");
        fs::write(&hold, "").unwrap();
        let held = &mut world.platform.apis[1];
        held.kill().unwrap();
        held.set_env("FAIL_POINTS", &format!("claims.after_gate=hold:{}", hold.display()));
        held.start().await.unwrap();

        let [other, held] = [0, 1].map(|api| world.apis[api].shopper(UserId(1)).unwrap());
        let pending = held.claim(template, Some(KEY), 1).await.unwrap();
        assert_eq!(pending.code().as_deref(), Some("CLAIM_PENDING"), "{pending:?}");
        let pending: Value = pending.json().unwrap();
        let poll = pending["poll"].as_str().unwrap().strip_prefix("/v1/claims/").unwrap();
        let (id, of) = poll.split_once("?template=").unwrap();
        assert_eq!(of, template.to_string());

        let cli = Cli::of(&world);
        let show = format!("claim show {id} --template {of}");
        let state = cli.json(&show).await;
        let shown = (&state["id"], &state["status"], &state["template_id"], &state["user_id"]);
        assert_eq!(shown, (&json!(id), &json!("processing"), &json!(of), &json!("1")), "{state}");
        assert!(state.get("claim").is_none() && state["at"].is_string(), "{state}");
        let without = cli.run(&format!("claim show {id}")).await;
        assert!(without.code == 1 && without.err.contains("(TEMPLATE_NEEDED)"), "{without:?}");
        let another = cli.run(&format!("claim show 1 --template {of}")).await;
        assert!(another.code == 1 && another.err.contains("(CLAIM_NOT_FOUND)"), "{another:?}");

        // The api process dies: the resolver of the other one ends the admission after its grace.
        world.platform.apis[1].kill().unwrap();
        let state =
            until(async || cli.json(&show).await, |state| state["status"] != "processing").await;
        let shown = (&state["id"], &state["status"], &state["template_id"], &state["user_id"]);
        assert_eq!(shown, (&json!(id), &json!("given_up"), &json!(of), &json!("1")), "{state}");
        assert_eq!(cli.json(&format!("claim show {id}")).await, state, "MySQL knows it");

        let landed = other.claim(template, Some(KEY), 1).await.unwrap();
        assert_eq!((landed.status, landed.replayed), (201, false), "{landed:?}");
        let claimed: Claimed = landed.json().unwrap();
        let state = cli.json(&format!("claim show {} --template {of}", claimed.id)).await;
        assert_eq!(
            (&state["status"], &state["claim"]),
            (&json!("landed"), &landed.json().unwrap())
        );
        fs::remove_file(hold).unwrap();
        world.platform.apis[1].start().await.unwrap();
        world.assert_sound(None).await;
        world.end().await;
    }
}

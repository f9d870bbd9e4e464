//! `coupon claim show`: what an operator sees of a claim.

use std::fs;

use coupon::UserId;
use devstack::PlatformOptions;
use pipeline_tests::{World, until};
use serde_json::{Value, json};
use shopper::{Claimed, NewTemplate};

use crate::operators::cli::Cli;

const KEY: &str = "the-key";

#[tokio::test]
async fn a_claim_on_its_way_is_shown_as_such_then_as_given_up_and_its_retry_as_landed() {
    let name = "claim states";
    let mut world = World::start_with(name, |options| PlatformOptions { apis: 2, ..options }).await;
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
    assert_eq!((&state["status"], &state["claim"]), (&json!("landed"), &landed.json().unwrap()));
    fs::remove_file(hold).unwrap();
    world.platform.apis[1].start().await.unwrap();
    world.assert_sound(None).await;
    world.end().await;
}

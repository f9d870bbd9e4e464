//! Answers to tokens and keys that are not accepted: they distinguish expired from invalid. And which build answers.

use std::{env, process::Command};

use chrono::TimeDelta;
use coupon::UserId;
use devstack::project_root;
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, Api};

use crate::operators::cli::Cli;

/// The detail of a 401.
fn detail(answer: &Answer) -> String {
    let body: Value = answer.json().unwrap();
    assert_eq!((answer.status, &body["code"]), (401, &json!("UNAUTHENTICATED")), "{answer:?}");
    body["detail"].as_str().unwrap().to_owned()
}

async fn with_token(api: &Api, token: &str) -> String {
    let request = api.anonymous(Method::GET, "/v1/me/coupons");
    detail(&api.send(request.header("authorization", token)).await.unwrap())
}

async fn with_key(api: &Api, key: &str) -> String {
    let api = api.with_operator_key(key);
    detail(&api.send(api.operator(Method::GET, "/v1/whoami")).await.unwrap())
}

#[tokio::test]
async fn a_refused_token_or_key_is_told_whether_it_has_expired_or_is_invalid() {
    let world = World::start("refusals").await;
    let api = world.api();
    let old = api.shopper_until(UserId(1), TimeDelta::hours(-1)).unwrap();
    let expired = api.send(old.request(Method::GET, "/v1/me/coupons")).await.unwrap();
    assert_eq!(detail(&expired), "The token is not accepted: it has expired: get a new one.");
    let options = &world.platform.options;
    let url = world.platform.api_url();
    let forged = Api::new(url, &"x".repeat(32), &options.operator_key, world.clock.clone());
    let forged = forged.unwrap().shopper(UserId(1)).unwrap();
    let forged = api.send(forged.request(Method::GET, "/v1/me/coupons")).await.unwrap();
    assert_eq!(
        detail(&forged),
        "The token is not accepted: its signature is invalid: another secret or key has signed it."
    );
    let none = "Send the header `Authorization: Bearer …`, once.";
    assert_eq!(with_token(api, "Basic eA==").await, none);
    assert!(with_token(api, "Bearer x").await.starts_with("The token is not accepted: "));

    let made = async |body: Value| -> Value {
        let request = api.operator(Method::POST, "/v1/api-keys").json(&body);
        api.send(request).await.unwrap().json().unwrap()
    };
    let brief = world.clock.now() + TimeDelta::seconds(2);
    let key = made(json!({ "name": "brief", "scopes": ["read"], "expires_at": brief })).await;
    let key = key["key"].as_str().unwrap();
    until(async || world.clock.now(), |now| *now > brief).await;
    let told = with_key(api, key).await;
    assert!(told.starts_with("The operator's key has expired: it was accepted until 2"), "{told}");
    let kept = made(json!({ "name": "kept", "scopes": ["read"] })).await;
    let path = format!("/v1/api-keys/{}", kept["id"].as_str().unwrap());
    assert_eq!(api.send(api.operator(Method::DELETE, &path)).await.unwrap().status, 204);
    let told = with_key(api, kept["key"].as_str().unwrap()).await;
    assert!(told.starts_with("The operator's key was revoked: it was accepted until 2"), "{told}");
    let invalid = "The operator's key is not accepted.";
    let mut changed = key.to_owned();
    let last = if changed.pop() == Some('A') { 'B' } else { 'A' };
    changed.push(last);
    for wrong in ["x", changed.as_str()] {
        assert_eq!(with_key(api, wrong).await, invalid, "{wrong}");
    }
    // The command line says the same.
    let said = Cli::of(&world).with("OPERATOR_KEY", key).run("whoami").await;
    assert!(said.code == 1 && said.err.contains("has expired"), "{said:?}");
    let said = Cli::of(&world).with("OPERATOR_KEY", "x").run("whoami").await;
    assert!(said.code == 1 && said.err.contains("is not accepted"), "{said:?}");
    world.end().await;
}

#[test]
fn every_program_names_its_version_and_commit() {
    let own = env::current_exe().unwrap();
    let folder = own.ancestors().nth(2).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for name in [
        "api",
        "outbox-relay",
        "claim-lander",
        "cdc-tailer",
        "sync-consumer",
        "expiry-worker",
        "coupon",
    ] {
        let said = Command::new(folder.join(name)).arg("--version").output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let rest = said.trim_end().strip_prefix(&format!("{name} {version} (")).map(str::to_owned);
        let commit = rest.as_deref().and_then(|rest| rest.strip_suffix(')'));
        assert!(commit.is_some_and(|commit| !commit.is_empty()), "{name}: {said:?}");
    }
    // Containers are built with the commit.
    let file = std::fs::read_to_string(project_root().join("ops/Dockerfile")).unwrap();
    assert!(file.contains("BUILD_COMMIT"));
}

//! The api's OpenAPI document, the page that shows it, and a generic client that tests the api by it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use coupon::UserId;
use devstack::{not_checked, project_root};
use pipeline_tests::{World, until};
use reqwest::{Method, Request};
use serde_json::{Value, json};
use shopper::{Claimed, NewTemplate, Shopper};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::support::browser::Browser;

/// Returns all text of the page, including that in shadow trees.
const TEXT: &str = "(() => {
    const texts = [document.body.innerText];
    const walk = (root) => root.querySelectorAll('*').forEach((element) => {
        if (!element.shadowRoot) return;
        texts.push(element.shadowRoot.textContent);
        walk(element.shadowRoot);
    });
    walk(document);
    return texts.join(' ');
})()";

/// Some of our operations, as the page shows them, from the first to the last.
const SHOWN: [&str; 3] = ["What a shop page shows", "Claim coupons", "Top up or cut"];

/// How many times larger than an empty page's PNG the page's PNG must be.
const TIMES_EMPTY: usize = 5;

#[tokio::test]
async fn the_document_is_served_whole_and_not_again_to_who_has_it() {
    let world = World::start("openapi").await;
    let ask = |tag: Option<String>| {
        let request = world.api().anonymous(Method::GET, "/openapi.json");
        world.api().send(match tag {
            Some(tag) => request.header("if-none-match", tag),
            None => request,
        })
    };
    let first = ask(None).await.unwrap();
    assert_eq!((first.status, first.content_type.as_str()), (200, "application/json"));
    let document: Value = first.json().unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/v1/templates/{id}/claims"]["post"].is_object());
    let tag = first.header("etag").unwrap().to_owned();
    let again = ask(Some(tag.clone())).await.unwrap();
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    assert_eq!(ask(Some("\"other\"".to_owned())).await.unwrap().status, 200);
    let packed = world.api().anonymous(Method::GET, "/openapi.json");
    let packed = packed.header("accept-encoding", "br, gzip").send().await.unwrap();
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    assert_eq!(packed.headers()["vary"], "accept-encoding");
    assert_ne!(packed.headers()["etag"], tag.as_str(), "what is sent is not the same");
    let packed = packed.bytes().await.unwrap();
    assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() * 5 < first.body.len());

    let mut check = python(&world)
        .arg(project_root().join("ops/schemathesis/check_examples.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(first.body.as_bytes()).await.unwrap();
    let said = check.wait_with_output().await.unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
    world.end().await;
}

#[tokio::test]
async fn a_browser_shows_the_operations_and_asks_nobody_but_the_api() {
    let world = World::start("docs page").await;
    let dir = world.platform.options.dir.join("browser");
    let Some(mut browser) = Browser::start(&dir).await else {
        not_here("chromium-headless-shell");
        return world.end().await;
    };
    let empty = browser.screenshot().await;
    let page = world.platform.api_url().to_owned() + "/docs";
    browser.open(&page).await;
    let text = until(
        async || browser.evaluate(TEXT).await.as_str().unwrap_or_default().to_owned(),
        |text| SHOWN.into_iter().all(|operation| text.contains(operation)),
    )
    .await;
    assert!(text.contains("Coupon platform"));
    let shown = browser.screenshot().await;
    save(&shown).await;
    assert!(shown.len() > TIMES_EMPTY * empty.len(), "{} and {}", shown.len(), empty.len());

    let of = |method: &str| {
        let of_it: Vec<Value> =
            browser.events.iter().filter(|event| event["method"] == method).cloned().collect();
        of_it
    };
    let asked: Vec<String> = of("Network.requestWillBeSent")
        .iter()
        .map(|event| event["params"]["request"]["url"].as_str().unwrap().to_owned())
        .collect();
    let ours = |url: &String| url.starts_with(world.platform.api_url()) || url.starts_with("data:");
    assert!(asked.len() >= 3 && asked.iter().all(ours), "{asked:#?}");
    for what in ["Log.entryAdded", "Runtime.exceptionThrown"] {
        let reported = of(what);
        assert!(reported.is_empty(), "{reported:#?}");
    }
    browser.end().await;
    world.end().await;
}

#[tokio::test]
async fn a_stranger_who_has_only_the_document_finds_nothing_wrong() {
    // A stream that ends soon, for a client that reads to the end.
    let world =
        World::start_with("schemathesis", |options| options.with_env("EVENT_STREAM_SECONDS", "1"))
            .await;
    let shopper = world.api().shopper(UserId(1)).unwrap();
    let config = world.platform.options.dir.join("schemathesis.toml");
    fs::write(&config, configuration(&world, &shopper).await).unwrap();
    let operator_key = &world.platform.options.operator_key;
    let run = python(&world)
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(&config)
        .arg("run")
        .arg(world.platform.api_url().to_owned() + "/openapi.json")
        .env("USER_TOKEN", token_of(&shopper))
        .env("OPERATOR_KEY", operator_key)
        .output()
        .await
        .unwrap();
    let said = [&run.stdout, &run.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    let said = said.join("\n");
    assert!(run.status.success(), "{said}");
    // A run that tested nothing would find nothing.
    let tested = format!("Tested: {}", operations(&world).await);
    assert!(said.contains(&tested), "not {tested}: {said}");
    // Every invariant holds after all its requests.
    world.assert_sound(None).await;
    world.end().await;
}

/// Returns the api's document.
pub(crate) async fn document(world: &World) -> Value {
    let request = world.api().anonymous(Method::GET, "/openapi.json");
    world.api().send(request).await.unwrap().json().unwrap()
}

/// Counts the operations in the document.
async fn operations(world: &World) -> usize {
    let document = document(world).await;
    let items = document["paths"].as_object().unwrap().values();
    items.map(|item| item.as_object().unwrap().len()).sum()
}

/// Whether the document lists this code among the responses of the requested operation. Returns true for requests
/// that match no operation.
pub(crate) fn is_documented(document: &Value, request: &Request, status: u16, code: &str) -> bool {
    let path: Vec<&str> = request.url().path().split('/').collect();
    let fits = |template: &str| {
        let parts: Vec<&str> = template.split('/').collect();
        let fits = |(part, own): (&&str, &&str)| part == own || part.starts_with('{');
        parts.len() == path.len() && parts.iter().zip(&path).all(fits)
    };
    let paths = document["paths"].as_object().unwrap();
    // The router takes the more specific of two matching paths.
    let item = paths
        .iter()
        .filter(|(template, _)| fits(template))
        .min_by_key(|(template, _)| template.matches('{').count());
    let of_item = item.into_iter().flat_map(|(_, item)| item.as_object().unwrap());
    // Methods are case-sensitive: `post` is not one.
    let is_asked = |method: &str| method.to_uppercase() == request.method().as_str();
    let operation = of_item.into_iter().find(|(method, _)| is_asked(method));
    let Some((_, operation)) = operation else { return true };
    let responses = &operation["responses"][status.to_string()];
    !responses["content"]["application/problem+json"]["examples"][code].is_null()
}

/// Returns the tool's configuration with existing ids, which it could not guess.
async fn configuration(world: &World, shopper: &Shopper) -> String {
    let one = world.template(50, |new| new).await;
    let several = |new| NewTemplate { per_user_limit: 50, max_per_claim: 3, ..new };
    let several = world.template(50, several).await;
    let draft = NewTemplate::simple("A draft", 5, world.clock.now(), chrono::TimeDelta::hours(1));
    let draft = world.api().create(&draft).await.unwrap().id;
    let mut ids =
        vec![("templates", [one, several, draft].iter().map(ToString::to_string).collect())];
    let mut coupons = Vec::new();
    let mut claims = Vec::new();
    for key in ["first", "second", "third"] {
        let claimed = shopper.claim(several, Some(key), 3).await.unwrap();
        let claimed: Claimed = claimed.json().unwrap();
        claims.push(claimed.id.to_string());
        coupons.extend(claimed.coupons.iter().map(|coupon| coupon.id.to_string()));
    }
    let order = json!({
        "order_ref": "order-1", "amount": 5_000, "currency": "EUR", "coupons": [coupons[0]],
    });
    let redeemed = world.api().operator(Method::POST, "/v1/redemptions").json(&order);
    let redeemed = world.api().send(redeemed).await.unwrap();
    assert_eq!(redeemed.status, 201, "{redeemed:?}");
    let grants = json!({ "user_ids": ["2", "3"], "reason": "a job that there is" });
    let path = format!("/v1/templates/{several}/grants");
    let job = world.api().operator(Method::POST, &path).header("idempotency-key", "job");
    let job: Value = world.api().send(job.json(&grants)).await.unwrap().json().unwrap();
    ids.extend([("coupons", coupons), ("claims", claims)]);
    ids.push(("orders", vec!["order-1".to_owned()]));
    ids.push(("jobs", vec![job["id"].as_str().unwrap().to_owned()]));
    ids.push(("users", vec![shopper.user().to_string()]));
    let path = project_root().join("ops/schemathesis/schemathesis.toml");
    let mut text = fs::read_to_string(path).unwrap();
    for (name, values) in ids {
        let values: Vec<String> = values;
        text += &format!("\n[dictionaries.{name}]\nvalues = {}\n", json!(values));
    }
    text
}

fn token_of(shopper: &Shopper) -> String {
    let request = shopper.request(Method::GET, "/").build().unwrap();
    let header = request.headers()["authorization"].to_str().unwrap();
    header.strip_prefix("Bearer ").unwrap().to_owned()
}

/// Python with schemathesis, as installed by ops/install.sh; runs in the world's folder.
fn python(world: &World) -> Command {
    devstack::full_only("runs schemathesis");
    let root = project_root();
    let pinned = fs::read_to_string(root.join("ops/schemathesis/requirements.txt")).unwrap();
    let version = pinned.lines().find_map(|line| line.strip_prefix("schemathesis==")).unwrap();
    let cache =
        env::var_os("COUPON_CACHE").map_or_else(|| PathBuf::from(".dev/cache"), PathBuf::from);
    let python = root.join(cache).join(format!("schemathesis-{version}/bin/python"));
    assert!(python.is_file(), "{} is not there: ops/install.sh brings it", python.display());
    let mut command = Command::new(python);
    command.current_dir(&world.platform.options.dir).kill_on_drop(true);
    command
}

/// Reports a missing program as not checked; fails on CI.
fn not_here(program: &str) {
    assert!(env::var_os("CI").is_none(), "{program} is not here: ops/install.sh brings it");
    not_checked(&format!("what {program} would show, which is not on this machine"));
}

/// Saves the screenshot for inspection: .dev/test/docs.png.
async fn save(base64: &str) {
    let target: &Path = &project_root().join(".dev/test/docs.png");
    let file = fs::File::create(target).unwrap();
    let mut decode =
        Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(file).spawn().unwrap();
    decode.stdin.take().unwrap().write_all(base64.as_bytes()).await.unwrap();
    assert!(decode.wait().await.unwrap().success());
}

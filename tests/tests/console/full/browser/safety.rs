//! A session is of use to its own page only: not to another site, and without its token to nobody who copied the cookie.

use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{Console, PUBLISHED, found, secret, state_of};
use crate::console::refused;

/// Serves a page of another port of this machine, which for cookies is the same site; returns its address.
async fn foreign_page() -> String {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<p>A page</p>";
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            if stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                drop(stream.write_all(ANSWER).await);
            }
        }
    });
    format!("http://{address}/")
}

/// The cookie of the session, as its owner's browser has it.
async fn cookie(console: &mut Console) -> String {
    let mut answer = console.browser.call("Network.getCookies", json!({})).await;
    let cookies = answer["cookies"].take();
    let [cookie] = &cookies.as_array().unwrap()[..] else { panic!("{cookies}") };
    assert_eq!((&cookie["httpOnly"], &cookie["sameSite"]), (&json!(true), &json!("Strict")));
    let text = |name: &str| cookie[name].as_str().unwrap().to_owned();
    format!("{}={}", text("name"), text("value"))
}

#[tokio::test]
async fn another_sites_page_changes_nothing_in_the_name_of_who_is_signed_in() {
    let world = World::start("browser csrf").await;
    let template = world.template(20, |new| new).await;
    let mut console = Console::of_platform(&world).await;
    console.until_says("A sale").await;
    console.browser.open(&foreign_page().await).await;
    let pause = format!("{}/v1/templates/{template}/pause", world.platform.api_url());
    let sent = format!(
        "fetch({}, {{ method: 'POST', mode: 'no-cors', credentials: 'include' }}).then((answer) => answer.type, () => 'failed')",
        json!(pause)
    );
    let answer = console.promised(&sent).await;
    assert!(answer == "opaque" || answer == "failed", "the page learns nothing: {answer}");
    let asked = console.browser.events.iter().any(|event| {
        event["method"] == "Network.requestWillBeSent"
            && event["params"]["request"]["url"] == pause.as_str()
    });
    assert!(asked, "the browser sent it");
    assert_eq!(found(&world, &state_of(template)), PUBLISHED);
    console.browser.end().await;
    world.end().await;
}

#[tokio::test]
async fn a_copied_cookie_changes_nothing_without_the_token_and_ends_with_its_key() {
    let world = World::start("browser theft").await;
    let template = world.template(20, |new| new).await;
    let mut console = Console::open(&world, world.platform.api_url()).await;
    console.sign_in(&secret(&world, "operate").await).await;
    console.until_says("A sale").await;
    let cookie = cookie(&mut console).await;
    let api = world.api();
    let pause = format!("/v1/templates/{template}/pause");
    let sent = api.anonymous(Method::POST, &pause).header("cookie", &cookie);
    let answer = api.send(sent.header("sec-fetch-site", "same-origin")).await.unwrap();
    assert_eq!(refused(&answer), (403, "CROSS_SITE".to_owned()));
    assert_eq!(found(&world, &state_of(template)), PUBLISHED);

    let keys: Value =
        api.send(api.operator(Method::GET, "/v1/api-keys")).await.unwrap().json().unwrap();
    let path = format!("/v1/api-keys/{}", keys["items"][0]["id"].as_str().unwrap());
    assert_eq!(api.send(api.operator(Method::DELETE, &path)).await.unwrap().status, 204);
    console.until_says("Sign in again").await;
    let look = api.anonymous(Method::GET, "/v1/templates").header("cookie", &cookie);
    assert_eq!(refused(&api.send(look).await.unwrap()), (401, "UNAUTHENTICATED".to_owned()));
    console.end().await;
    world.end().await;
}

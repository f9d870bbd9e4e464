//! What goes wrong while somebody works: answers are lost, others change the same, a key ends, an api is away.

use coupon::TemplateId;
use pipeline_tests::World;
use reqwest::Method;
use serde_json::json;
use testkit::Proxy;

use super::{Console, PAUSED, claimed, found, secret, state_of, times_done, until_found};
use crate::operators::merchants::made;

/// The request that pauses a template, in the bytes of its first line.
fn pauses(template: TemplateId) -> Vec<u8> {
    format!("/v1/templates/{template}/pause ").into_bytes()
}

/// Opens a campaign's page by a proxy in front of the api.
async fn by(proxy: &Proxy, world: &World, template: TemplateId) -> Console {
    let base = proxy.instead_of(world.platform.api_url());
    let mut console = Console::open(world, &base).await;
    console.sign_in(&world.platform.options.operator_key).await;
    console.go(&format!("#/campaign/{template}")).await;
    console
}

#[tokio::test]
async fn a_change_whose_answer_is_lost_is_sent_again_and_takes_effect_once() {
    let world = World::start("browser lost answer").await;
    let template = world.template(20, |new| new).await;
    let proxy = Proxy::before(world.platform.api_url()).await;
    let mut console = by(&proxy, &world, template).await;
    let mut answer = proxy.hold_answer(&pauses(template));
    console.click("Pause").await;
    answer.reached().await;
    until_found(&world, &state_of(template), PAUSED).await;
    answer.cut();
    console.until_says("is paused: claims are refused").await;
    assert_eq!(times_done(&world, "template.pause"), "1");
    console.end().await;
    world.end().await;
}

#[tokio::test]
async fn after_a_reload_a_change_without_an_answer_is_offered_and_takes_effect_once() {
    let world = World::start("browser reload").await;
    let template = world.template(20, |new| new).await;
    let proxy = Proxy::before(world.platform.api_url()).await;
    let mut console = by(&proxy, &world, template).await;
    let mut answer = proxy.hold_answer(&pauses(template));
    console.click("Pause").await;
    answer.reached().await;
    until_found(&world, &state_of(template), PAUSED).await;
    console.reload().await;
    console.until_says("whether it was done is not known").await;
    answer.cut();
    console.click("Send it again").await;
    console.until("!document.querySelector('.unanswered')").await;
    console.until_says("Resume").await;
    assert_eq!(times_done(&world, "template.pause"), "1");
    console.end().await;
    world.end().await;
}

#[tokio::test]
async fn two_operators_who_edit_one_campaign_see_each_others_changes() {
    let world = World::start("browser two editors").await;
    let template = world.template(20, |new| new).await;
    let mut console = Console::of_platform(&world).await;
    console.go(&format!("#/edit/{template}")).await;
    console.fill("#name", "Mine").await;
    console.until_says("What changes").await;
    let path = format!("/v1/templates/{template}");
    let theirs = json!({ "name": "Theirs", "self_redeem": true });
    let theirs = world.api().operator(Method::PATCH, &path).header("if-match", "*").json(&theirs);
    assert_eq!(world.api().send(theirs).await.unwrap().status, 200);
    console.click("Save").await;
    console.until_says("Somebody else has changed it meanwhile").await;
    let row = "[...document.querySelectorAll('dialog tr.both')].map((row) => row.innerText)[0]";
    let row = console.browser.evaluate(row).await;
    assert_eq!(row, "name\tA sale\tTheirs\tMine");
    let now = format!("SELECT name, self_redeem FROM coupon_template WHERE id = {template}");
    assert_eq!(found(&world, &now), "Theirs\t1", "nothing is saved before it is decided");
    console.click_twice("Save mine over it").await;
    until_found(&world, &now, "Mine\t1").await;
    console.end().await;
    world.end().await;
}

#[tokio::test]
async fn a_key_that_is_revoked_locks_the_page_and_what_was_typed_is_kept() {
    let world = World::start("browser revoked").await;
    let api = world.api();
    let key = json!({ "name": "Ada", "scopes": ["operate"] });
    let key = made(api, "/v1/api-keys", &key).await;
    let another = secret(&world, "operate").await;
    let mut console = Console::open(&world, world.platform.api_url()).await;
    console.sign_in(key["key"].as_str().unwrap()).await;
    console.go("#/create").await;
    console.fill("#name", "Half typed").await;
    let path = format!("/v1/api-keys/{}", key["id"].as_str().unwrap());
    let revoked = api.send(api.operator(Method::DELETE, &path)).await.unwrap();
    assert_eq!(revoked.status, 204, "{revoked:?}");
    console.until_says("Sign in again: what you typed is still there.").await;
    console.until("document.querySelector('.locked').inert").await;
    console.sign_in(&another).await;
    console.until("document.querySelector('#name').value === 'Half typed'").await;
    console.end().await;
    world.end().await;
}

#[tokio::test]
async fn figures_of_an_api_that_hangs_are_grey_and_never_zero_and_come_back_with_it() {
    let mut world = World::start("browser stale").await;
    let template = world.template(20, |new| new).await;
    claimed(&world, template, 42).await;
    let mut console = Console::of_platform(&world).await;
    console.until_bar("19 left").await;
    world.platform.apis[0].pause().unwrap();
    console.until_says("last seen").await;
    console.until_says("this page does not hear from the api").await;
    console.until("document.querySelector('.stock.is-stale')").await;
    console.until_bar("19 left").await;
    let colour = "getComputedStyle(document.querySelector('.equation b')).color";
    let muted = "getComputedStyle(document.querySelector('.equation')).color";
    console.until(&format!("{colour} === {muted}")).await;
    world.platform.apis[0].resume().unwrap();
    console
        .until("!document.querySelector('.last-seen') && !document.querySelector('.is-stale')")
        .await;

    world.platform.apis[0].restart().await.unwrap();
    console.until_bar("19 left").await;
    console
        .until("!document.querySelector('.last-seen') && !document.querySelector('.sign-in')")
        .await;
    console.end().await;
    world.end().await;
}

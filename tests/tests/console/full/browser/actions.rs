//! A campaign from its creation to its end, by the console's buttons; each is counted in MySQL, and a second click changes nothing.

use chrono::{DateTime, TimeDelta, Utc};
use pipeline_tests::World;

use super::{Console, ENDED, PAUSED, PUBLISHED, found, state_of, times_done, until_found};

const NAME: &str = "Night of lights";

/// A time as a field has it, in UTC.
fn local(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%dT%H:%M:%S").to_string()
}

#[tokio::test]
async fn a_campaign_is_made_changed_and_ended_and_each_click_counts_once() {
    let world = World::start("browser campaign").await;
    let now = world.clock.now();
    let mut console = Console::of_platform(&world).await;
    console.go("#/create").await;
    console.fill("#name", NAME).await;
    console.fill("#total_stock", "50").await;
    console.fill("#cap", "12.345").await;
    console.until_says("EUR has at most 2 decimals").await;
    console.fill("#cap", "25").await;
    console.fill("#starts", &local(now - TimeDelta::minutes(1))).await;
    console.fill("#ends", &local(now + TimeDelta::hours(2))).await;
    console.until_says("20 % off, at most €25.00").await;
    console.until_says("Claims open as soon as it is published").await;
    console.click_twice("Create the draft").await;
    console.until("location.hash.startsWith('#/campaign/')").await;
    let count = format!("SELECT COUNT(*) FROM coupon_template WHERE name = '{NAME}'");
    assert_eq!(found(&world, &count), "1");
    let id = found(&world, &format!("SELECT id FROM coupon_template WHERE name = '{NAME}'"));
    let state = state_of(id.parse().unwrap());

    console.click("Publish…").await;
    console.click("Publish").await;
    until_found(&world, &state, PUBLISHED).await;
    console.until_closed().await;
    console.click_twice("Pause").await;
    console.until_says("is paused: claims are refused").await;
    assert_eq!(found(&world, &state), PAUSED);
    assert_eq!(times_done(&world, "template.pause"), "1");
    console.click("Undo").await;
    until_found(&world, &state, PUBLISHED).await;

    console.click("Add or cut stock…").await;
    console.fill("#delta", "25").await;
    console.until_says("The total becomes 75").await;
    console.fill("#reason", "it sells well").await;
    console.click_twice("Add").await;
    console.until_says("now gives out 75 in all").await;
    console.until_closed().await;
    console.click("Add or cut stock…").await;
    console.fill("#delta", "-10").await;
    console.fill("#reason", "a mistake").await;
    console.until("document.querySelector('dialog .danger').disabled").await;
    console.fill("#typed-name", NAME).await;
    console.click_twice("Cut").await;
    console.until_says("now gives out 65 in all").await;
    console.until_closed().await;
    let total = format!("SELECT total, stock FROM template_stock WHERE template_id = {id}");
    assert_eq!(found(&world, &total), "65\t65");
    assert_eq!(times_done(&world, "stock.move"), "2");

    console.click("End…").await;
    console.fill("#typed-name", "another name").await;
    console.until("document.querySelector('dialog .danger').disabled").await;
    console.fill("#typed-name", NAME).await;
    console.click_twice("End for good").await;
    until_found(&world, &state, ENDED).await;
    console.until_says("has ended").await;
    assert_eq!(times_done(&world, "template.end"), "1");
    console.end().await;
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_key_is_shown_once_and_revoked_by_its_name() {
    let world = World::start("browser keys").await;
    let mut console = Console::of_platform(&world).await;
    console.go("#/keys").await;
    console.click("New key…").await;
    console.fill("#key-name", "Ada").await;
    console.click_twice("Make it").await;
    console.until("document.querySelector('.secret input')").await;
    let count = "SELECT COUNT(*) FROM api_key WHERE name = 'Ada'";
    assert_eq!(found(&world, count), "1");
    let shown = console.browser.evaluate("document.querySelector('.secret input').value").await;
    let ada = world.api().with_operator_key(shown.as_str().unwrap());
    let look = || ada.operator(reqwest::Method::GET, "/v1/templates");
    assert_eq!(ada.send(look()).await.unwrap().status, 200);
    console.click("I have it").await;
    console.reload().await;
    console.until_says("Ada").await;
    let again = console.browser.evaluate("document.querySelector('.secret')").await;
    assert!(again.is_null(), "it is on no page");

    console.click("Revoke…").await;
    console.fill("#typed-name", "Ada").await;
    console.click_twice("Revoke for good").await;
    console.until_says("is revoked, everywhere within two seconds").await;
    let revoked = "SELECT COUNT(*) FROM api_key WHERE name = 'Ada' AND revoked_at IS NOT NULL";
    assert_eq!(found(&world, revoked), "1");
    console.end().await;
    world.end().await;
}

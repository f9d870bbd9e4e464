//! Who signs in sees what the key may see: each page with data, without any, and not at all.

use pipeline_tests::World;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Console, claimed, secret};
use crate::operators::merchants::made;

/// A name that would be a picture and a script, if any page made markup of it.
const MARKUP: &str =
    "<img src=x onerror=\"window.hit = 1\"> & <b>a sale</b><script>window.hit = 1</script>";

#[tokio::test]
async fn an_operator_signs_in_and_out_and_no_script_can_read_key_or_cookie() {
    let world = World::start("browser sign in").await;
    let mut console = Console::open(&world, world.platform.api_url()).await;
    console.fill("#key", "not a key").await;
    console.click("Sign in").await;
    console.until_says("The api does not accept this key").await;
    let key = &world.platform.options.operator_key;
    console.sign_in(key).await;
    console.until_says("No sale is open or begins soon").await;
    let kept = "[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage)]";
    let kept = console.browser.evaluate(&format!("{kept}.join()")).await;
    let kept = kept.as_str().unwrap();
    assert!(kept.contains("csrf_token") && !kept.contains(key.as_str()), "{kept}");
    console.reload().await;
    console.until_says("No sale is open or begins soon").await;

    console.sign_out().await;
    let left =
        console.promised("fetch('/v1/console/session').then((answer) => answer.status)").await;
    assert_eq!(left, 401, "the cookie is gone");
    assert_eq!(console.browser.evaluate("localStorage.getItem('identity')").await, Value::Null);
    console.end().await;
    world.end().await;
}

#[tokio::test]
async fn each_page_shows_what_there_is() {
    let world = World::start("browser pages").await;
    let template = world.template(20, |new| new).await;
    let coupon = claimed(&world, template, 42).await;
    let mut console = Console::of_platform(&world).await;
    let campaign = format!("#/campaign/{template}");
    let pages = [
        ("#/now".to_owned(), "adds up"),
        ("#/campaigns".to_owned(), "1 of 20"),
        (campaign.clone(), "From requests to used coupons"),
        (format!("{campaign}?tab=report"), "Busiest second"),
        (format!("{campaign}?tab=stock"), "Ledger"),
        (format!("{campaign}?tab=people"), "Landed"),
        (format!("{campaign}?tab=terms"), "€5.00 off"),
        (format!("{campaign}?tab=record"), "Publish campaign"),
        ("#/customer/user/42".to_owned(), "Unused"),
        (format!("#/customer/coupon/{coupon}"), "Landed in MySQL"),
        ("#/customer".to_owned(), "Who needs help?"),
        ("#/grants".to_owned(), "Give coupons to a list of users"),
        ("#/create".to_owned(), "What a shopper sees"),
        ("#/health".to_owned(), "Deadlines of the next 24 hours"),
        ("#/keys".to_owned(), "Merchants"),
        ("#/record".to_owned(), "Publish campaign"),
        ("#/findings".to_owned(), "Nothing is wrong"),
    ];
    for (page, words) in &pages {
        console.go(page).await;
        console.until_says(words).await;
        console.until_read().await;
        let bad = console.browser.evaluate("document.querySelectorAll('.note.bad').length").await;
        assert_eq!(bad, 0, "{page}");
    }
    console.go("#/customer").await;
    console.fill("#find", "42").await;
    console.click("Find").await;
    console.until("location.hash === '#/customer/user/42'").await;
    console.end().await;
    world.end().await;
}

#[tokio::test]
async fn a_page_without_data_says_so_and_one_that_a_key_may_not_see_is_not_offered() {
    let world = World::start("browser rights").await;
    let template = world.template(20, |new| new).await;
    claimed(&world, template, 42).await;
    let shop = made(world.api(), "/v1/merchants", &json!({ "name": "Another shop" })).await;
    let key = json!({ "name": "Boss", "scopes": ["admin"], "merchant_id": shop["id"] });
    let boss = made(world.api(), "/v1/api-keys", &key).await;
    let mut console = Console::open(&world, world.platform.api_url()).await;
    console.sign_in(boss["key"].as_str().unwrap()).await;
    let empty = [
        ("#/now".to_owned(), "No sale is open or begins soon"),
        ("#/campaigns".to_owned(), "There is no campaign yet"),
        ("#/customer/user/42".to_owned(), "This user has no coupon"),
        (format!("#/campaign/{template}"), "There is no such campaign"),
        ("#/grants".to_owned(), "No grants yet"),
        ("#/findings".to_owned(), "Nothing is wrong"),
    ];
    for (page, words) in &empty {
        console.go(page).await;
        console.until_says(words).await;
    }
    console.sign_out().await;

    console.sign_in(&secret(&world, "read").await).await;
    let offered = console.browser.evaluate("document.querySelector('.side').innerText").await;
    assert_eq!(offered, "Now\nCampaigns\nCustomer\nGrants\nRecord\nFindings");
    let forbidden = [
        ("#/keys", "This key may not manage keys"),
        ("#/create", "This key may not change campaigns"),
        ("#/health", "This key may not see this"),
    ];
    for (page, words) in forbidden {
        console.go(page).await;
        console.until_says(words).await;
    }
    console.go(&format!("#/campaign/{template}")).await;
    console.until_says("adds up").await;
    let buttons = "document.querySelectorAll('.actions button').length";
    assert_eq!(console.browser.evaluate(buttons).await, 0);
    console.sign_out().await;

    console.sign_in(&secret(&world, "redeem").await).await;
    console.until_says("This key opens no page").await;
    console.end().await;
    world.end().await;
}

#[tokio::test]
async fn names_and_reasons_are_text_whatever_they_contain() {
    let world = World::start("browser markup").await;
    let api = world.api();
    let change =
        |new: shopper::NewTemplate| shopper::NewTemplate { name: MARKUP.to_owned(), ..new };
    let template = world.template(20, change).await;
    let coupon = claimed(&world, template, 42).await;
    let moved = json!({ "delta": 5, "reason": MARKUP });
    let moves = format!("/v1/templates/{template}/stock-movements");
    let moves = api.operator(Method::POST, &moves).header("idempotency-key", "more").json(&moved);
    let answer = api.send(moves).await.unwrap();
    assert!([200, 201].contains(&answer.status), "{answer:?}");
    made(api, "/v1/api-keys", &json!({ "name": MARKUP, "scopes": ["read"] })).await;
    let mut console = Console::of_platform(&world).await;
    let pages = [
        "#/now".to_owned(),
        "#/campaigns".to_owned(),
        format!("#/campaign/{template}"),
        format!("#/campaign/{template}?tab=stock"),
        format!("#/campaign/{template}?tab=record"),
        format!("#/edit/{template}"),
        "#/customer/user/42".to_owned(),
        format!("#/customer/coupon/{coupon}"),
        "#/keys".to_owned(),
        "#/record".to_owned(),
    ];
    for page in &pages {
        console.go(page).await;
        console.until_says("<img src=x onerror=").await;
        let made = "document.querySelectorAll('#app img, #app script').length + (window.hit || 0)";
        assert_eq!(console.browser.evaluate(made).await, 0, "{page}");
    }
    console.end().await;
    world.end().await;
}

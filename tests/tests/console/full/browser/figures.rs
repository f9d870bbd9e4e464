//! Figures are true in every frame: the bar's parts sum to the total, and times are instants whatever the clocks do.

use chrono::TimeDelta;
use pipeline_tests::World;
use serde_json::json;
use shopper::Claimed;

use super::{Console, found, until_found};
use crate::queued::{after_topic, shopper};

/// Looks at the equation of each sale after each change of the page: `looks` counts them, `odd` has those whose parts are not
/// the total, and `parts` all parts that were seen.
const WATCH: &str = "(() => {
    window.looks = 0;
    window.odd = [];
    window.parts = {};
    const number = (term) => Number(term.querySelector('b').textContent.replaceAll(',', ''));
    const look = () => {
        for (const equation of document.querySelectorAll('.equation')) {
            const terms = [...equation.querySelectorAll('.term')];
            const total = number(terms.pop());
            if (Number.isNaN(total)) continue;
            const signed = terms.map((term) => {
                const op = term.querySelector('.op');
                window.parts[term.querySelector('.swatch').className] = true;
                return (op && op.textContent === '−' ? -1 : 1) * number(term);
            });
            window.looks += 1;
            if (signed.reduce((sum, one) => sum + one, 0) !== total) window.odd.push(equation.innerText);
        }
    };
    new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
    look();
    return true;
})()";

/// Asserts that every look at the bars, of which there were several, found that they add up.
async fn assert_added_up(console: &mut Console, part: &str) {
    let seen = console.browser.evaluate("({ looks, odd, parts })").await;
    assert!(seen["looks"].as_i64().unwrap() > 5, "{seen}");
    assert_eq!(seen["odd"], json!([]));
    assert_eq!(seen["parts"][format!("swatch {part}")], true, "{seen}");
}

#[tokio::test]
async fn the_parts_of_a_sale_with_holds_add_up_in_every_frame() {
    let world = World::start("browser holds").await;
    let template = world.template(60, |new| new.held_for(TimeDelta::minutes(10))).await;
    let mut console = Console::of_platform(&world).await;
    console.until_bar("60 left").await;
    assert_eq!(console.browser.evaluate(WATCH).await, true);
    for user in 1..=40 {
        let answer = shopper(&world, 0, user).claim(template, Some("k"), 1).await.unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
        let claim: Claimed = answer.json().unwrap();
        if user % 2 == 0 {
            let paid =
                world.api().confirm(claim.id, &format!("payment {user}"), None).await.unwrap();
            assert_eq!(paid.status, 200, "{paid:?}");
        }
    }
    console.until_bar("20 confirmed").await;
    console.until_bar("20 held").await;
    console.until_bar("20 left").await;
    console.until_says("adds up").await;
    assert_added_up(&mut console, "held").await;
    console.end().await;
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn the_parts_of_a_queued_sale_add_up_in_every_frame() {
    let mut world = World::start_queued("browser queue").await;
    let template = world.template(60, after_topic).await;
    let mut console = Console::of_platform(&world).await;
    console.until_bar("60 left").await;
    assert_eq!(console.browser.evaluate(WATCH).await, true);
    world.platform.lander.pause().unwrap();
    for user in 1..=30 {
        let answer = shopper(&world, 0, user).claim(template, Some("k"), 1).await.unwrap();
        assert_eq!(answer.status, 202, "{answer:?}");
    }
    console.until_bar("30 queued").await;
    console.until_bar("30 left").await;
    world.platform.lander.resume().unwrap();
    console.until_bar("30 confirmed").await;
    console.until_says("adds up").await;
    assert_added_up(&mut console, "queued").await;
    console.end().await;
    world.assert_sound(None).await;
    world.end().await;
}

/// In Jerusalem clocks are set forward on a Friday, and back on a Sunday.
#[tokio::test]
async fn an_hour_that_comes_twice_is_asked_about_and_one_that_does_not_exist_is_refused() {
    let world = World::start("browser clocks").await;
    let mut console = Console::of_platform(&world).await;
    console.live_in("Asia/Jerusalem").await;
    console.reload().await;
    console.go("#/create").await;
    console.fill("#name", "Friday drop").await;
    console.until_says("Times are those of Asia/Jerusalem").await;
    console.fill("#starts", "2030-03-29T02:30:00").await;
    console.until_says("this hour does not exist here").await;
    console.click("Create the draft").await;
    console.until_says("Something above is not right yet").await;
    console.fill("#starts", "2030-10-27T01:30:00").await;
    console.fill("#ends", "2030-10-27T08:00:00").await;
    console.until_says("This hour comes twice").await;
    console.fill("select[aria-label='Which of both']", "later").await;
    console.click_twice("Create the draft").await;
    let window =
        "SELECT claim_starts_at, claim_ends_at FROM coupon_template WHERE name = 'Friday drop'";
    until_found(&world, window, "2030-10-26 23:30:00.000\t2030-10-27 06:00:00.000").await;
    console.until("location.hash.startsWith('#/campaign/')").await;
    assert_eq!(found(&world, "SELECT COUNT(*) FROM coupon_template"), "1");
    console.end().await;
    world.end().await;
}

//! The mode changes in the middle of a sale: the gate decides each claim, and a key has one answer through either door.

use coupon::{TemplateId, UserId};
use pipeline_tests::{
    World, histories,
    promises::{Ends, Promises},
};
use reqwest::Method;
use serde_json::json;
use shopper::{NewTemplate, Wish};

use crate::queued::{after_gate, arm, shopper, two_apis};

/// Changes a template's mode, as an operator does.
pub(crate) async fn set_mode(world: &World, template: TemplateId, mode: &str) {
    let request = world.api().operator(Method::PATCH, &format!("/v1/templates/{template}"));
    let request = request.header("if-match", "*").json(&json!({ "claim_mode": mode }));
    let answer = world.api().send(request).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn a_mode_that_changes_in_the_middle_of_a_sale_costs_no_coupon_and_doubles_none() {
    let world = World::start_queued_with("modes change", two_apis).await;
    let several = |new| after_gate(NewTemplate { per_user_limit: 2, ..new });
    let template = world.template(300, several).await;
    let wish = |user: i64, key: &str| Wish {
        copies: if user % 5 == 0 { 2 } else { 1 },
        again: user % 3 == 0,
        ..Wish::one(template, UserId(user)).with_key(key)
    };
    let wishes = (1..=150).flat_map(|user| [wish(user, "a"), wish(user, "b")]).collect();
    let crowd = world.crowd();
    let load = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
    for mode in ["direct", "spill", "queued"] {
        let before = world.count(template).await.all();
        set_mode(&world, template, mode).await;
        world.until(template, |counts| counts.all() > before || counts.all() == 300).await;
    }
    let run = load.await.unwrap();
    assert_eq!(run.given_up, 0);
    assert_eq!(world.count(template).await.all(), 300);
    let mut promises = Promises::of([&run]);
    let count = promises.claims.len();
    assert!(count > 0, "none was queued");
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(count));
    world.assert_sound(Some(&histories(vec![run]))).await;
    world.end().await;
}

#[tokio::test]
async fn a_mode_that_is_sent_with_a_window_as_it_is_holds_for_the_next_claim() {
    let world = World::start_queued_with("mode and window", two_apis).await;
    let template = world.template(10, |new| new).await;
    let direct = shopper(&world, 0, 1).claim(template, Some("a"), 1).await.unwrap();
    assert_eq!(direct.status, 201, "{direct:?}");
    let path = format!("/v1/templates/{template}");
    let shown = world.api().send(world.api().operator(Method::GET, &path)).await.unwrap();
    let shown: serde_json::Value = serde_json::from_str(&shown.body).unwrap();
    let request = world.api().operator(Method::PATCH, &path).header("if-match", "*");
    let both = json!({ "claim_mode": "queued", "claim_ends_at": shown["claim_ends_at"] });
    let edited = world.api().send(request.json(&both)).await.unwrap();
    assert_eq!(edited.status, 200, "{edited:?}");
    let mut promises = Promises::default();
    let queued = promises.claim(&shopper(&world, 0, 2), template, Some("a"), 1).await;
    assert_eq!(queued.status, 202, "{queued:?}");
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(1));
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_key_of_one_mode_is_answered_in_another_by_the_same_claim() {
        let mut world = World::start_queued_with("keys across modes", two_apis).await;
        let several = |new| after_gate(NewTemplate { per_user_limit: 3, ..new });
        let template = world.template(10, several).await;
        let mut promises = Promises::default();
        let [one, other] = [0, 1].map(|api| shopper(&world, api, 1));
        world.platform.lander.pause().unwrap();
        let queued = promises.claim(&one, template, Some("queued"), 1).await;
        assert_eq!(queued.status, 202, "{queued:?}");
        set_mode(&world, template, "direct").await;
        // It waits in the queue, whatever the mode is now.
        let waiting = promises.claim(&other, template, Some("queued"), 1).await;
        assert_eq!(waiting.status, 202, "{waiting:?}");
        let [first, again] = [0, 1].map(|at| promises.claims[at].id);
        assert_eq!(first, again, "another claim");
        let direct = promises.claim(&other, template, Some("direct"), 1).await;
        assert_eq!(direct.status, 201, "{direct:?}");
        set_mode(&world, template, "queued").await;
        for shopper in [&one, &other] {
            let again = promises.claim(shopper, template, Some("direct"), 1).await;
            assert_eq!((again.status, again.replayed), (201, true), "{again:?}");
            assert_eq!(again.body, direct.body);
        }
        world.platform.lander.resume().unwrap();
        assert_eq!(promises.kept(&world).await, Ends::all_succeeded(2));
        assert_eq!(world.count(template).await.all(), 2);

        // A new relay finds what came while none ran, even after the template went back to direct.
        world.platform.relay.kill().unwrap();
        let left = promises.claim(&one, template, Some("left"), 1).await;
        assert_eq!(left.status, 202, "{left:?}");
        set_mode(&world, template, "direct").await;
        arm(&mut world.platform.relay, "").await;
        assert_eq!(promises.kept(&world).await, Ends::all_succeeded(3));
        assert_eq!(world.count(template).await.all(), 3);
        world.assert_sound(None).await;
        world.end().await;
    }
}

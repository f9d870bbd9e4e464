//! A user who lets holds lapse is refused, until an operator lifts that.

use coupon::UserId;
use pipeline_tests::{World, until};
use serde_json::{Value, json};
use shopper::{Answer, NewTemplate};

use crate::{
    desk::{get, post, refusal},
    holds::{SHORT, claimed, number},
};

#[tokio::test]
async fn a_user_who_let_a_hold_lapse_is_refused_until_it_is_lifted() {
    let world = World::start("ban").await;
    let api = world.api();
    let once = |new: NewTemplate| NewTemplate { lapses_allowed: Some(1), ..new.held_for(SHORT) };
    let template = world.template(9, once).await;
    let (anna, _) = claimed(&world, template, 1, "a", 1).await;
    let user = format!("/v1/templates/{template}/users/1");
    let shown = until(async || get(api, &user).await, |shown| shown["lapses"] == json!(1)).await;
    assert_eq!((&shown["lapses_allowed"], &shown["banned"]), (&json!(1), &json!(true)));
    let claim = async || anna.claim(template, Some("b"), 1).await.unwrap();
    // Until the gate hears of the lapse, she has her one coupon.
    let is_banned = |answer: &Answer| answer.code().as_deref() == Some("BANNED");
    let refused = until(claim, is_banned).await;
    assert_eq!(refused.status, 409);
    assert_eq!(refused.json::<Value>().unwrap()["lapses"], json!(1));
    // Other users may claim.
    claimed(&world, template, 2, "a", 1).await;

    let wrong = post(api, &format!("{user}/ban/lift"), &json!({ "reason": "" })).await;
    assert_eq!(refusal(&wrong), (422, "INVALID_CHANGE".to_owned()));
    for _ in 0..2 {
        let lifted = api.lift_ban(template, UserId(1), "ticket 1").await.unwrap();
        assert_eq!(lifted.status, 200, "{}", lifted.body);
        assert_eq!(lifted.json::<Value>().unwrap()["banned"], json!(false));
    }
    let lifts =
        format!("select count(*) from stock_movement where template_id = {template} and kind = 2");
    assert_eq!(number(&world, &lifts).await, 1, "there was nothing to lift the second time");
    let answer = anna.claim(template, Some("b"), 1).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    let record = get(api, &format!("/v1/audit?target=templates/{template}&limit=1")).await;
    assert_eq!(record["data"][0]["action"], "ban.lift");
    world.assert_sound(None).await;
    world.end().await;
}

//! A user who lets holds lapse is refused, until an operator lifts that.

use coupon::UserId;
use pipeline_tests::{World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Answer, NewTemplate};

use crate::{
    desk::{another_merchant, get, post, refusal},
    holds::{SHORT, claimed, number},
    operators::cli::Cli,
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

/// Nobody pays for three coupons of a cart one by one, but each takes a unit that others wanted.
#[tokio::test]
async fn an_abandoned_claim_of_three_counts_three_lapses_and_the_template_says_that_coupons_count()
{
    let world = World::start("ban of a cart").await;
    let api = world.api();
    let three = |new: NewTemplate| NewTemplate {
        lapses_allowed: Some(3),
        // So that she cannot claim again before the gate hears of the lapses.
        per_user_limit: 3,
        max_per_claim: 3,
        ..new.held_for(SHORT)
    };
    let template = world.template(9, three).await;
    let (anna, _) = claimed(&world, template, 1, "a-cart", 3).await;
    claimed(&world, template, 2, "a-cart", 2).await;
    world.until(template, |counts| counts.lapsed == 5).await;
    for (user, lapses, banned) in [(1, 3, true), (2, 2, false)] {
        let shown = get(api, &format!("/v1/templates/{template}/users/{user}")).await;
        assert_eq!((&shown["lapses"], &shown["banned"]), (&json!(lapses), &json!(banned)));
    }
    let bans = get(api, &format!("/v1/templates/{template}/bans")).await;
    let listed = bans["data"].as_array().unwrap().iter().map(|one| &one["user_id"]);
    assert_eq!(listed.collect::<Vec<_>>(), ["1"], "two of three are no ban");
    let claim = async || anna.claim(template, Some("again"), 1).await.unwrap();
    let is_banned = |answer: &Answer| answer.code().as_deref() == Some("BANNED");
    let refused: Value = until(claim, is_banned).await.json().unwrap();
    assert!(refused["detail"].as_str().unwrap().contains("3 held coupons"), "{refused}");
    let document = api.send(api.anonymous(Method::GET, "/openapi.json")).await.unwrap();
    let document: Value = document.json().unwrap();
    let field = &document["components"]["schemas"]["NewTemplate"]["properties"]["lapses_allowed"];
    assert!(field["description"].as_str().unwrap().starts_with("Lapsed coupons"), "{field}");
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn users_who_are_refused_are_listed_in_pages_to_their_merchant_alone_until_they_are_forgiven()
{
    let world = World::start("list of bans").await;
    let api = world.api();
    let once = |new: NewTemplate| NewTemplate { lapses_allowed: Some(1), ..new.held_for(SHORT) };
    let template = world.template(9, once).await;
    for user in 1..=3 {
        claimed(&world, template, user, "a", 1).await;
    }
    world.until(template, |counts| counts.lapsed == 3).await;
    let path = format!("/v1/templates/{template}/bans");
    let mut users = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let page = get(api, &format!("{path}{query}")).await;
        let rows = page["data"].as_array().unwrap();
        users.extend(rows.iter().map(|one| one["user_id"].as_str().unwrap().to_owned()));
        assert!(rows.iter().all(|one| one["lapses"] == 1 && one["banned"] == true), "{page}");
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        query = format!("?limit=2&cursor={cursor}");
    }
    assert_eq!(users, ["1", "2", "3"]);
    assert_eq!(api.lift_ban(template, UserId(2), "ticket 1").await.unwrap().status, 200);
    let bans = Cli::of(&world).json(&format!("template bans {template} --limit 5")).await;
    let rows = bans["data"].as_array().unwrap().iter();
    assert_eq!(rows.map(|one| &one["user_id"]).collect::<Vec<_>>(), ["1", "3"]);

    let foreign = another_merchant(api).await;
    let hidden = foreign.send(foreign.operator(Method::GET, &path)).await.unwrap();
    assert_eq!(refusal(&hidden), (404, "TEMPLATE_NOT_FOUND".to_owned()));
    for (query, status, code) in
        [("limit=101", 422, "INVALID_LIMIT"), ("cursor=-1", 400, "INVALID_CURSOR")]
    {
        let asked = api.operator(Method::GET, &format!("{path}?{query}"));
        let wrong = api.send(asked).await.unwrap();
        assert_eq!(refusal(&wrong), (status, code.to_owned()), "{query}");
    }
    let forgiving = world.template(9, |new| new.held_for(SHORT)).await;
    let none = get(api, &format!("/v1/templates/{forgiving}/bans")).await;
    assert_eq!((&none["data"], &none["has_more"]), (&json!([]), &json!(false)));
    world.assert_sound(None).await;
    world.end().await;
}

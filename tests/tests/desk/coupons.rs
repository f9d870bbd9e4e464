//! Coupons looked up, revoked, extended and replaced; and races between these, uses and the deadline.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponId, TemplateId, UserId, limit::LOCK_MS_MAX};
use devstack::Flavor;
use pipeline_tests::{STATE_MAX, World, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Api, Claimed, NewTemplate, Shopper};
use tokio::{sync::Barrier, task::JoinSet};

use crate::{
    desk::{another_merchant, get, post, refusal},
    operators::cli::Cli,
    redemptions::orders::{lock, order, redeem},
};

/// Coupons over which a use, a revocation and the deadline race.
const RACES: i64 = 60;

async fn claimed(world: &World, template: TemplateId, user: i64) -> (Shopper, CouponId) {
    let shopper = world.api().shopper(UserId(user)).unwrap();
    shopper.all_coupons().await.unwrap();
    let answer = shopper.claim(template, None, 1).await.unwrap();
    let claimed: Claimed = answer.json().unwrap();
    (shopper, claimed.coupons[0].id)
}

fn why() -> Value {
    json!({ "reason": "ticket 1" })
}

/// The actions of the audit record on a coupon, newest first, with their reasons.
async fn record(world: &World, coupon: CouponId) -> Vec<(String, String)> {
    let lines = get(world.api(), &format!("/v1/audit?target=coupons/{coupon}")).await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let lines = lines["data"].as_array().unwrap().iter();
    lines.map(|line| (text(&line["action"]), text(&line["after"]["reason"]))).collect()
}

#[tokio::test]
async fn a_coupon_is_extended_replaced_and_revoked_and_the_stock_stays_as_it_was() {
    changed(Flavor::Mariadb).await;
}

async fn changed(flavor: Flavor) {
    let started = World::start_on_flavor(flavor, "desk", |options| options).await;
    let Some(world) = started else { return };
    let api = world.api();
    let template = world.template(3, |new| new).await;
    let (anna, coupon) = claimed(&world, template, 1).await;
    let path = format!("/v1/coupons/{coupon}");
    let shown = get(api, &path).await;
    assert_eq!((&shown["user_id"], &shown["status"]), (&json!("1"), &json!("unused")));

    let later = anna.coupon(coupon).await.unwrap().valid_until + TimeDelta::days(1);
    let extension = json!({ "valid_until": later, "reason": "ticket 1" });
    for _ in 0..2 {
        let extended = post(api, &format!("{path}/extend"), &extension).await;
        let extended: Value = extended.json().unwrap();
        assert_eq!(extended["version"], 2, "once: {extended}");
        let until: DateTime<Utc> = extended["valid_until"].as_str().unwrap().parse().unwrap();
        assert_eq!(until, later);
    }
    let earlier = json!({ "valid_until": later - TimeDelta::hours(1), "reason": "ticket 1" });
    let refused = post(api, &format!("{path}/extend"), &earlier).await;
    assert_eq!(refusal(&refused), (422, "INVALID_CHANGE".to_owned()));

    let replaced: Value = post(api, &format!("{path}/replace"), &why()).await.json().unwrap();
    let again: Value = post(api, &format!("{path}/replace"), &why()).await.json().unwrap();
    assert_eq!(again, replaced, "one replacement, however often it is asked for");
    assert_eq!(replaced["cancelled"]["status"], "cancelled");
    let new = &replaced["replacement"];
    let instead: CouponId = new["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        (&new["valid_until"], &new["claim_id"]),
        (&replaced["cancelled"]["valid_until"], &shown["claim_id"])
    );
    assert!(anna.until_visible(instead, STATE_MAX).await.is_some());
    let gone = async || anna.all_coupons().await.unwrap();
    let mine = until(gone, |mine| mine.iter().all(|one| one.id != coupon)).await;
    assert_eq!(mine.len(), 1);
    assert_eq!(get(api, &path).await["replaced_by"], json!(instead));
    assert_eq!(get(api, &format!("/v1/coupons/{instead}")).await["replaces"], json!(coupon));
    // The number stays taken and the unit gone; the replacement takes neither.
    let more = anna.claim(template, Some("more"), 1).await.unwrap();
    assert_eq!(more.code().as_deref(), Some("LIMIT_REACHED"));
    let stock = api.stock(template).await.unwrap();
    assert_eq!((stock.total, stock.stock, stock.landed), (3, 2, 1));

    let late = anna.use_coupon(coupon, "A-1").await.unwrap();
    assert_eq!(refusal(&late), (409, "COUPON_CANCELLED".to_owned()));
    assert_eq!(anna.use_coupon(instead, "A-1").await.unwrap().status, 200);
    for verb in ["revoke", "replace"] {
        let used = post(api, &format!("/v1/coupons/{instead}/{verb}"), &why()).await;
        assert_eq!(refusal(&used), (409, "COUPON_USED".to_owned()));
    }
    anna.unuse_coupon(instead, "A-1").await.unwrap();
    for _ in 0..2 {
        let revoked = post(api, &format!("/v1/coupons/{instead}/revoke"), &why()).await;
        assert_eq!(revoked.json::<Value>().unwrap()["status"], "cancelled");
    }
    let dead = post(api, &format!("/v1/coupons/{instead}/replace"), &why()).await;
    assert_eq!(refusal(&dead), (409, "COUPON_CANCELLED".to_owned()));
    let extension = json!({ "valid_until": later + TimeDelta::days(1), "reason": "ticket 1" });
    let dead = post(api, &format!("/v1/coupons/{instead}/extend"), &extension).await;
    assert_eq!(refusal(&dead), (409, "COUPON_CANCELLED".to_owned()));

    let counts = world.count(template).await;
    assert_eq!((counts.cancelled, counts.all()), (2, 2));
    let line = |action: &str| (action.to_owned(), "ticket 1".to_owned());
    assert_eq!(record(&world, coupon).await, [line("coupon.replace"), line("coupon.extend")]);
    assert_eq!(record(&world, instead).await[0], line("coupon.revoke"));
    // A gate that is loaded anew has the numbers of claims, and none of a replacement.
    let rebuilt = post(api, &format!("/v1/templates/{template}/gate-rebuild"), &json!({})).await;
    assert_eq!(rebuilt.status, 200, "{}", rebuilt.body);
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn what_a_user_used_at_a_till_is_given_back_as_the_refusal_says_and_no_other_order_is_touched()
 {
    let world = World::start("used at a till").await;
    let api = world.api();
    let template = world.template(2, |new| NewTemplate { self_redeem: true, ..new }).await;
    let (anna, at_a_till) = claimed(&world, template, 1).await;
    let (bert, ordered) = claimed(&world, template, 2).await;
    assert_eq!(bert.use_coupon(ordered, "A-1").await.unwrap().status, 200);
    // Anna's order has the same name as Bert's.
    assert_eq!(anna.redeem_myself(at_a_till, "use", "A-1").await.unwrap().status, 200);
    let order = async || get(api, "/v1/redemptions/A-1").await;
    let before = order().await;
    let later = world.clock.now() + TimeDelta::days(30);
    let extension = json!({ "valid_until": later, "reason": "ticket 1" });
    let refused = async |coupon: CouponId, verb: &str, body: &Value| -> Value {
        let used = post(api, &format!("/v1/coupons/{coupon}/{verb}"), body).await;
        assert_eq!(refusal(&used), (409, "COUPON_USED".to_owned()), "{verb}");
        used.json().unwrap()
    };
    for (verb, body) in [("revoke", &why()), ("replace", &why()), ("extend", &extension)] {
        let problem = refused(at_a_till, verb, body).await;
        let way_out = format!("/v1/coupons/{at_a_till}/unuse");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&way_out), "{detail}");
        let named = json!({ "user_id": problem["user_id"], "order_ref": problem["order_ref"] });
        assert_eq!(named, json!({ "user_id": "1", "order_ref": "A-1" }), "{problem}");
    }
    let cli = Cli::of(&world);
    let advised = cli.run(&format!("coupons revoke {at_a_till} --reason t")).await;
    assert!(advised.err.contains("`coupon unuse COUPON ORDER --user USER`"), "{advised:?}");
    assert!(advised.err.contains("\n  order_ref: A-1\n  user_id: 1\n"), "{advised:?}");
    let back = cli.json(&format!("unuse {at_a_till} A-1 --user 1")).await;
    assert_eq!(back["status"], "unused", "{back}");
    let revoked = post(api, &format!("/v1/coupons/{at_a_till}/revoke"), &why()).await;
    assert_eq!(revoked.json::<Value>().unwrap()["status"], "cancelled");
    assert_eq!(order().await, before, "the other customer's order is as it was");
    let counts = world.count(template).await;
    assert_eq!((counts.used, counts.cancelled), (1, 1));

    // What the shop's checkout used is given back in the same way.
    let problem = refused(ordered, "revoke", &why()).await;
    assert_eq!((&problem["user_id"], &problem["order_ref"]), (&json!("2"), &json!("A-1")));
    cli.json(&format!("unuse {ordered} A-1 --user 2")).await;
    let revoked = post(api, &format!("/v1/coupons/{ordered}/revoke"), &why()).await;
    assert_eq!(revoked.json::<Value>().unwrap()["status"], "cancelled");
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_coupon_of_an_order_is_given_back_and_revoked_alone_as_the_refusal_says() {
    let world = World::start("used together").await;
    let api = world.api();
    let template = world.template(2, |new| NewTemplate { stackable: true, ..new }).await;
    let other = world.template(2, |new| NewTemplate { stackable: true, ..new }).await;
    let (anna, first) = claimed(&world, template, 1).await;
    let (_, second) = claimed(&world, other, 1).await;
    let order = json!({
        "order_ref": "A-1", "user_id": "1", "amount": 2_000, "currency": "EUR",
        "coupons": [first.to_string(), second.to_string()],
    });
    let redeemed = post(api, "/v1/redemptions", &order).await;
    assert_eq!(redeemed.status, 201, "{}", redeemed.body);
    let refused = post(api, &format!("/v1/coupons/{first}/revoke"), &why()).await;
    let problem: Value = refused.json().unwrap();
    let of = json!({ "user_id": problem["user_id"], "order_ref": problem["order_ref"] });
    assert_eq!(post(api, &format!("/v1/coupons/{first}/unuse"), &of).await.status, 200);
    let revoked = post(api, &format!("/v1/coupons/{first}/revoke"), &why()).await;
    assert_eq!(revoked.json::<Value>().unwrap()["status"], "cancelled");
    assert_eq!(anna.coupon(second).await.unwrap().status, "used", "the other one stays redeemed");
    world.assert_sound(None).await;
    world.end().await;
}

/// The checkout keeps a coupon while its shopper pays, and the desk, which knows nothing of that, takes it away.
#[tokio::test]
async fn the_desk_is_told_of_a_checkouts_lock_and_the_order_of_the_replacement() {
    let world = World::start("locked and replaced").await;
    let api = world.api();
    let template = world.template(2, |new| new).await;
    let (_, replaced) = claimed(&world, template, 1).await;
    let (_, revoked) = claimed(&world, template, 2).await;
    assert_eq!(get(api, &format!("/v1/coupons/{replaced}")).await.get("locked_for"), None);
    for (coupon, name) in [(replaced, "A-1"), (revoked, "A-2")] {
        assert_eq!(lock(api, coupon, name, LOCK_MS_MAX).await.status, 200);
        let shown = get(api, &format!("/v1/coupons/{coupon}")).await;
        assert_eq!(shown["locked_for"]["order_ref"], name, "before it does anything: {shown}");
    }
    let answer = post(api, &format!("/v1/coupons/{replaced}/replace"), &why()).await;
    let answer: Value = answer.json().unwrap();
    assert_eq!(answer["cancelled"]["locked_for"]["order_ref"], "A-1", "{answer}");
    assert_eq!(answer["replacement"].get("locked_for"), None, "{answer}");
    let instead = answer["replacement"]["id"].as_str().unwrap().to_owned();
    let answer = post(api, &format!("/v1/coupons/{revoked}/revoke"), &why()).await;
    let answer: Value = answer.json().unwrap();
    assert_eq!(answer["locked_for"]["order_ref"], "A-2", "{answer}");

    // However the order asks, it is told what its user has instead.
    let use_it = json!({ "user_id": "1", "order_ref": "A-1" });
    for answer in [
        redeem(api, &order("A-1", 5_000, &[replaced])).await,
        post(api, &format!("/v1/coupons/{replaced}/use"), &use_it).await,
        lock(api, replaced, "A-1", 1_000).await,
    ] {
        assert_eq!(refusal(&answer), (409, "COUPON_CANCELLED".to_owned()), "{answer:?}");
        assert_eq!(answer.json::<Value>().unwrap()["replaced_by"], instead.as_str(), "{answer:?}");
    }
    let planned = json!({ "order_ref": "A-1", "amount": 5_000, "currency": "EUR" });
    let told = post(api, &format!("/v1/coupons/{replaced}/validate"), &planned).await;
    let told: Value = told.json().unwrap();
    assert_eq!(told["code"], "COUPON_CANCELLED", "{told}");
    assert!(told["detail"].as_str().unwrap().contains(&instead), "{told}");
    let refused = redeem(api, &order("A-2", 5_000, &[revoked])).await;
    assert_eq!(refusal(&refused), (409, "COUPON_CANCELLED".to_owned()));
    assert_eq!(refused.json::<Value>().unwrap().get("replaced_by"), None, "there is none");
    let instead = CouponId(instead.parse().unwrap());
    let redeemed = redeem(api, &order("A-1", 5_000, &[instead])).await;
    assert_eq!(redeemed.status, 201, "{redeemed:?}");
    let counts = world.count(template).await;
    assert_eq!((counts.used, counts.cancelled, counts.all()), (1, 2, 3));
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn coupons_are_found_by_order_user_and_template_and_by_nobody_else() {
    let world = World::start("desk search").await;
    let api = world.api();
    let template = world.template(30, |new| new).await;
    let mut coupons = Vec::new();
    for user in 1..=5 {
        coupons.push(claimed(&world, template, user).await);
    }
    for (shopper, coupon) in &coupons[..2] {
        assert_eq!(shopper.use_coupon(*coupon, "A 1/ä").await.unwrap().status, 200);
    }
    assert_eq!(coupons[2].0.use_coupon(coupons[2].1, "a 1/ä").await.unwrap().status, 200);
    let found = async |query: &str| -> Vec<Value> {
        let mut ids = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = get(api, &format!("/v1/coupons?{query}&limit=2{cursor}")).await;
            ids.extend(page["data"].as_array().unwrap().iter().map(|one| one["user_id"].clone()));
            let Some(next) = page["next_cursor"].as_str() else { return ids };
            cursor = format!("&cursor={next}");
        }
    };
    assert_eq!(found("order_ref=A%201%2F%C3%A4").await, ["2", "1"], "byte by byte");
    assert_eq!(found(&format!("template_id={template}")).await, ["1", "2", "3", "4", "5"]);
    assert_eq!(found(&format!("template_id={template}&status=unused")).await, ["4", "5"]);
    assert_eq!(found(&format!("template_id={template}&user_id=3")).await, ["3"]);
    assert_eq!(found("user_id=3&status=used").await, ["3"]);
    assert_eq!(found("user_id=3&status=cancelled").await, [Value::Null; 0]);

    let foreign = another_merchant(api).await;
    let coupon = coupons[0].1;
    let others = get(&foreign, "/v1/coupons?user_id=1").await;
    assert_eq!(others["data"], json!([]));
    let path = format!("/v1/coupons?template_id={template}");
    let hidden = foreign.send(foreign.operator(Method::GET, &path)).await.unwrap();
    assert_eq!(refusal(&hidden), (404, "TEMPLATE_NOT_FOUND".to_owned()));
    let nothing = (404, "COUPON_NOT_FOUND".to_owned());
    for verb in ["revoke", "replace"] {
        let refused = post(&foreign, &format!("/v1/coupons/{coupon}/{verb}"), &why()).await;
        assert_eq!(refusal(&refused), nothing, "{verb}");
    }
    for (query, code) in [
        ("status=used", "INVALID_SEARCH"),
        ("user_id=3&status=lost", "INVALID_STATUS"),
        ("user_id=3&cursor=x", "INVALID_CURSOR"),
        ("user_id=3&limit=0", "INVALID_LIMIT"),
        ("user_id=3&colour=red", "MALFORMED_QUERY"),
        ("order_ref=%20", "INVALID_ORDER_REF"),
    ] {
        let request = api.operator(Method::GET, &format!("/v1/coupons?{query}"));
        let answer = api.send(request).await.unwrap();
        assert_eq!(answer.code().as_deref(), Some(code), "{query}");
    }
    for (verb, body) in [
        ("revoke", json!({ "reason": " " })),
        ("extend", json!({ "reason": "x", "valid_until": "2020-01-01T00:00:00Z" })),
        ("replace", json!({ "reason": "a\u{202e}b" })),
    ] {
        let refused = post(api, &format!("/v1/coupons/{coupon}/{verb}"), &body).await;
        assert_eq!(refusal(&refused), (422, "INVALID_CHANGE".to_owned()), "{verb}");
    }
    let cli = Cli::of(&world);
    let shown = cli.json(&format!("coupons find --template {template} --status used")).await;
    assert_eq!(shown["data"].as_array().unwrap().len(), 3);
    let revoked = cli.json(&format!("coupons revoke {} --reason gone", coupons[4].1)).await;
    assert_eq!(revoked["status"], "cancelled");
    world.assert_sound(None).await;
    world.end().await;
}

/// Sends a use and a revocation of a coupon at once, and returns the status of each answer, the revocation's first.
async fn race(api: Api, shopper: Shopper, coupon: CouponId) -> (u16, u16) {
    let start = Barrier::new(2);
    let revocation = async {
        start.wait().await;
        post(&api, &format!("/v1/coupons/{coupon}/revoke"), &why()).await
    };
    let usage = async {
        start.wait().await;
        shopper.use_coupon(coupon, "race").await.unwrap()
    };
    let (revoked, used) = tokio::join!(revocation, usage);
    let outcome = (revoked.status, used.status);
    assert_ne!(outcome, (200, 200), "{revoked:?} {used:?}");
    let allowed = ["COUPON_USED", "COUPON_EXPIRED", "COUPON_CANCELLED"];
    for refused in [&revoked, &used].into_iter().filter(|answer| answer.status != 200) {
        assert!(allowed.contains(&refusal(refused).1.as_str()), "{refused:?}");
    }
    outcome
}

mod full {
    use super::*;

    /// The row's guard decides: of a use, a revocation and the flip exactly one has each coupon, and MySQL counts what the
    /// answers said.
    #[tokio::test]
    async fn a_use_a_revocation_and_the_deadline_race_and_one_of_them_has_the_coupon() {
        let world = World::start("desk races").await;
        let valid_for_ms = 3_000;
        let template = world.template(RACES, |new| NewTemplate { valid_for_ms, ..new }).await;
        let mut races = JoinSet::new();
        let mut at_the_deadline = Vec::new();
        for user in 1..=RACES {
            let shopper = world.api().shopper(UserId(user)).unwrap();
            let claimed: Claimed = shopper.claim(template, None, 1).await.unwrap().json().unwrap();
            let coupon = claimed.coupons[0].id;
            if user <= RACES / 3 {
                races.spawn(race(world.api().clone(), shopper, coupon));
            } else {
                at_the_deadline.push((shopper, coupon, claimed.valid_until));
            }
        }
        // The claims follow each other, and so do the deadlines: of the last two thirds half are over, and half are not.
        let deadline = at_the_deadline[at_the_deadline.len() / 2].2;
        until(async || world.clock.now(), |now| *now >= deadline).await;
        for (shopper, coupon, _) in at_the_deadline {
            races.spawn(race(world.api().clone(), shopper, coupon));
        }
        let ended = races.join_all().await;
        let counts = world.until(template, |counts| counts.unused == 0).await;
        let count = |is: fn(&(u16, u16)) -> bool| {
            i64::try_from(ended.iter().filter(|outcome| is(outcome)).count()).unwrap()
        };
        let revoked = count(|(revoked, _)| *revoked == 200);
        let used = count(|(_, used)| *used == 200);
        assert_eq!((counts.cancelled, counts.used), (revoked, used));
        assert_eq!(counts.expired, RACES - revoked - used);
        assert!(revoked + used >= RACES / 3, "{counts:?}");
        println!("{revoked} revoked, {used} used, {} expired", counts.expired);
        world.assert_sound(None).await;
        world.end().await;
    }

    #[tokio::test]
    #[ignore = "its statements run on MySQL in mysql-store and landing; ./dev soak mysql"]
    async fn a_coupon_on_mysql_is_extended_replaced_and_revoked_and_the_stock_stays_as_it_was() {
        changed(Flavor::Mysql).await;
    }
}

//! `coupon claim story`: a claim's way, hop by hop, beside what MySQL and the topics have.

use coupon::{ClaimId, CouponId, UserId};
use pipeline_tests::{World, promises::Promises, until};
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Claimed, NewTemplate};
use topic::{Message, TableReader, TopicNames, decode_claim};

use crate::{
    operators::cli::Cli,
    queued::{after_topic, assert_sold, shopper, two_apis},
    redemptions::orders::{order, redeem},
};

const KEY: &str = "the-key";

/// Returns the first hop of this name, or null.
fn hop(story: &Value, name: &str) -> Value {
    let hops = story["hops"].as_array().unwrap();
    hops.iter().find(|hop| hop["hop"] == name).cloned().unwrap_or_default()
}

/// Returns each hop with its state.
fn states(story: &Value) -> Vec<String> {
    let hops = story["hops"].as_array().unwrap().iter();
    let word = |hop: &Value, name: &str| hop[name].as_str().unwrap().to_owned();
    hops.map(|hop| format!("{} {}", word(hop, "hop"), word(hop, "state"))).collect()
}

fn is(story: &Value, name: &str, state: &str) -> bool {
    hop(story, name)["state"] == state
}

/// Returns the message of `topic` at which a hop says that it is.
async fn message_of(world: &World, topic: &str, hop: &Value) -> Message {
    let reader = TableReader::open(&world.scope.endpoints.kafka_brokers, topic).await.unwrap();
    let all = reader.read_to_end().await.unwrap();
    let is_there = |message: &Message| {
        hop["topic"] == topic
            && hop["partition"] == message.partition
            && hop["offset"] == message.offset
    };
    all.into_iter().find(is_there).unwrap_or_else(|| panic!("nothing is at {hop}"))
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[tokio::test]
async fn the_story_of_a_direct_claim_leads_from_its_request_to_its_coupons_ends() {
    let world = World::start("claim story").await;
    let cli = Cli::of(&world);
    let names = TopicNames::new(&world.scope.topic_prefix);
    let several = |new| NewTemplate { per_user_limit: 2, max_per_claim: 2, ..new };
    let template = world.template(10, several).await;
    world.warm_views([1]).await;
    let anna = world.api().shopper(UserId(1)).unwrap();
    let claimed = anna.claim(template, Some(KEY), 2).await.unwrap();
    assert_eq!(claimed.status, 201, "{claimed:?}");
    let claimed: Claimed = claimed.json().unwrap();
    let [one, other]: [CouponId; 2] = [claimed.coupons[0].id, claimed.coupons[1].id];
    let asked = format!("claim story {}", claimed.id);
    let is_over = |story: &Value| is(story, "published", "done") && is(story, "visible", "done");
    let story = until(async || cli.json(&asked).await, is_over).await;
    let all = [
        "received done",
        "admitted done",
        "relayed skipped",
        "taken skipped",
        "landed done",
        "published done",
        "visible done",
        "armed done",
        "expired pending",
        "armed done",
        "expired pending",
    ];
    assert_eq!(states(&story), all, "{story}");
    let told = (&story["id"], &story["status"], &story["user_id"], &story["claim"]["quantity"]);
    assert_eq!(told, (&json!(claimed.id.to_string()), &json!("landed"), &json!("1"), &json!(2)));
    let admitted = hop(&story, "admitted");
    assert_eq!((&admitted["stock_from"], &admitted["stock_to"]), (&json!(10), &json!(8)));
    let landed = hop(&story, "landed");
    assert!(landed["binlog_file"].is_string() && landed["gtid"].is_string(), "{landed}");
    let event = message_of(&world, &names.user_coupon(), &hop(&story, "published")).await;
    let event: Value = serde_json::from_slice(&event.payload.unwrap()).unwrap();
    assert_eq!(event["after"]["claim_id"], claimed.id.0);
    assert_eq!(event["source"]["pos"], landed["binlog_position"]);
    let of_hops = story["hops"].as_array().unwrap();
    for hop in of_hops {
        let is_late = hop["took_ms"].as_i64() > hop["usual_p99_ms"].as_i64();
        let is_known = hop["took_ms"].is_number() && hop["usual_p99_ms"].is_number();
        let expected = if is_known { json!(is_late) } else { Value::Null };
        assert_eq!(hop["late"], expected, "{hop}");
        let named = story["late"].as_array().unwrap().contains(&hop["hop"]);
        assert!(named || hop["late"] != true, "{story}");
    }

    let redeemed = redeem(world.api(), &order("A-1", 5_000, &[one])).await;
    assert_eq!(redeemed.status, 201, "{redeemed:?}");
    let story = cli.json(&asked).await;
    let redeemed = hop(&story, "redeemed");
    let told = (&redeemed["coupon_id"], &redeemed["order_ref"]);
    assert_eq!(told, (&json!(one.to_string()), &json!("A-1")));
    assert_eq!(hop(&story, "expired")["coupon_id"], other.to_string());
    let text = cli.run(&asked).await;
    assert!(text.code == 0 && text.out.contains("stock 10 → 8"), "{text:?}");
    let unknown = cli.run(&format!("claim story 1 --template {template}")).await;
    assert!(unknown.code == 1 && unknown.err.contains("(CLAIM_NOT_FOUND)"), "{unknown:?}");
    assert_sold(&world, template, 2).await;
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn the_story_of_a_queued_claim_says_where_it_waits_and_then_how_it_ended() {
        let mut world = World::start_queued("queued story").await;
        let cli = Cli::of(&world);
        let names = TopicNames::new(&world.scope.topic_prefix);
        let [landing, ending] =
            [world.template(5, after_topic).await, world.template(5, after_topic).await];
        world.platform.lander.pause().unwrap();
        let mut promises = Promises::default();
        let anna = shopper(&world, 0, 1);
        for template in [landing, ending] {
            let answer = promises.claim(&anna, template, Some(KEY), 1).await;
            assert_eq!(answer.status, 202, "{answer:?}");
        }
        let ids: Vec<ClaimId> = promises.claims.iter().map(|claim| claim.id).collect();
        let story = format!("claim story {} --template {landing}", ids[0]);
        let waiting = cli.json(&story).await;
        let so_far = ["received done", "admitted done", "relayed done", "taken pending"];
        assert_eq!(states(&waiting), so_far, "{waiting}");
        assert_eq!(waiting["status"], "processing");
        let admitted = hop(&waiting, "admitted");
        assert_eq!((&admitted["stock_from"], &admitted["stock_to"]), (&json!(5), &json!(4)));
        let sent = message_of(&world, &names.claims(), &hop(&waiting, "relayed")).await;
        let sent = decode_claim(&sent.payload.unwrap()).unwrap();
        assert_eq!(sent.admission.claim.id, ids[0]);
        assert_eq!(world.count(landing).await.all(), 0, "nothing has landed");
        let without = cli.run(&format!("claim story {}", ids[0])).await;
        assert!(without.code == 1 && without.err.contains("(TEMPLATE_NEEDED)"), "{without:?}");
        let waited = number(&hop(&waiting, "taken")["took_ms"]);
        let later = async || number(&hop(&cli.json(&story).await, "taken")["took_ms"]);
        until(later, |later| *later > waited).await;

        cli.json(&format!("template end {ending} --accepted reject --yes")).await;
        world.platform.lander.resume().unwrap();
        let told = async || cli.json(&story).await;
        let is_published =
            |told: &Value| is(told, "published", "done") && is(told, "visible", "done");
        let told = until(told, is_published).await;
        let whole = ["taken done", "landed done", "published done", "visible done", "armed done"];
        assert_eq!(states(&told)[3..8], whole, "{told}");
        let before = hop(&waiting, "relayed");
        let after = hop(&told, "relayed");
        assert_eq!((&before["offset"], &before["at"]), (&after["offset"], &after["at"]));

        let rejected = format!("claim story {} --template {ending}", ids[1]);
        let told = async || cli.json(&rejected).await;
        let told = until(told, |told| is(told, "rejected", "done")).await;
        assert_eq!((&told["status"], &told["code"]), (&json!("rejected"), &json!("ENDED")));
        assert_eq!(hop(&told, "rejected")["code"], "ENDED");
        assert!(is(&told, "relayed", "done") && hop(&told, "landed").is_null(), "{told}");
        assert_eq!(world.count(ending).await.all(), 0);
        assert_sold(&world, landing, 1).await;
        world.end().await;
    }

    #[tokio::test]
    async fn without_kafka_the_story_says_what_is_unknown_and_tells_the_rest() {
        let mut world = World::start_queued_with("story without kafka", two_apis).await;
        let direct = world.template(5, |new| new).await;
        let queued = world.template(5, after_topic).await;
        let mut promises = Promises::default();
        let anna = shopper(&world, 0, 1);
        let claimed: Claimed = promises.claim(&anna, direct, Some(KEY), 1).await.json().unwrap();
        assert_eq!(promises.claim(&anna, queued, Some(KEY), 1).await.status, 202);
        let accepted = promises.claims[0].id;
        world.until(queued, |counts| counts.all() == 1).await;
        let api = &mut world.platform.apis[1];
        api.stop().await.unwrap();
        api.set_env("KAFKA_BROKERS", "127.0.0.1:1");
        api.spawn().unwrap();
        let story = async |id: ClaimId| {
            let path = format!("/v1/claim-states/{id}/story");
            let look = async || {
                let request = world.apis[1].operator(Method::GET, &path);
                world.apis[1].send(request).await.ok().filter(|answer| answer.status == 200)
            };
            until(look, Option::is_some).await.unwrap().json::<Value>().unwrap()
        };
        for (id, is_queued) in [(claimed.id, false), (accepted, true)] {
            let story = story(id).await;
            let unknown = if is_queued { "unknown" } else { "skipped" };
            assert!(
                is(&story, "relayed", unknown) && is(&story, "published", "unknown"),
                "{story}"
            );
            assert!(hop(&story, "published")["why"].is_string(), "{story}");
            assert!(is(&story, "admitted", "done") && is(&story, "landed", "done"), "{story}");
            assert_eq!(hop(&story, "admitted")["stock_from"], 5, "MySQL says it");
            assert!(is(&story, "visible", "done") && is(&story, "expired", "pending"), "{story}");
        }
        assert_sold(&world, queued, 1).await;
        world.end().await;
    }
}

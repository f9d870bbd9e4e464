//! Manual repairs by an operator: a gate while users claim, a wrong view, dead letters.

use std::process::Command;

use coupon::UserId;
use pipeline_tests::{World, until};
use redis_view::keys;
use serde_json::{Value, json};
use shopper::{Claimed, Wish};
use topic::{HEADER_SCHEMA, Message, Producer, ProducerOptions, TableReader, TopicNames};

use crate::operators::cli::Cli;

#[tokio::test]
async fn a_list_that_lacks_a_coupon_is_right_after_its_rebuild() {
    let world = World::start("view rebuild").await;
    let cli = Cli::of(&world);
    let template = world.template(10, |new| new).await;
    world.warm_views([1]).await;
    let anna = world.api().shopper(UserId(1)).unwrap();
    let claimed: Claimed = anna.claim(template, None, 1).await.unwrap().json().unwrap();
    let coupon = claimed.coupons[0].id;
    assert!(anna.until_visible(coupon, pipeline_tests::STATE_MAX).await.is_some());
    // Removes everything but the sentinel, so the view still counts as whole.
    let list = keys::list(&world.scope.key_prefix, UserId(1));
    let view = &world.scope.endpoints.view_redis_url;
    let mut damage = Command::new("redis-cli");
    damage.args(["-u", view.as_str(), "zremrangebyrank", list.as_str(), "1", "-1"]);
    assert!(damage.output().unwrap().status.success());
    assert_eq!(anna.all_coupons().await.unwrap(), []);

    assert_eq!(cli.json("user rebuild-view 1").await, json!({ "user_id": "1" }));
    assert_eq!(anna.all_coupons().await.unwrap()[0].id, coupon);
    // A user without coupons, and without a view so far.
    assert_eq!(cli.json("user rebuild-view 77").await["user_id"], "77");
    let audit = cli.json("audit --target users/77").await;
    assert_eq!(audit["data"][0]["action"], "view.rebuild");
    assert_eq!(audit["data"][0]["after"], json!({ "rebuilt": true }));
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn a_dead_letter_is_put_back_once_where_it_came_from_or_said_to_be_incomplete() {
    let world = World::start("dead letters").await;
    let cli = Cli::of(&world);
    let names = TopicNames::new(&world.scope.topic_prefix);
    let brokers = world.scope.endpoints.kafka_brokers.clone();
    let on_topic = async || -> Vec<Message> {
        let reader = TableReader::open(&brokers, &names.user_coupon()).await.unwrap();
        reader.read_to_end().await.unwrap()
    };
    assert_eq!(cli.json("dead-letters list").await, json!({ "data": [] }));
    let nothing = json!({ "dry_run": false, "replayed": [], "passed_over": [] });
    assert_eq!(cli.json("dead-letters replay").await, nothing);

    // A readable letter, as an older consumer could have written it; and one without its payload, as the tailer
    // writes.
    let template = world.template(10, |new| new).await;
    let anna = world.api().shopper(UserId(7)).unwrap();
    assert_eq!(anna.claim(template, None, 1).await.unwrap().status, 201);
    let event = until(on_topic, |events| events.len() == 1).await.remove(0);
    let payload = event.payload.clone().unwrap();
    let topic = names.user_coupon();
    let partition = event.partition.to_string();
    let bytes = payload.len().to_string();
    let schema = event.header(HEADER_SCHEMA).unwrap();
    let producer = Producer::connect(&brokers, ProducerOptions::default()).await.unwrap();
    let whole: [(&str, &[u8]); 4] = [
        ("source-topic", topic.as_bytes()),
        ("source-partition", partition.as_bytes()),
        ("payload-bytes", bytes.as_bytes()),
        (HEADER_SCHEMA, schema),
    ];
    producer.send(&names.dead_letter(), None, b"7", &payload, &whole).await.unwrap();
    let cut: [(&str, &[u8]); 2] =
        [("source-topic", topic.as_bytes()), ("payload-bytes", b"2000000")];
    producer.send(&names.dead_letter(), None, b"8", b"", &cut).await.unwrap();

    let planned = cli.json("dead-letters replay --dry-run").await;
    assert_eq!(on_topic().await.len(), 1, "a dry run sends nothing");
    let done = cli.json("dead-letters replay").await;
    for report in [&planned, &done] {
        assert_eq!(
            (&report["replayed"][0]["key"], &report["replayed"][1]),
            (&json!("7"), &Value::Null)
        );
        assert_eq!(report["passed_over"][0]["key"], "8");
        assert!(
            report["passed_over"][0]["obstacle"].is_string() && report["passed_over"][1].is_null()
        );
    }
    assert_eq!(cli.json("dead-letters replay").await, nothing, "once");
    let events = on_topic().await;
    assert_eq!(events.len(), 2);
    assert_eq!((events[1].partition, &events[1].key), (event.partition, &event.key));
    assert_eq!(
        (&events[1].payload, events[1].header(HEADER_SCHEMA)),
        (&event.payload, Some(schema))
    );
    world.assert_sound(None).await;

    // A message that this consumer cannot read comes back as a new letter with its headers.
    let garbage = |message: &Message| message.key == b"9";
    let header: [(&str, &[u8]); 1] = [(HEADER_SCHEMA, b"99")];
    producer.send(&topic, None, b"9", b"{\"after\":", &header).await.unwrap();
    let letters = async || cli.json("dead-letters list").await["data"].as_array().unwrap().clone();
    let seen = until(letters, |letters| letters.len() == 3).await;
    assert_eq!((&seen[2]["key"], &seen[2]["done"]), (&json!("9"), &json!(false)));
    assert!(seen[2]["reason"].is_string() && seen[2]["payload_start"] == "{\"after\":");
    assert_eq!(cli.json("dead-letters replay").await["replayed"][0]["key"], "9");
    let seen = until(letters, |letters| letters.len() == 4).await;
    let done: Vec<&Value> = seen.iter().map(|letter| &letter["done"]).collect();
    assert_eq!(done, [true, true, true, false], "{seen:?}");
    let events = on_topic().await;
    let put_back: Vec<&Message> = events.iter().filter(|event| garbage(event)).collect();
    assert_eq!(put_back.len(), 2);
    assert_eq!(put_back[1].header(HEADER_SCHEMA), Some(&b"99"[..]));
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn a_gate_is_rebuilt_again_and_again_while_users_claim_and_exactly_the_stock_is_sold() {
        let world = World::start("gate rebuilds").await;
        let cli = Cli::of(&world);
        let template = world.template(1_500, |new| new).await;
        let before = cli.json(&format!("stock show {template}")).await["epoch"].as_i64().unwrap();
        let wishes = (1..=2_000).map(|user| Wish::one(template, UserId(user))).collect();
        let crowd = world.crowd();
        let rebuild = format!("template rebuild-gate {template}");
        let (run, epochs) = tokio::join!(crowd.run(wishes), async {
            let mut epochs = vec![before];
            for _ in 0..3 {
                world.until(template, |counts| counts.all() > 0).await;
                epochs.push(cli.json(&rebuild).await["epoch"].as_i64().unwrap());
            }
            epochs
        });
        assert!(epochs.is_sorted_by(|one, next| one < next), "each has a new epoch: {epochs:?}");
        let audit = cli.json(&format!("audit --target templates/{template} --limit 1")).await;
        assert_eq!(audit["data"][0]["action"], "gate.rebuild");
        let line = &audit["data"][0];
        assert_eq!(
            (&line["after"]["epoch"], &line["before"]["epoch"]),
            (&json!(epochs[3]), &json!(epochs[2]))
        );
        let run = run.unwrap();
        assert_eq!((world.count(template).await.all(), run.given_up), (1_500, 0));
        world.assert_sound(Some(&run.history)).await;
        world.end().await;
    }
}

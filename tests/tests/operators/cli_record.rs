//! Dead-letter replays are recorded, with their operator, before messages are sent; each command's audit record
//! names its trace.

use coupon::UserId;
use pipeline_tests::{World, until};
use serde_json::{Value, json};
use topic::{HEADER_SCHEMA, Message, Producer, ProducerOptions, TableReader, TopicNames};

use crate::operators::cli::{Cli, Ran};

/// A dead-letter topic with two letters: a readable change, and one without its complete payload.
struct Letters {
    world: World,
    names: TopicNames,
    /// Uses the platform's own key.
    cli: Cli,
}

impl Letters {
    async fn prepare(name: &str) -> Self {
        let world = World::start(name).await;
        let names = TopicNames::new(&world.scope.topic_prefix);
        let cli = Cli::of(&world);
        let letters = Self { world, names, cli };
        let template = letters.world.template(10, |new| new).await;
        let anna = letters.world.api().shopper(UserId(7)).unwrap();
        assert_eq!(anna.claim(template, None, 1).await.unwrap().status, 201);
        let one = async || letters.changes().await;
        let event = until(one, |events| events.len() == 1).await.remove(0);
        let payload = event.payload.clone().unwrap();
        let topic = letters.names.user_coupon();
        let bytes = payload.len().to_string();
        let whole: [(&str, &[u8]); 3] = [
            ("source-topic", topic.as_bytes()),
            ("payload-bytes", bytes.as_bytes()),
            (HEADER_SCHEMA, event.header(HEADER_SCHEMA).unwrap()),
        ];
        letters.send(b"7", &payload, &whole).await;
        let cut = [("source-topic", topic.as_bytes()), ("payload-bytes", &b"2000000"[..])];
        letters.send(b"8", b"", &cut).await;
        letters
    }

    fn brokers(&self) -> &str {
        &self.world.scope.endpoints.kafka_brokers
    }

    /// Returns all messages of the users' topic.
    async fn changes(&self) -> Vec<Message> {
        let reader = TableReader::open(self.brokers(), &self.names.user_coupon()).await.unwrap();
        reader.read_to_end().await.unwrap()
    }

    async fn send(&self, key: &[u8], payload: &[u8], headers: &[(&str, &[u8])]) {
        let options = ProducerOptions::default();
        let producer = Producer::connect(self.brokers(), options).await.unwrap();
        producer.send(&self.names.dead_letter(), None, key, payload, headers).await.unwrap();
    }

    /// Creates a key with this scope, for merchant 1 or another one; returns the key and its id.
    async fn key(&self, scope: &str, merchant: Option<&str>) -> (String, String) {
        let of = merchant.map(|id| format!(" --merchant {id}")).unwrap_or_default();
        let made = self.cli.json(&format!("key create by-hand --scope {scope}{of}")).await;
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("key"), text("id"))
    }

    async fn replay_by(&self, key: &str) -> Ran {
        self.cli.run(&format!("dead-letters replay --json --operator-key {key}")).await
    }

    /// Returns the audit records of replays, newest first.
    async fn record(&self) -> Vec<Value> {
        let page = self.cli.json("audit --target dead-letter-replays").await;
        page["data"].as_array().unwrap().clone()
    }

    /// Asserts that nothing was replayed and nothing is recorded.
    async fn assert_untouched(&self, why: &str) {
        assert_eq!(self.changes().await.len(), 1, "{why}");
        let letters = self.cli.json("dead-letters list").await;
        let done: Vec<&Value> =
            letters["data"].as_array().unwrap().iter().map(|letter| &letter["done"]).collect();
        assert_eq!(done, [false, false], "{why}");
        assert_eq!(self.record().await, [Value::Null; 0], "{why}");
    }
}

fn refusal(ran: &Ran) -> Value {
    assert!(ran.code == 1 && ran.out.is_empty(), "{ran:?}");
    serde_json::from_str(&ran.err).unwrap()
}

#[tokio::test]
async fn nobody_but_who_began_a_replay_reports_its_end_and_that_once() {
    let letters = Letters::prepare("replay lines").await;
    let (mine, _) = letters.key("operate", None).await;
    let (other, _) = letters.key("operate", None).await;
    let post = async |key: &str, path: &str, body: Value| {
        let api = letters.world.api().with_operator_key(key);
        let request = api.operator(reqwest::Method::POST, path).json(&body);
        api.send(request).await.unwrap()
    };
    let begin = json!({ "from_offset": 3, "to_offset": 9 });
    let begun = post(&mine, "/v1/dead-letter-replays", begin).await;
    assert_eq!(begun.status, 201, "{begun:?}");
    let line = letters.record().await.remove(0);
    let id = line["id"].as_str().unwrap();
    assert_eq!(begun.json::<Value>().unwrap(), json!({ "id": id }));
    assert_eq!((&line["after"], &line["before"]["from_offset"]), (&Value::Null, &json!(3)));
    let shown = letters.cli.run("audit --target dead-letter-replays").await;
    assert!(shown.out.contains("its end was not seen"), "{shown:?}");

    let end = format!("/v1/dead-letter-replays/{id}/end");
    let counts = |replayed: u32| json!({ "replayed": replayed, "passed_over": 0 });
    assert_eq!(post(&other, &end, counts(1)).await.status, 404, "another key's");
    let all = letters.cli.json("audit --limit 100").await;
    let all = all["data"].as_array().unwrap();
    let of_a_key = all.iter().find(|line| line["action"] == "key.create").unwrap();
    let of_a_key = of_a_key["id"].as_str().unwrap();
    let foreign = format!("/v1/dead-letter-replays/{of_a_key}/end");
    assert_eq!(post(&mine, &foreign, counts(1)).await.status, 404, "no replay");
    for _ in 0..2 {
        assert_eq!(post(&mine, &end, counts(6)).await.status, 200, "and the same again");
    }
    post(&mine, &end, counts(1)).await;
    let line = letters.record().await.remove(0);
    assert_eq!(line["after"], json!({ "replayed": 6, "passed_over": 0 }), "the first end stands");
    letters.world.end().await;
}

#[tokio::test]
async fn a_command_is_one_trace_and_the_record_says_in_words_what_it_changed() {
    let world = World::start("traced commands").await;
    let cli = Cli::of(&world);
    let template = world.template(10, |new| new).await;
    cli.json(&format!("template pause {template}")).await;
    cli.json(&format!("stock add {template} 5 --reason more")).await;
    let record = cli.json(&format!("audit --target templates/{template} --limit 2")).await;
    let traces: Vec<&str> = record["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["trace_id"].as_str().unwrap())
        .collect();
    assert!(traces[0] != traces[1] && traces.iter().all(|trace| trace.len() == 32), "{traces:?}");
    let shown = cli.run(&format!("audit --target templates/{template}")).await;
    for words in ["state: published -> paused", "total: 10 -> 15", "template.create", "platform"] {
        assert!(shown.out.contains(words), "{words}: {}", shown.out);
    }
    world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn who_puts_letters_back_is_recorded_before_they_go_and_how_it_ended_after_them() {
        let letters = Letters::prepare("recorded replay").await;
        letters.cli.json("dead-letters replay --dry-run").await;
        letters.assert_untouched("a dry run").await;

        let shop = letters.cli.json("merchant create Shop").await;
        let (stranger, _) = letters.key("operate", shop["id"].as_str()).await;
        let (reader, _) = letters.key("read", None).await;
        for (key, code) in [
            (stranger, "PLATFORM_ONLY"),
            (reader, "SCOPE_LACKING"),
            ("no-key".to_owned(), "UNAUTHENTICATED"),
        ] {
            let refused = refusal(&letters.replay_by(&key).await);
            assert_eq!((&refused["code"], refused["advice"].is_string()), (&json!(code), true));
            letters.assert_untouched(code).await;
        }
        let nobody = letters.cli.run("dead-letters replay --api-url http://127.0.0.1:1").await;
        assert_eq!(nobody.code, 3, "{nobody:?}");
        letters.assert_untouched("an api that is away").await;

        let (key, id) = letters.key("operate", None).await;
        let ran = letters.replay_by(&key).await;
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        let done: Value = serde_json::from_str(&ran.out).unwrap();
        assert_eq!(
            (&done["replayed"][0]["key"], &done["passed_over"][0]["key"]),
            (&json!("7"), &json!("8"))
        );
        assert_eq!(letters.changes().await.len(), 2);
        let record = letters.record().await;
        let [line] = &record[..] else { panic!("one line: {record:?}") };
        assert_eq!((&line["action"], &line["key_id"]), (&json!("dead_letter.replay"), &json!(id)));
        assert_eq!(line["before"], json!({ "from_offset": 0, "to_offset": 2 }));
        assert_eq!(line["after"], json!({ "replayed": 1, "passed_over": 1 }));
        assert_eq!(line["trace_id"].as_str().unwrap().len(), 32, "{line}");
        let shown = letters.cli.run("audit --target dead-letter-replays").await;
        assert!(shown.out.contains(&id) && shown.out.contains("replayed: 1"), "{shown:?}");

        let again = letters.replay_by(&key).await;
        let again: Value = serde_json::from_str(&again.out).unwrap();
        assert_eq!(again["replayed"], json!([]));
        assert_eq!(letters.record().await, record, "what does nothing has no line");
        letters.world.assert_sound(None).await;
        letters.world.end().await;
    }
}
